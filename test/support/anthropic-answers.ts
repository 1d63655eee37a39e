/** Answers of the Messages API as data, framed like a real stream: pings anywhere, padded JSON. */
import type { Behaviour, Stream, StreamStep, Whole } from './upstream-answers.ts'

export interface Message {
  id?: string
  blocks: Said[]
  stop?: string
  usage?: Record<string, unknown>
}

export type Said =
  | { text: string; citations?: object[] }
  | { thought: string }
  | { redacted: string }
  | { call: string; input: object; id?: string }
  | { raw: object }

/** Differs for each reasoning block. */
export const toSignature = (thought: string) => Buffer.from(`sig:${Bun.hash(thought)}`).toString('base64')

export const USAGE = {
  input_tokens: 10,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
  cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0 },
  output_tokens: 5,
  service_tier: 'standard',
}

function toBlock(said: Said, at: number): Record<string, unknown> {
  if ('raw' in said) return { ...said.raw }
  if ('thought' in said) return { type: 'thinking', thinking: said.thought, signature: toSignature(said.thought) }
  if ('redacted' in said) return { type: 'redacted_thinking', data: said.redacted }
  if ('call' in said)
    return { type: 'tool_use', id: said.id ?? `toolu_${at}${said.call}`, name: said.call, input: said.input }
  return { type: 'text', text: said.text, ...(said.citations ? { citations: said.citations } : {}) }
}

const toReason = ({ stop, blocks }: Message) =>
  stop ?? (blocks.some((each) => 'call' in each) ? 'tool_use' : 'end_turn')

const toHead = ({ id = 'msg_01' }: Message, model: unknown) => ({ id, type: 'message', role: 'assistant', model })

export function wholeMessage(message: Message, model: unknown = 'claude'): Whole {
  return {
    kind: 'whole',
    headers: { 'request-id': 'req_upstream' },
    body: {
      ...toHead(message, model),
      content: message.blocks.map(toBlock),
      stop_reason: toReason(message),
      stop_sequence: null,
      usage: { ...USAGE, ...message.usage },
    },
  }
}

/** An event with the blanks that the service puts inside its JSON. */
export function toEvent(payload: { type: string } & Record<string, unknown>, pad = 0): string {
  const json = JSON.stringify(payload)
  return `event: ${payload.type}\ndata: ${json.slice(0, -1)}${' '.repeat(pad)}}\n\n`
}

export const PING = 'event: ping\ndata: {"type": "ping"}\n\n'

export function streamMessage(
  message: Message,
  model: unknown = 'claude',
  more: Partial<Omit<Stream, 'kind' | 'steps'>> = {},
): Stream {
  return {
    kind: 'stream',
    headers: { 'request-id': 'req_upstream' },
    end: 'eof',
    ...more,
    steps: toSteps(message, model),
  }
}

export function toSteps(message: Message, model: unknown = 'claude'): string[] {
  const { usage } = message
  const { output_tokens: written, ...all } = { ...USAGE, ...usage }
  const { cache_creation: _, service_tier: __, ...counts } = all
  const start = { ...toHead(message, model), content: [], stop_reason: null, usage: { ...all, output_tokens: 1 } }
  return [
    toEvent({ type: 'message_start', message: start }),
    ...message.blocks.flatMap((said, index) => toBlockSteps(said, index)),
    toEvent({
      type: 'message_delta',
      delta: { stop_reason: toReason(message), stop_sequence: null },
      usage: { ...counts, output_tokens: written },
    }),
    toEvent({ type: 'message_stop' }, 7),
  ]
}

function toBlockSteps(said: Said, index: number): string[] {
  const block = toBlock(said, index)
  const [empty, deltas] = toDeltas(said, block)
  return [
    toEvent({ type: 'content_block_start', index, content_block: empty }, index),
    PING,
    ...deltas.map((delta, at) => toEvent({ type: 'content_block_delta', index, delta }, (at * 5) % 11)),
    toEvent({ type: 'content_block_stop', index }, 3),
  ]
}

type Delta = { type: string } & Record<string, unknown>

function toDeltas(said: Said, block: Record<string, unknown>): [empty: object, deltas: Delta[]] {
  if ('text' in said) {
    const citations = (said.citations ?? []).map((citation) => ({ type: 'citations_delta', citation }))
    return [
      { type: 'text', text: '' },
      [...citations, ...pieces(said.text).map((text) => ({ type: 'text_delta', text }))],
    ]
  }
  if ('thought' in said) {
    const thoughts = pieces(said.thought).map((thinking) => ({ type: 'thinking_delta', thinking }))
    return [
      { type: 'thinking', thinking: '', signature: '' },
      [...thoughts, { type: 'signature_delta', signature: block.signature }],
    ]
  }
  if ('call' in said) {
    const json = Object.keys(said.input).length === 0 ? [''] : ['', ...pieces(JSON.stringify(said.input))]
    return [{ ...block, input: {} }, json.map((partial_json) => ({ type: 'input_json_delta', partial_json }))]
  }
  return [block, []]
}

/** By UTF-16 units, unlike the service: halves of characters are the hardest case. */
function pieces(text: string): string[] {
  const size = Math.ceil(text.length / 3) || 1
  return [text.slice(0, size), text.slice(size, 2 * size), text.slice(2 * size)].filter((piece) => piece !== '')
}

export const toErrorBody = (type: string, message: string, details?: object) => ({
  type: 'error',
  error: { type, message, ...(details ? { details } : {}) },
  request_id: 'req_upstream',
})

export const errorMessage = (
  status: number,
  type: string,
  message: string,
  headers: Record<string, string> = {},
): Whole => ({
  kind: 'whole',
  status,
  headers,
  body: toErrorBody(type, message),
})

export const failingStream = (type: string, message: string, before: StreamStep[] = []): Behaviour => ({
  kind: 'stream',
  steps: [...before, toEvent(toErrorBody(type, message))],
  end: 'eof',
})
