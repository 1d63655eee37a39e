/** Reads the items of the Responses API in which something is said, or thought. Pure. */
import type { AnswerEvent } from '../../../domain/events.ts'
import { asList, asObject, asText, type JsonObject } from '../../../domain/json.ts'

/** Adds what a message says, or a thought. */
export function readWords(item: JsonObject, out: AnswerEvent[]): void {
  const isThought = item.type === 'reasoning'
  for (const value of asList(item.summary)) {
    const text = asText(asObject(value)?.text).toWellFormed()
    if (text !== '') out.push(toSummary(text))
  }
  for (const value of asList(item.content)) {
    const part = asObject(value) ?? {}
    const text = asText(part.text).toWellFormed()
    const refusal = asText(part.refusal).toWellFormed()
    if (text !== '') out.push({ kind: isThought ? 'reasoning' : 'text', choice: 0, text })
    if (refusal !== '') out.push({ kind: 'refusal', choice: 0, text: refusal })
  }
}

/** A thought that is told in other words than it was thought in, or not at all. */
export const toSummary = (text: string): AnswerEvent => ({
  kind: 'reasoning',
  choice: 0,
  text,
  details: [{ type: 'reasoning.summary', index: 0 }],
})

/** A thought that nobody but its vendor can read. */
export const toHidden = (): AnswerEvent => ({
  kind: 'reasoning',
  choice: 0,
  text: '',
  details: [{ type: 'reasoning.encrypted', index: 0 }],
})
