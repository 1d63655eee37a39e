/** An answer as it is written: what the model thought, its text, the tools that it calls, and what it took. */
import type { PricingItem } from '../../domain/usage.ts'
import { Button, IconButton } from '../ui/button.tsx'
import { copy } from '../ui/copy.tsx'
import { Icon } from '../ui/icon.tsx'
import { announce } from '../ui/notice.tsx'
import { AnswerFiguresLine } from './answer-figures.tsx'
import { CallView } from './call-view.tsx'
import { toEnding } from './chunks.ts'
import { EditText } from './edit-text.tsx'
import { backToEdit, toComposer } from './focus.ts'
import { end } from './run.ts'
import { ask, change, editing, isAnswering, removeAnswer } from './state.ts'
import { type Answer, changeAnswer, hasContent, isRunning, openCalls, type Round, type Side } from './thread.ts'

interface AnswerProps {
  round: Round
  side: Side
  answer: Answer
  /** Whom its side asks now. */
  model: string
  /** Of the model that has answered; null where it is not in the list. */
  pricing: readonly PricingItem[] | null
  /** Whether nothing stands behind it. */
  isLast: boolean
}

export function AnswerView(props: AnswerProps) {
  const { answer, pricing } = props
  const isOn = isRunning(answer)
  const name = answer.model ?? 'You, for the model'
  const stop = () => {
    end(answer.id)
    toComposer()
  }
  return (
    <article class="turn answer" aria-label={`Answer of ${name}`} aria-busy={isOn}>
      <header class="turn-head">
        <h2>{answer.model === null ? name : <code>{name}</code>}</h2>
        {isOn ? (
          <Button kind="quiet" icon="stop" onClick={stop}>
            Stop
          </Button>
        ) : (
          <Tools {...props} />
        )}
      </header>
      {answer.reasoning !== '' && (
        <details class="reasoning">
          <summary>{isOn && answer.text === '' ? 'Reasoning …' : 'Reasoning'}</summary>
          <p class="turn-text">{answer.reasoning}</p>
        </details>
      )}
      <Said {...props} />
      {answer.calls.map((call, at) => (
        <CallView key={call.id || at} answer={answer} call={call} />
      ))}
      <Ending of={answer} />
      {answer.model !== null && <AnswerFiguresLine of={answer} pricing={pricing} />}
    </article>
  )
}

function Said({ answer }: AnswerProps) {
  const { id, text, refusal } = answer
  if (editing.value === id) {
    const close = () => {
      editing.value = null
      backToEdit(id)
    }
    const save = (next: string) => {
      change((thread) => changeAnswer(thread, id, (one) => ({ ...one, text: next })))
      close()
    }
    const cancel = () => {
      // One that was to be written, and was not.
      if (answer.model === null && text === '') removeAnswer(id)
      close()
    }
    return <EditText text={text} label="Answer" save={save} cancel={cancel} />
  }
  if (text === '' && refusal === '') return isRunning(answer) ? <p class="turn-text play-caret" /> : null
  return (
    <>
      {text !== '' && <p class={isRunning(answer) ? 'turn-text play-caret' : 'turn-text'}>{text}</p>}
      {refusal !== '' && <p class="turn-text">{refusal}</p>}
    </>
  )
}

function Ending({ of: answer }: { of: Answer }) {
  const { state, problem } = answer
  const ending = problem ?? toEnding(answer)
  if (ending === null) return null
  const isBad = state === 'failed' || state === 'cut'
  return (
    <p class={isBad ? 'turn-ending bad' : 'turn-ending'}>
      {isBad && <Icon name="warning" />}
      <span>{ending}</span>
    </p>
  )
}

function Tools({ round, side, answer, model, isLast }: AnswerProps) {
  const { id, text } = answer
  const isBusy = isAnswering.value
  const of = answer.model ?? 'your own answer'
  const askNow = (instead: number | null) => {
    ask(round.id, side, model, instead)
    toComposer()
  }
  const remove = () => {
    removeAnswer(id)
    announce('Removed.')
    toComposer()
  }
  return (
    <div class="turn-tools">
      {text !== '' && <IconButton icon="copy" label={`Copy the answer of ${of}`} onClick={() => copy(text)} />}
      {hasContent(answer) && (
        <IconButton
          icon="edit"
          label={`Edit the answer of ${of}`}
          data-edit={id}
          disabled={isBusy}
          onClick={() => {
            editing.value = id
          }}
        />
      )}
      <IconButton icon="again" label={`Have ${model} answer anew`} disabled={isBusy} onClick={() => askNow(id)} />
      {isLast && hasContent(answer) && openCalls(answer).length === 0 && (
        <IconButton icon="right" label={`Have ${model} go on`} disabled={isBusy} onClick={() => askNow(null)} />
      )}
      <IconButton icon="remove" label={`Remove the answer of ${of}`} disabled={isBusy} onClick={remove} />
    </div>
  )
}
