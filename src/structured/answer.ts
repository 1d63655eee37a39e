/** Reads and changes the answer of a call whose JSON the gateway sees to: one choice, as events. Pure. */
import type { AnswerEvent } from '../domain/events.ts'

const FINAL = new Set<unknown>(['length', 'content_filter', 'tool_calls', 'function_call'])

/** Whether an answer is delivered as it is: it was cut short, it is a refusal, or it calls a tool. */
export const isFinal = (events: readonly AnswerEvent[]): boolean =>
  events.some(
    (event) =>
      event.kind === 'refusal' || event.kind === 'tool' || (event.kind === 'finish' && FINAL.has(event.reason)),
  )

/** What it says. */
export const textOf = (events: readonly AnswerEvent[]): string =>
  events.map((event) => (event.kind === 'text' ? event.text : '')).join('')

/** Takes the thinking off the beginning of a text, also where only its closing tag was written. */
export function splitThinking(content: string): { thinking: string; answer: string } {
  const text = content.trimStart()
  const opened = text.startsWith('<think>')
  const from = opened ? '<think>'.length : 0
  const to = text.indexOf('</think>')
  if (opened && to === -1) return { thinking: text.slice(from).trim(), answer: '' }
  // What begins as JSON has no thinking before it, whatever tags its texts may hold.
  if (to === -1 || (!opened && /^[{["`]/.test(text))) return { thinking: '', answer: content }
  return { thinking: text.slice(from, to).trim(), answer: text.slice(to + '</think>'.length) }
}

/** Puts the JSON that was found in place of what was written, and the thinking before it where it belongs. */
export function withJson(events: readonly AnswerEvent[], json: string, thinking: string): AnswerEvent[] {
  if (textOf(events) === json) return [...events]
  const isKnown = thinking === '' || events.some((event) => event.kind === 'reasoning' && event.text !== '')
  const thought: AnswerEvent[] = isKnown ? [] : [{ kind: 'reasoning', choice: 0, text: thinking }]
  // Without its log probabilities: they are of the tokens that were written.
  const said: AnswerEvent = { kind: 'text', choice: 0, text: json }
  const at = events.findIndex(({ kind }) => kind === 'text')
  const rest = events.filter(({ kind }) => kind !== 'text')
  return [...rest.slice(0, Math.max(0, at)), ...thought, said, ...rest.slice(Math.max(0, at))]
}
