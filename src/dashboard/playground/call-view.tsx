/** A call of a tool, and what it returns, which whoever tries the model types. */
import { useId } from 'preact/hooks'
import { change } from './state.ts'
import { type Answer, type Call, changeAnswer } from './thread.ts'

export function CallView({ answer, call }: { answer: Answer; call: Call }) {
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
    <section class="call" aria-label={`Call of ${name}`}>
      <h3>
        calls <code>{name}</code>
      </h3>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard */}
      <pre tabIndex={0}>{kind === 'function' ? toPretty(input) : input}</pre>
      {answer.state === 'done' && (
        <div class="field">
          <label for={id}>What it returns</label>
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

/** As the model wrote it, where that is no JSON or not all of it yet. */
function toPretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2)
  } catch {
    return json
  }
}
