/** The conversation: each message with the answers of one or two models. Scrolls along if the user is at its end. */
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { Button, IconButton } from '../ui/controls.tsx'
import { announce } from '../ui/notice.tsx'
import { AnswerView, isLong, LongText } from './answer.tsx'
import { backToEdit, PictureList, toComposer } from './composer.tsx'
import {
  ask,
  askAgain,
  change,
  editing,
  findModel,
  isAnswering,
  type OfferedModel,
  removeRound,
  thread,
  write,
} from './state.ts'
import { changeRound, isDue, isRunning, type Round, type Side } from './thread.ts'

interface ThreadProps {
  models: readonly OfferedModel[]
  chosen: readonly string[]
}

const NEAR_PX = 120
const isNearEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - NEAR_PX

export function ThreadView({ models, chosen }: ThreadProps) {
  const follows = useRef(true)
  const wasAnswering = useRef(false)
  useEffect(() => {
    const look = () => {
      follows.current = isNearEnd()
    }
    addEventListener('scroll', look, { passive: true })
    return () => removeEventListener('scroll', look)
  }, [])
  const rounds = thread.value.length
  // A new message scrolls to its answer.
  useLayoutEffect(() => {
    follows.current = true
  }, [rounds])
  useLayoutEffect(() => {
    // Also scrolls once an answer has ended and its figures appear.
    if (follows.current && (isAnswering.value || wasAnswering.current))
      scrollTo(0, document.documentElement.scrollHeight)
    wasAnswering.current = isAnswering.value
  }, [thread.value])
  return (
    <ol class="play-thread" aria-label="Conversation">
      {thread.value.map((round, at) => (
        <li key={round.id} class="play-round">
          <QuestionView round={round} chosen={chosen} number={at + 1} />
          <div class="play-sides" data-two={chosen.length > 1}>
            {chosen.map((model, side) => (
              <SideView key={side} {...{ round, model, models }} side={side === 0 ? 0 : 1} isLast={at === rounds - 1} />
            ))}
          </div>
        </li>
      ))}
    </ol>
  )
}

interface SideProps {
  round: Round
  side: Side
  model: string
  models: readonly OfferedModel[]
  isLast: boolean
}

function SideView({ round, side, model, models, isLast }: SideProps) {
  const answers = round.answers[side]
  const isItsTurn = isLast && !answers.some(isRunning) && isDue(thread.value, side)
  return (
    <div class="play-side">
      {answers.map((answer, at) => (
        <AnswerView
          key={answer.id}
          {...{ round, side, answer, model }}
          pricing={findModel(models, answer.model)?.pricing ?? null}
          isLast={isLast && at === answers.length - 1}
        />
      ))}
      {isItsTurn && (
        <p class="play-turn">
          <Button
            icon="right"
            onClick={() => {
              ask(round.id, side, model)
              toComposer()
            }}
          >
            Send to {model}
          </Button>
          {answers.length === 0 && (
            <Button kind="quiet" icon="edit" disabled={isAnswering.value} onClick={() => write(round.id, side)}>
              Write the response
            </Button>
          )}
        </p>
      )}
    </div>
  )
}

interface QuestionProps {
  round: Round
  chosen: readonly string[]
  /** From 1. */
  number: number
}

function QuestionView({ round, chosen, number }: QuestionProps) {
  const { id, text, pictures } = round
  const isBusy = isAnswering.value
  const save = (next: string) => {
    change((thread) => changeRound(thread, id, (one) => ({ ...one, text: next })))
    editing.value = null
    backToEdit(id)
  }
  const removePicture = (at: number) =>
    change((thread) =>
      changeRound(thread, id, (one) => ({ ...one, pictures: one.pictures.filter((_, index) => index !== at) })),
    )
  const again = () => {
    askAgain(id, chosen)
    toComposer()
  }
  const remove = () => {
    removeRound(id)
    announce('Removed the message and its responses.')
    toComposer()
  }
  const isEdited = editing.value === id
  return (
    <article class="turn asked" aria-label={`Message ${number}`}>
      <header class="turn-head">
        <h2>You</h2>
        <div class="turn-tools">
          <IconButton
            icon="edit"
            label={`Edit message ${number}`}
            data-edit={id}
            disabled={isBusy}
            onClick={() => {
              editing.value = id
            }}
          />
          <IconButton icon="again" label={`Resend message ${number}`} disabled={isBusy} onClick={again} />
          <IconButton
            icon="remove"
            label={`Remove message ${number} and its responses`}
            disabled={isBusy}
            onClick={remove}
          />
        </div>
      </header>
      <PictureList pictures={pictures} remove={isEdited ? removePicture : null} />
      {isEdited ? (
        <EditText
          text={text}
          label={`Message ${number}`}
          save={save}
          cancel={() => {
            editing.value = null
            backToEdit(id)
          }}
          also={{
            label: 'Save and resend',
            run: (next) => {
              save(next)
              again()
            },
          }}
        />
      ) : (
        text !== '' && <LongText text={text} />
      )}
    </article>
  )
}

interface EditProps {
  text: string
  label: string
  save(text: string): void
  cancel(): void
  /** Primary action, also on Ctrl+Enter; default: save. */
  also?: { label: string; run(text: string): void }
}

export function EditText({ text, label, save, cancel, also }: EditProps) {
  const [typed, setTyped] = useState(text)
  const at = useRef<HTMLTextAreaElement>(null)
  useEffect(() => at.current?.focus(), [])
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Escape') {
      event.preventDefault()
      cancel()
    }
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return
    event.preventDefault()
    const finish = also?.run ?? save
    finish(typed)
  }
  return (
    <div class="turn-edit">
      <textarea
        ref={at}
        class={isLong(text) ? 'is-long' : 'grows'}
        aria-label={label}
        value={typed}
        rows={3}
        onInput={({ currentTarget: { value } }) => setTyped(value)}
        onKeyDown={onKeyDown}
      />
      <div class="form-foot">
        {also && (
          <Button kind="main" onClick={() => also.run(typed)}>
            {also.label}
          </Button>
        )}
        <Button kind={also ? 'plain' : 'main'} onClick={() => save(typed)}>
          Save
        </Button>
        <Button kind="quiet" onClick={cancel}>
          Cancel
        </Button>
      </div>
    </div>
  )
}
