/**
 * Legacy completions, which editors use to fill in code (platform.openai.com/docs/api-reference/completions). Passthrough only: prompts are
 * not conversations.
 */
import { type Decision, GatewayError } from '../domain/error.ts'
import { asObject, type JsonObject, toLine } from '../domain/json.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import type { ChatTask, PassthroughRequest, RawRequest } from '../domain/task.ts'
import { measurePrompt } from '../tokens/estimate.ts'
import { toPassthroughRequest } from '../upstreams/dialects/passthrough.ts'
import { openAiErrors } from './chat/chat.ts'
import { checkModel, invalid, notAnObject } from './checked-body.ts'
import { type Format, KEEP_ALIVE } from './format.ts'
import { namesWith, toPassthroughWriters, withPassthrough } from './passthrough.ts'

const passthrough = toPassthroughWriters({
  toNames: namesWith('cmpl-'),
  keepAlive: KEEP_ALIVE,
  failure: (error) => `data: ${toLine(error.toBody())}\n\n`,
})

export const completions: Format = {
  ...openAiErrors,
  toTask,
  passthrough,
  whole: (_, identity, events) => passthrough.whole(identity, events),
  writer: (_, identity) => passthrough.writer(identity),
}

/** The same as for chats. */
const MAX_CHOICES = 128
const MAX_AFFINITY_CHARS = 16_384
const MAX_USER_CHARS = 256

function toTask(body: unknown, raw: RawRequest): Decision<ChatTask> {
  const json = asObject(body)
  if (json === null) return notAnObject('{"model": …, "prompt": …}')
  const request = toPassthroughRequest('completions', json, raw)
  if (request === null)
    return new GatewayError(
      'invalid_request',
      'Your request body has an object with a duplicate key. Send each key once.',
    )
  return check(json) ?? toCheckedTask(json, request)
}

function check({ model, prompt, suffix, max_tokens: cap, n, stream }: JsonObject): GatewayError | null {
  const unnamed = checkModel({ model: typeof model === 'string' ? model : null })
  if (unnamed) return unnamed
  if (prompt == null) return invalid("Missing required parameter: 'prompt'.", 'prompt', 'missing_required_parameter')
  const prompts = toPrompts(prompt)
  if (prompts === null) return wrong('prompt', 'a string, or an array of strings, tokens, or token arrays')
  if (suffix != null && typeof suffix !== 'string') return wrong('suffix', 'a string')
  if (stream != null && typeof stream !== 'boolean') return wrong('stream', 'a boolean')
  if (cap != null && !isWithin(cap, 0, Number.MAX_SAFE_INTEGER)) return wrong('max_tokens', 'a whole number')
  if (n != null && !isWithin(n, 1, MAX_CHOICES)) return wrong('n', `a whole number from 1 to ${MAX_CHOICES}`)
  if (prompts.length * Number(n ?? 1) > MAX_CHOICES)
    return invalid(`Too many completions: prompts times 'n' must be at most ${MAX_CHOICES}.`, 'prompt')
  return null
}

const wrong = (name: string, what: string) =>
  invalid(`Invalid type for '${name}': expected ${what}.`, name, 'invalid_type')

const isWithin = (value: unknown, least: number, most: number) =>
  Number.isInteger(value) && Number(value) >= least && Number(value) <= most

/** Each prompt as text, with tokens as their numbers; null if invalid. */
function toPrompts(prompt: unknown): string[] | null {
  if (typeof prompt === 'string') return [prompt]
  if (!Array.isArray(prompt) || prompt.length === 0) return null
  if (prompt.every(isToken)) return [prompt.join(' ')]
  const texts = prompt.map((each) => {
    if (typeof each === 'string') return each
    return Array.isArray(each) && each.length > 0 && each.every(isToken) ? each.join(' ') : null
  })
  return texts.every((text) => text !== null) ? texts : null
}

const isToken = (value: unknown) => isWithin(value, 0, Number.MAX_SAFE_INTEGER)

const noCompletions = (model: string) =>
  new GatewayError(
    'invalid_request',
    `The model \`${model.slice(0, 200)}\` does not support this request on /v1/completions. Use /v1/chat/completions.`,
    { code: 'unsupported_endpoint', param: 'model' },
  )

function toCheckedTask(json: JsonObject, request: PassthroughRequest): ChatTask {
  const { model, prompt, suffix, max_tokens: cap, n, stream, stream_options: options, user } = json
  const prompts = toPrompts(prompt) ?? []
  const texts = typeof suffix === 'string' ? [...prompts, suffix] : prompts
  const body: CanonicalRequest = {
    model: String(model),
    messages: texts.map((content) => ({ role: 'user', content })),
    stream: stream === true,
    n: prompts.length * Number(n ?? 1),
    ...(cap == null ? {} : { max_tokens: Number(cap) }),
    ...(asObject(options)?.include_usage === true ? { stream_options: { include_usage: true } } : {}),
  }
  const task: ChatTask = {
    endpoint: 'completions',
    model: body.model,
    body,
    stream: body.stream === true,
    cap: body.max_tokens ?? null,
    ...measurePrompt(body),
    user: typeof user === 'string' ? user.slice(0, MAX_USER_CHARS) : null,
    untranslatable: noCompletions(body.model),
    affinity: () => (prompts[0] ?? '').slice(0, MAX_AFFINITY_CHARS),
  }
  return withPassthrough(task, request)
}
