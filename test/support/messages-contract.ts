/**
 * Checks what clients of Anthropic's API receive, as its SDKs need it: order of events, one open block at a time
 * numbered from 0, matching deltas, required fields. Throws, or returns the client's message.
 */
import { expect } from 'bun:test'

export interface Block {
  type: string
  text?: string
  thinking?: string
  signature?: string
  data?: string
  id?: string
  name?: string
  input?: unknown
}

export interface Message {
  id: string
  model: string
  content: Block[]
  stop_reason: string | null
  usage: Record<string, unknown>
}

export interface MessageStream {
  message: Message
  error: { type: string; message: string } | null
  events: string[]
  /** Comments before the first event. */
  comments: number
}

type Json = Record<string, unknown>

function must(holds: boolean, rule: string): void {
  if (!holds) throw new Error(rule)
}

const NULLS = ['stop_sequence', 'stop_details', 'container'] as const
const STOP_REASONS = ['end_turn', 'max_tokens', 'stop_sequence', 'tool_use', 'refusal']
const COUNTS = ['input_tokens', 'output_tokens', 'cache_read_input_tokens', 'cache_creation_input_tokens'] as const
const KINDS: Record<string, string[]> = {
  text: ['text_delta'],
  thinking: ['thinking_delta', 'signature_delta'],
  tool_use: ['input_json_delta'],
  redacted_thinking: [],
}

function checkUsage(usage: Json): void {
  for (const name of COUNTS)
    must(Number.isSafeInteger(usage[name]) && Number(usage[name]) >= 0, `usage.${name} is a count`)
  const split = usage.cache_creation as Json
  must(
    Number(split.ephemeral_5m_input_tokens) + Number(split.ephemeral_1h_input_tokens) ===
      usage.cache_creation_input_tokens,
    'what was written to the cache is split by how long it stays',
  )
  must(['standard', 'priority'].includes(String(usage.service_tier)), 'the service tier is known')
}

function checkReceipt(usage: Json): void {
  checkUsage(usage)
  must(Number.isSafeInteger(usage.cost_nano_usd), 'the receipt has what it cost')
  must(Math.abs(Number(usage.cost) - Number(usage.cost_nano_usd) / 1e9) < 1e-12, 'in both units')
}

function checkHead(message: Json): void {
  must(message.type === 'message' && message.role === 'assistant', "a message is an assistant's")
  must(/^msg_[0-9a-f]{32}$/.test(String(message.id)), 'its id is that of the request')
  must(typeof message.model === 'string' && message.model !== '', 'it names its model')
  for (const name of NULLS) must(message[name] === null, `${name} is there, and null`)
}

function checkEnd(message: Message): void {
  must(STOP_REASONS.includes(String(message.stop_reason)), `stop_reason ${message.stop_reason} is known`)
  const calls = message.content.filter(({ type }) => type === 'tool_use')
  if (calls.length > 0)
    must(['tool_use', 'max_tokens', 'refusal'].includes(String(message.stop_reason)), 'a call is why it stopped')
  must(new Set(calls.map(({ id }) => id)).size === calls.length, 'each call has an id of its own')
  for (const block of message.content) {
    if (block.type === 'tool_use')
      must(
        typeof block.input === 'object' && block.input !== null && !Array.isArray(block.input),
        'an input is an object',
      )
    if (block.type === 'text') must(block.text !== '', 'no text is empty')
    if (block.type === 'thinking') must(String(block.signature).startsWith('tg1.'), 'thoughts are signed')
  }
}

/** Checks a whole answer. */
export function checkMessage(text: string): Message {
  const message = JSON.parse(text)
  checkHead(message)
  checkReceipt(message.usage)
  checkEnd(message)
  return message
}

export function checkError(text: string): { type: string; message: string } {
  const body = JSON.parse(text)
  expect(Object.keys(body)).toEqual(['type', 'error', 'request_id'])
  expect(body.type).toBe('error')
  expect(Object.keys(body.error)).toEqual(['type', 'message'])
  expect(body.error.message).toBeString()
  expect(body.request_id).toMatch(/^req_[0-9a-f]{32}$/)
  return body.error
}

/** Checks a stream that ended with `message_stop` or an error event. */
export function checkMessageStream(text: string): MessageStream {
  must(text.endsWith('\n\n'), 'a stream ends with its last event')
  const message: Message = { id: '', model: '', content: [], stop_reason: null, usage: {} }
  const report: MessageStream = { message, error: null, events: [], comments: 0 }
  let open: { block: Block; json: string } | null = null
  for (const frame of text.slice(0, -2).split('\n\n')) {
    if (frame.startsWith(':')) {
      must(report.events.length === 0, 'comments come before the first event only')
      report.comments += 1
      continue
    }
    const [, name = '', data = ''] = /^event: (\w+)\ndata: ([^\n\r\u2028\u2029]+)$/.exec(frame) ?? []
    must(data !== '', `an event is its name and one line of JSON, and not ${frame.slice(0, 100)}`)
    const event = JSON.parse(data)
    must(event.type === name, 'an event is what its name says')
    must(
      !['message_stop', 'error'].includes(report.events.at(-1) ?? ''),
      `nothing comes after the end, but ${name} did`,
    )
    report.events.push(name)
    const isFirst = report.events.length === 1
    if (name === 'error') {
      report.error = checkError(data)
      continue
    }
    must(isFirst === (name === 'message_start'), 'message_start comes first, and once')
    if (name === 'message_start') {
      checkHead(event.message)
      checkUsage(event.message.usage)
      must(event.message.content.length === 0 && event.message.stop_reason === null, 'it begins empty')
      Object.assign(message, event.message)
    } else if (name === 'content_block_start') {
      must(open === null, 'one block is open at a time')
      must(event.index === message.content.length, 'blocks are numbered from 0')
      must(event.content_block.type in KINDS, `a block is of a known kind, not ${event.content_block.type}`)
      open = { block: event.content_block, json: '' }
      message.content.push(event.content_block)
    } else if (name === 'content_block_delta') {
      must(open !== null && event.index === message.content.length - 1, 'a delta belongs to the open block')
      if (open) take(open, event.delta)
    } else if (name === 'content_block_stop') {
      must(open !== null && event.index === message.content.length - 1, 'the open block ends')
      if (open?.block.type === 'tool_use') open.block.input = JSON.parse(open.json || '{}')
      open = null
    } else if (name === 'message_delta') {
      must(open === null, 'all blocks have ended')
      must(!report.events.slice(0, -1).includes('message_delta'), 'message_delta comes once')
      for (const field of NULLS) must(event.delta[field] === null, `${field} is there, and null`)
      checkReceipt(event.usage)
      message.stop_reason = event.delta.stop_reason
      message.usage = event.usage
    } else if (name === 'message_stop')
      must(report.events.at(-2) === 'message_delta', 'message_delta comes before the end')
    else must(name === 'ping', `the event ${name} is known`)
  }
  const last = report.events.at(-1)
  must(last === 'message_stop' || last === 'error', `a stream ends by its own word, and not by ${last}`)
  if (report.error === null) checkEnd(message)
  return report
}

function take(open: { block: Block; json: string }, delta: Json): void {
  const { block } = open
  must(KINDS[block.type]?.includes(String(delta.type)) === true, `a ${block.type} block takes no ${delta.type}`)
  if (delta.type === 'text_delta') block.text += String(delta.text)
  if (delta.type === 'thinking_delta') block.thinking += String(delta.thinking)
  if (delta.type === 'signature_delta') block.signature = String(delta.signature)
  if (delta.type === 'input_json_delta') open.json += String(delta.partial_json)
}
