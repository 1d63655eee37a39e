/**
 * A scripted Ollama: strict by its Go types, and where the real one ignores errors. A history that doesn't fit is
 * refused, or silently truncated if the request allows it.
 */
import { isObject } from './contract-parts.ts'
import type { Script } from './upstream.ts'
import type { Behaviour, Whole } from './upstream-answers.ts'

type JsonObject = Record<string, unknown>

export interface OllamaTurn {
  reasoning?: string
  text?: string
  calls?: readonly { name: string; input?: Record<string, unknown> }[]
  finish?: string
}

export interface Ollama {
  script: Script
  refused: string[]
}

export const OLLAMA_USAGE = { prompt_eval_count: 40, eval_count: 12 }

/** @param toTurn the response to a valid request, by the number of earlier calls. */
export function createOllama(toTurn: (step: number, body: JsonObject) => OllamaTurn | Behaviour): Ollama {
  const refused: string[] = []
  const script: Script = ({ method, path, json }) => {
    if (path === '/api/version') return { kind: 'whole', body: { version: '0.32.0' } }
    if (method !== 'POST' || path !== '/api/chat') return ollamaError(404, `no ${path}`)
    const wrong = findWrong(json)
    if (wrong !== null || json === null) {
      refused.push(wrong ?? 'no object')
      return ollamaError(400, wrong ?? 'no object')
    }
    const messages = listOf(json.messages)
    const tokens = messages.reduce<number>((sum, { content }) => sum + Math.ceil(String(content).length / 4), 0)
    const { num_ctx: context } = json.options as { num_ctx: number }
    if (tokens > context && json.truncate === false) return ollamaError(400, tooLong(tokens, context))
    const turn = toTurn(messages.filter(({ tool_calls }) => tool_calls !== undefined).length, json)
    if ('kind' in turn) return turn
    return json.stream === true ? toStream(turn) : { kind: 'whole', body: toLine(toMessage(turn), turn, true) }
  }
  return { script, refused }
}

const tooLong = (n_prompt_tokens: number, n_ctx: number) =>
  JSON.stringify({
    error: {
      code: 400,
      message: `request (${n_prompt_tokens} tokens) exceeds the available context size (${n_ctx} tokens), try increasing it`,
      ...{ type: 'exceed_context_size_error', n_prompt_tokens, n_ctx },
    },
  })

export const ollamaError = (status: number, error: string, headers: Record<string, string> = {}): Whole => ({
  ...{ kind: 'whole', status, headers, body: { error } },
})

const FIELDS = new Set(['model', 'messages', 'stream', 'truncate', 'shift', 'tools', 'think', 'format', 'options'])
const OPTIONS = new Set(
  'num_ctx num_predict temperature top_p top_k min_p seed stop frequency_penalty presence_penalty'.split(' '),
)
const ROLES = new Set<unknown>(['system', 'user', 'assistant', 'tool'])
const OF_MESSAGES = new Set(['role', 'content', 'thinking', 'images', 'tool_calls', 'tool_name', 'tool_call_id'])
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/

const listOf = (value: unknown): JsonObject[] => (Array.isArray(value) ? value.filter(isObject) : [])

function findWrong(body: JsonObject | null): string | null {
  if (body === null || typeof body.model !== 'string') return 'model is required'
  const foreign = Object.keys(body).find((name) => !FIELDS.has(name))
  if (foreign) return `unknown field ${foreign}`
  const options = isObject(body.options) ? body.options : {}
  const option = Object.keys(options).find((name) => !OPTIONS.has(name))
  if (option) return `unknown option ${option}`
  if (!Number.isInteger(options.num_ctx)) return 'num_ctx is not said'
  if (options.stop !== undefined && !Array.isArray(options.stop)) return 'stop is no list'
  if (body.truncate !== false || body.shift !== false) return 'it may cut'
  if (!['undefined', 'boolean', 'string'].includes(typeof body.think)) return 'think is neither a boolean nor a word'
  for (const tool of listOf(body.tools)) {
    const { name, parameters } = isObject(tool.function) ? tool.function : {}
    if (typeof name !== 'string' || !isObject(parameters)) return 'a tool without a name or parameters'
  }
  for (const message of listOf(body.messages)) {
    const wrong = findWrongMessage(message)
    if (wrong !== null) return wrong
  }
  return null
}

function findWrongMessage(message: JsonObject): string | null {
  const foreign = Object.keys(message).find((name) => !OF_MESSAGES.has(name))
  if (foreign) return `unknown field ${foreign} of a message`
  if (!ROLES.has(message.role)) return `role ${message.role}`
  if (typeof message.content !== 'string') return 'json: cannot unmarshal content into Go struct field of type string'
  if (Array.isArray(message.images) && message.images.some((image) => !BASE64.test(String(image))))
    return 'illegal base64'
  for (const call of listOf(message.tool_calls)) {
    const called = isObject(call.function) ? call.function : {}
    if (!isObject(called.arguments)) return 'json: cannot unmarshal string into Go struct field of arguments'
  }
  return null
}

function toMessage({ reasoning, text = '', calls = [] }: OllamaTurn): JsonObject {
  return {
    role: 'assistant',
    content: text,
    ...(reasoning === undefined ? {} : { thinking: reasoning }),
    ...(calls.length === 0
      ? {}
      : { tool_calls: calls.map(({ name, input = {} }, index) => ({ function: { index, name, arguments: input } })) }),
  }
}

const toLine = (message: JsonObject, { finish = 'stop' }: OllamaTurn, done: boolean) => ({
  model: 'tiny',
  created_at: '2026-08-21T12:00:00.000000001Z',
  message,
  done,
  ...(done ? { done_reason: finish, total_duration: 5_000, ...OLLAMA_USAGE } : {}),
})

function toStream(turn: OllamaTurn): Behaviour {
  const { reasoning = '', text = '', calls = [] } = turn
  const messages = [
    ...toPieces(reasoning).map((thinking) => ({ role: 'assistant', content: '', thinking })),
    ...toPieces(text).map((content) => ({ role: 'assistant', content })),
    ...(calls.length > 0 ? [toMessage({ calls })] : []),
  ]
  const lines = [
    ...messages.map((message) => toLine(message, turn, false)),
    toLine({ role: 'assistant', content: '' }, turn, true),
  ]
  return {
    kind: 'stream',
    headers: { 'content-type': 'application/x-ndjson' },
    steps: lines.map((line) => `${JSON.stringify(line)}\n`),
    end: 'eof',
  }
}

const toPieces = (text: string): string[] => text.match(/[\s\S]{1,7}/gu) ?? []
