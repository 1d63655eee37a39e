/** Asks the demo backend as dispatch does, and puts its streams together again as a client would. */

import { createDemoBackend } from '../../src/demo/demo.ts'
import type { AnswerEvent, ChatMessage, Choice, Delta, Logprobs, ToolCall } from '../../src/domain/answer.ts'
import type { CanonicalRequest } from '../../src/domain/request.ts'
import { DEFAULT_DEADLINES, DEFAULT_OPTIONS, NO_LIMITS } from '../../src/domain/settings.ts'
import type { BackendCall } from '../../src/upstreams/backend.ts'

export const demo = createDemoBackend()

/** A request with whatever else a client may put beside the known fields. */
export type Asked = Partial<CanonicalRequest> & Record<string, unknown>

export const toCall = (body: Asked, more: { paceMs?: number; signal?: AbortSignal } = {}): BackendCall => ({
  body: { model: 'tollgate/demo', messages: [{ role: 'user', content: 'Say hello, please.' }], ...body },
  target: {
    model: 'tollgate/demo',
    upstream: {
      id: 'demo',
      dialect: 'demo',
      baseUrl: null,
      local: true,
      deadlines: DEFAULT_DEADLINES,
      limits: NO_LIMITS,
      options: { ...DEFAULT_OPTIONS, pace_ms: more.paceMs ?? 0 },
      credential: null,
      notReady: null,
    },
    upstreamModel: 'demo',
    priority: 0,
    weight: 1,
    pricing: [],
    priceId: null,
    maxOutputLength: 4096,
    contextLength: 8_192,
    features: [],
  },
  signal: more.signal ?? new AbortController().signal,
  deadlines: DEFAULT_DEADLINES,
  callId: '0123456789abcdef0123456789abcdef-1',
  take: () => null,
})

export const say = (content: string): CanonicalRequest['messages'] => [{ role: 'user', content }]

export async function askWhole(body: Asked) {
  const answer = await demo.chat(toCall(body))
  if (answer.kind !== 'whole') throw new Error('expected a whole answer')
  return answer
}

/** Returns the first choice of a whole answer, and its usage. */
export async function ask(body: Asked) {
  const { completion, usage } = await askWhole(body)
  const [choice] = completion.choices
  if (!choice) throw new Error('expected a choice')
  return { ...choice, usage }
}

export async function openStream(body: Asked, more: Parameters<typeof toCall>[1] = {}) {
  const answer = await demo.chat(toCall({ ...body, stream: true }, more))
  if (answer.kind !== 'stream') throw new Error('expected a stream')
  return answer.events[Symbol.asyncIterator]()
}

export async function readStream(body: Asked): Promise<AnswerEvent[]> {
  const iterator = await openStream(body)
  const events: AnswerEvent[] = []
  for (let next = await iterator.next(); !next.done; next = await iterator.next()) events.push(...next.value)
  return events
}

/** Puts a stream together to what a whole answer would have been. */
export function join(events: readonly AnswerEvent[]) {
  const choices: Choice[] = []
  for (const event of events) {
    for (const { index, delta, finish_reason, logprobs } of 'chunk' in event ? event.chunk.choices : []) {
      choices[index] ??= { index, message: toMessage(delta), finish_reason: 'stop', logprobs: null }
      const choice = choices[index]
      add(choice.message, delta)
      if (logprobs) choice.logprobs = addLogprobs(choice.logprobs, logprobs)
      if (finish_reason) choice.finish_reason = finish_reason
    }
  }
  return { choices, usage: events.flatMap((event) => ('usage' in event ? [event.usage] : [])) }
}

const toMessage = ({ content }: Delta): ChatMessage => ({
  role: 'assistant',
  content: content === null ? null : '',
  refusal: null,
})

function add(message: ChatMessage, delta: Delta) {
  if (delta.content) message.content = `${message.content ?? ''}${delta.content}`
  if (delta.refusal) message.refusal = `${message.refusal ?? ''}${delta.refusal}`
  if (delta.reasoning) message.reasoning = `${message.reasoning ?? ''}${delta.reasoning}`
  if (delta.function_call) {
    message.function_call ??= { name: '', arguments: '' }
    message.function_call.name += delta.function_call.name ?? ''
    message.function_call.arguments += delta.function_call.arguments ?? ''
  }
  for (const { index, id, type, function: called, custom } of delta.tool_calls ?? []) {
    message.tool_calls ??= []
    message.tool_calls[index] ??= toToolCall(type ?? 'function', id ?? '')
    const call = message.tool_calls[index]
    if (call.type === 'function') {
      call.function.name += called?.name ?? ''
      call.function.arguments += called?.arguments ?? ''
    } else {
      call.custom.name += custom?.name ?? ''
      call.custom.input += custom?.input ?? ''
    }
  }
}

const toToolCall = (type: 'function' | 'custom', id: string): ToolCall =>
  type === 'function'
    ? { id, type, function: { name: '', arguments: '' } }
    : { id, type, custom: { name: '', input: '' } }

function addLogprobs(sum: Logprobs | null, more: Logprobs): Logprobs {
  const both = (key: keyof Logprobs) => {
    const [before, after] = [sum?.[key], more[key]]
    return before || after ? [...(before ?? []), ...(after ?? [])] : null
  }
  return { content: both('content'), refusal: both('refusal') }
}
