/**
 * Puts the demo's events into chunks, and into the choices of a whole answer, which is what backends give back as yet.
 * Pure.
 */
import type { AnswerEvent, ChatMessage, Choice, Delta } from '../domain/answer.ts'
import type { AnswerStream, AnswerEvent as Event, Logprobs, ToolKind } from '../domain/events.ts'
import type { Reply } from './reply.ts'

/** Converts a whole answer's events to its choices. */
export function toChoices(reply: Reply, events: readonly Event[]): Choice[] {
  return reply.choices.map(({ finish, parts }, index) => {
    const mine = events.filter((event) => 'choice' in event && event.choice === index)
    const message: ChatMessage = { role: 'assistant', content: isReading(parts) ? '' : null, refusal: null }
    let logprobs: Logprobs | null = null
    for (const [at, event] of mine.entries()) {
      if (event.kind === 'text') message.content = event.text
      if (event.kind === 'refusal') message.refusal = event.text
      if (event.kind === 'reasoning') message.reasoning = event.text
      if (event.kind === 'text' || event.kind === 'refusal') logprobs = event.logprobs ?? null
      if (event.kind !== 'tool') continue
      const { id, name, type } = event
      const next = mine[at + 1]
      const text = next?.kind === 'arguments' ? next.text : ''
      if (type === 'function_call') message.function_call = { name, arguments: text }
      else {
        const call =
          type === 'custom'
            ? { id, type, custom: { name, input: text } }
            : { id, type, function: { name, arguments: text } }
        message.tool_calls = [...(message.tool_calls ?? []), call]
      }
    }
    return { index, message, finish_reason: finish, logprobs }
  })
}

/** Whether a choice is for reading: one that was cut while it thought has a content too, if an empty one. */
const isReading = (parts: Reply['choices'][number]['parts']) =>
  parts.every(({ kind }) => kind === 'reasoning' || kind === 'text')

/** Converts a stream of events to one of chunks, each choice begun by its role. */
export function toChunks(reply: Reply, stream: AnswerStream): AsyncIterator<AnswerEvent[]> {
  const types = new Map<string, ToolKind>()
  let opening = reply.choices.map(({ parts }, index) =>
    toChunk(index, {
      role: 'assistant',
      content: isReading(parts) ? '' : null,
      refusal: null,
    }),
  )
  return {
    async next() {
      let chunks: AnswerEvent[] = []
      await stream.pump((events) => {
        chunks = [...opening, ...events.flatMap((event) => toOld(event, types))]
        opening = []
        return false
      })
      return chunks.length > 0 ? { done: false, value: chunks } : { done: true, value: undefined }
    },
    async return() {
      stream.close()
      return { done: true, value: undefined }
    },
  }
}

function toOld(event: Event, types: Map<string, ToolKind>): AnswerEvent[] {
  if (event.kind === 'usage') return [{ usage: event.usage }]
  if (event.kind === 'done') return [{ done: true }]
  if (event.kind === 'failure') return [{ failure: event.error }]
  if (event.kind === 'text') return [toChunk(event.choice, { content: event.text }, event.logprobs)]
  if (event.kind === 'refusal') return [toChunk(event.choice, { refusal: event.text }, event.logprobs)]
  if (event.kind === 'reasoning') return [toChunk(event.choice, { reasoning: event.text })]
  if (event.kind === 'finish')
    return [
      {
        chunk: {
          choices: [
            {
              index: event.choice,
              delta: {},
              finish_reason: event.reason,
              logprobs: null,
            },
          ],
        },
      },
    ]
  if (event.kind === 'tool') {
    const { choice, index, id, name, type } = event
    types.set(`${choice}/${index}`, type)
    if (type === 'function_call') return [toChunk(choice, { function_call: { name, arguments: '' } })]
    const call = type === 'custom' ? { type, custom: { name, input: '' } } : { type, function: { name, arguments: '' } }
    return [toChunk(choice, { tool_calls: [{ index, id, ...call }] })]
  }
  if (event.kind !== 'arguments') return []
  const { choice, index, text } = event
  const type = types.get(`${choice}/${index}`)
  if (type === 'function_call') return [toChunk(choice, { function_call: { arguments: text } })]
  const piece = type === 'custom' ? { custom: { input: text } } : { function: { arguments: text } }
  return [toChunk(choice, { tool_calls: [{ index, ...piece }] })]
}

const toChunk = (index: number, delta: Delta, logprobs: Logprobs | null = null): AnswerEvent => ({
  chunk: { choices: [{ index, delta, finish_reason: null, logprobs }] },
})
