/** A streaming answer: reasoning, text, tool calls, and figures. */
import { useEffect, useId, useState } from 'preact/hooks'
import type { PricingItem } from '../../domain/usage.ts'
import { toHref } from '../address/address.ts'
import { toCount } from '../figures/figures.ts'
import { Button, copy, Icon, IconButton } from '../ui/controls.tsx'
import { Count, Figure, Latency, Money, None } from '../ui/figure.tsx'
import { announce } from '../ui/notice.tsx'
import { backToEdit, toComposer } from './composer.tsx'
import type { Markdown } from './rendered.tsx'
import { clock, end } from './run.ts'
import { ask, change, editing, isAnswering, removeAnswer } from './state.ts'
import { toEnding, toFigures, toRate } from './stream.ts'
import {
  type Answer,
  type Call,
  changeAnswer,
  hasContent,
  isRunning,
  openCalls,
  type Round,
  type Side,
} from './thread.ts'
import { EditText } from './thread-view.tsx'

interface AnswerProps {
  round: Round
  side: Side
  answer: Answer
  /** The side's current model. */
  model: string
  /** Pricing of the answering model; null if unknown. */
  pricing: readonly PricingItem[] | null
  isLast: boolean
}

export function AnswerView(props: AnswerProps) {
  const { answer, pricing } = props
  const isOn = isRunning(answer)
  const [isRaw, setRaw] = useState(false)
  const name = answer.model ?? 'Written by you'
  const stop = () => {
    end(answer.id)
    toComposer()
  }
  return (
    <article class="turn answer" aria-label={`Response from ${name}`} aria-busy={isOn}>
      <header class="turn-head">
        <h2>{answer.model === null ? name : <code>{name}</code>}</h2>
        {isOn ? (
          <Button kind="quiet" icon="stop" onClick={stop}>
            Stop
          </Button>
        ) : (
          <Tools {...props} isRaw={isRaw} setRaw={setRaw} />
        )}
      </header>
      {answer.reasoning !== '' && (
        <details class="reasoning">
          <summary>{isOn && answer.text === '' ? 'Reasoning…' : 'Reasoning'}</summary>
          <p class="turn-text">{answer.reasoning}</p>
        </details>
      )}
      <Said {...props} isRaw={isRaw} />
      {answer.calls.map((call, at) => (
        <CallView key={call.id || at} answer={answer} call={call} />
      ))}
      <Ending of={answer} />
      {answer.model !== null && <AnswerFiguresLine of={answer} pricing={pricing} />}
    </article>
  )
}

function Said({ answer, isRaw }: AnswerProps & { isRaw: boolean }) {
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
      // Canceling a new handwritten answer removes it.
      if (answer.model === null && text === '') removeAnswer(id)
      close()
    }
    return <EditText text={text} label="Response" save={save} cancel={cancel} />
  }
  if (text === '' && refusal === '') return isRunning(answer) ? <p class="turn-text play-caret" /> : null
  return (
    <>
      {text !== '' && <Words text={text} isRunning={isRunning(answer)} isRaw={isRaw} />}
      {refusal !== '' && <p class="turn-text">{refusal}</p>}
    </>
  )
}

let loaded: typeof Markdown | null = null

/** Formatted once the Markdown code has loaded. */
function Words({ text, isRunning, isRaw }: { text: string; isRunning: boolean; isRaw: boolean }) {
  const [View, setView] = useState(() => loaded)
  useEffect(() => {
    if (loaded !== null) return
    void import('./rendered.tsx').then(
      ({ Markdown }) => {
        loaded = Markdown
        setView(() => Markdown)
      },
      // On failure, the plain text stays.
      () => {},
    )
  }, [])
  if (View !== null && !isRaw) return <View text={text} isRunning={isRunning} />
  if (!isRunning) return <LongText text={text} />
  return <p class="turn-text play-caret">{text}</p>
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

interface ToolsProps extends AnswerProps {
  isRaw: boolean
  setRaw(isRaw: boolean): void
}

function Tools({ round, side, answer, model, isLast, isRaw, setRaw }: ToolsProps) {
  const { id, text } = answer
  const isBusy = isAnswering.value
  const of = answer.model ?? 'you'
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
      {text !== '' && (
        <IconButton
          icon="code"
          label={`Show raw text of response from ${of}`}
          aria-pressed={isRaw}
          onClick={() => setRaw(!isRaw)}
        />
      )}
      {text !== '' && <IconButton icon="copy" label={`Copy response from ${of}`} onClick={() => copy(text)} />}
      {hasContent(answer) && (
        <IconButton
          icon="edit"
          label={`Edit response from ${of}`}
          data-edit={id}
          disabled={isBusy}
          onClick={() => {
            editing.value = id
          }}
        />
      )}
      <IconButton icon="again" label={`Regenerate with ${model}`} disabled={isBusy} onClick={() => askNow(id)} />
      {isLast && hasContent(answer) && openCalls(answer).length === 0 && (
        <IconButton icon="right" label={`Continue with ${model}`} disabled={isBusy} onClick={() => askNow(null)} />
      )}
      <IconButton icon="remove" label={`Remove response from ${of}`} disabled={isBusy} onClick={remove} />
    </div>
  )
}

function AnswerFiguresLine({ of: answer, pricing }: { of: Answer; pricing: readonly PricingItem[] | null }) {
  const { firstMs, tookMs, tokens, tokensPerSecond, nanoUsd, isEstimated } = toFigures(
    answer,
    pricing,
    isRunning(answer) ? clock.value : (answer.endedMs ?? answer.startedMs),
  )
  return (
    <dl class="play-figures">
      <Figure name="Time to first token">
        <Latency ms={firstMs && Math.round(firstMs)} />
      </Figure>
      <Figure name="Duration">
        <Latency ms={Math.round(tookMs)} />
      </Figure>
      <Figure name="Tokens">
        {isEstimated && tokens > 0 && '~'}
        <Count count={tokens} />
      </Figure>
      <Figure name="Speed">
        {tokensPerSecond === null ? <None /> : <span class="figure-text">{toRate(tokensPerSecond)}</span>}
      </Figure>
      <Figure name="Cost">
        {nanoUsd === null ? <None /> : <Money nanoUsd={nanoUsd} isEstimated={isEstimated && nanoUsd > 0} />}
      </Figure>
      {answer.requestId !== null && !isRunning(answer) && (
        <Figure name="Request">
          <a href={toHref(`/requests/${answer.requestId}`)}>…{answer.requestId.slice(-8)}</a>
        </Figure>
      )}
    </dl>
  )
}

function CallView({ answer, call }: { answer: Answer; call: Call }) {
  const id = useId()
  const { name, kind, input, result } = call
  const type = (value: string) =>
    change((thread) =>
      changeAnswer(thread, answer.id, (one) => ({
        ...one,
        calls: one.calls.map((each) => (each.id === call.id ? { ...each, result: value === '' ? null : value } : each)),
      })),
    )
  return (
    <section class="call" aria-label={`Call to ${name}`}>
      <h3>
        Tool call: <code>{name}</code>
      </h3>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard */}
      <pre tabIndex={0}>{kind === 'function' ? toPretty(input) : input}</pre>
      {answer.state === 'done' && (
        <div class="field">
          <label for={id}>Result</label>
          <textarea
            id={id}
            class="code-input grows"
            rows={2}
            value={result ?? ''}
            placeholder='{ "degrees": 21 }'
            spellcheck={false}
            data-sends
            onInput={({ currentTarget: { value } }) => type(value)}
          />
        </div>
      )}
    </section>
  )
}

/** Unchanged if it is incomplete or invalid JSON. */
function toPretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2)
  } catch {
    return json
  }
}

const MAX_SHOWN = 50_000

export const isLong = (text: string): boolean => text.length > MAX_SHOWN

export function LongText({ text }: { text: string }) {
  const [isWhole, setWhole] = useState(false)
  if (!isLong(text) || isWhole) return <p class="turn-text">{text}</p>
  return (
    <>
      <p class="turn-text">{text.slice(0, MAX_SHOWN).toWellFormed()} …</p>
      <div>
        <Button onClick={() => setWhole(true)}>Show {toCount(text.length - MAX_SHOWN)} more characters</Button>
      </div>
    </>
  )
}
