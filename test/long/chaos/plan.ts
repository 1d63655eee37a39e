/** The chaos test's requests and client manners, drawn only from the seed. */
import { createRandom } from '../../support/random.ts'
import type { KeyName } from './catalog.ts'
import { toMistaken } from './mistakes.ts'

export const UPSTREAMS = ['alpha', 'beta', 'gamma', 'delta', 'epsilon'] as const
export type UpstreamName = (typeof UPSTREAMS)[number]

/** Only in prompts: never in the log or data folder. */
export const PROMPT_MARK = 'promptmark'

/** The certain refusal; null if it may be answered. */
export interface Refusal {
  status: number
  type: string
  code: string | null
  param?: string
}

/** `half`: within its own body; `waiting`: after some time; `reading`: after so many bytes of the answer. */
export type Manner =
  | { kind: 'plain' }
  | { kind: 'leaves'; when: 'half' | 'waiting' | 'reading'; afterMs: number; afterBytes: number }
  | { kind: 'slow' }

export type Format = 'text' | 'tools' | 'object' | 'schema' | 'strict'

/** By chat completions or the Responses API, which is translated for the same upstreams. */
export type Way = 'chat' | 'responses'

export interface RequestPlan {
  number: number
  way: Way
  method: string
  path: string
  /** Null: none is sent. */
  key: KeyName | 'wrong' | null
  model: string
  stream: boolean
  includeUsage: boolean
  n: number
  format: Format
  maxTokens: number | null
  manner: Manner
  pauseMs: number
  body: string
  refusal: Refusal | null
}

/** Independent draws, so that one doesn't shift another. */
export const drawFor = (seed: number, ...what: (string | number)[]) =>
  createRandom(Bun.hash.xxHash32(what.join('/'), seed >>> 0))

/** Picks by weight. */
export function pick<T extends string>(random: () => number, weights: Readonly<Record<T, number>>): T {
  const entries = Object.entries(weights) as [T, number][]
  let left = random() * entries.reduce((sum, [, weight]) => sum + weight, 0)
  for (const [name, weight] of entries) {
    left -= weight
    if (left < 0) return name
  }
  return (entries.at(-1) as [T, number])[0]
}

const MODELS = {
  'acme/large': 30,
  'acme/small': 10,
  fast: 5,
  'acme/choices': 10,
  'acme/capped': 12,
  'acme/weak': 10,
  'local/llama': 8,
  'acme/moving': 5,
  'acme/pricey': 6,
  'acme/leaving': 3,
  'acme/arriving': 3,
}

const CHAT_KEYS = { main: 68, budget: 6, squad1: 3, squad2: 3, rpm: 7, tpm: 4, slots: 5, local: 4, picky: 3 } as const

const WAYS: Readonly<Record<Way, number>> = { chat: 7, responses: 3 }
const PATHS: Readonly<Record<Way, string>> = { chat: '/v1/chat/completions', responses: '/v1/responses' }

/** Percent of invalid, list, and chat requests. */
const SHARES = { mistaken: 9, list: 2, chat: 89 } as const

export function toRequest(seed: number, number: number): RequestPlan {
  const random = drawFor(seed, 'request', number)
  const share = pick(random, SHARES)
  const chat = toChat(random, number)
  if (share === 'mistaken') return toMistaken(random, { ...chat, manner: { kind: 'plain' } })
  if (share === 'chat') {
    const plan = pick(random, WAYS) === 'chat' || chat.manner.kind === 'slow' ? chat : toResponses(chat)
    return { ...plan, body: toBody(plan) }
  }
  const key = pick(random, { main: 2, local: 1, picky: 1 })
  return { ...chat, method: 'GET', path: '/v1/models', key, stream: false, manner: { kind: 'plain' }, body: '' }
}

export type Unwritten = Omit<RequestPlan, 'body'>

function toChat(random: () => number, number: number): Unwritten {
  const model = pick(random, MODELS)
  const key = pick(random, CHAT_KEYS)
  const stream = random() < 0.6
  const includeUsage = random() < 0.6
  const several = random() < 0.15 || (model === 'acme/choices' && random() < 0.6)
  const many = 2 + Math.floor(random() * 3)
  const cap = random() < 0.5 ? 24 + Math.floor(random() * 40) : null
  const format = toFormat(random, model)
  const manner = toManner(random)
  const plan: Unwritten = {
    number,
    way: 'chat',
    method: 'POST',
    path: PATHS.chat,
    key,
    model,
    stream,
    includeUsage: stream && includeUsage,
    n: several && format === 'text' ? many : 1,
    format,
    // Otherwise a few requests would use up a budget or token rate.
    maxTokens: cap ?? (['budget', 'squad1', 'squad2', 'tpm'].includes(key) && number % 4 !== 0 ? 32 : null),
    manner,
    pauseMs: Math.floor(random() * 350),
    refusal: null,
  }
  if (manner.kind !== 'slow') return plan
  return { ...plan, key: 'main', model: 'acme/large', stream: true, n: 1, format: 'text', maxTokens: null }
}

/** The Responses API has one response per request, and always reports usage. */
const toResponses = (plan: Unwritten): Unwritten => ({
  ...plan,
  ...{ way: 'responses', path: PATHS.responses, n: 1, format: 'text', includeUsage: plan.stream },
})

function toFormat(random: () => number, model: string): Format {
  const drawn = pick(random, { text: 66, tools: 12, object: 6, schema: 8, strict: 8 })
  // Only some models have tools; others make the request invalid.
  return drawn === 'tools' && ['acme/weak', 'acme/choices'].includes(model) ? 'text' : drawn
}

function toManner(random: () => number): Manner {
  const kind = pick(random, { plain: 85, leaves: 14.5, slow: 0.5 })
  const when = pick(random, { half: 1, waiting: 4, reading: 4 })
  const afterMs = Math.floor(random() ** 2 * 900)
  const afterBytes = Math.floor(random() * 2_500)
  return kind === 'leaves' ? { kind, when, afterMs, afterBytes } : { kind }
}

const SCHEMA = {
  type: 'object',
  properties: { mark: { type: 'string' }, count: { type: 'integer' } },
  required: ['mark', 'count'],
  additionalProperties: false,
}
const TOOL = { type: 'function', function: { name: 'lookup', parameters: SCHEMA } }

/** `more` overrides. */
export function toBody(plan: Unwritten, more: object = {}): string {
  const { number, way, model, stream, includeUsage, n, format, maxTokens } = plan
  const instructions = `You are asked by conversation ${number % 50}.`
  const content = `${PROMPT_MARK} ${number}: how is it?`
  const common = { model, user: String(number), ...(stream ? { stream } : {}) }
  if (way === 'responses') {
    const cap = maxTokens === null ? {} : { max_output_tokens: maxTokens }
    return JSON.stringify({ ...common, instructions, input: [{ role: 'user', content }], ...cap, ...more })
  }
  return JSON.stringify({
    ...common,
    messages: [
      { role: 'system', content: instructions },
      { role: 'user', content },
    ],
    ...(includeUsage ? { stream_options: { include_usage: true } } : {}),
    ...(n === 1 ? {} : { n }),
    ...(maxTokens === null ? {} : { max_tokens: maxTokens }),
    ...(format === 'tools' ? { tools: [TOOL], tool_choice: 'required' } : {}),
    ...(format === 'object' ? { response_format: { type: 'json_object' } } : {}),
    ...(format === 'schema' || format === 'strict'
      ? {
          response_format: {
            type: 'json_schema',
            json_schema: { name: 'said', schema: SCHEMA, strict: format === 'strict' },
          },
        }
      : {}),
    ...more,
  })
}
