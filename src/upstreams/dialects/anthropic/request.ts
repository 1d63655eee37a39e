/** A chat request as the body of a Messages request. Throws what `refuse.ts` makes. Pure. */
import { isPassed } from '../../../domain/fields.ts'
import type { CanonicalRequest } from '../../../domain/request.ts'
import { REQUEST_FIELDS } from '../../../domain/request-names.ts'
import type { Target } from '../../../domain/snapshot.ts'
import { unsupportedField, unsupportedValue } from '../refuse.ts'
import { toSigner } from '../signer.ts'
import { keepMarks, toCacheControl } from './cache.ts'
import { toCap } from './cap.ts'
import { toStrict } from './schema.ts'
import { toThinking } from './thinking.ts'
import { toToolChoice, toTools } from './tools.ts'
import { toConversation } from './turns.ts'
import type { Turn, WireBody, WireToolChoice } from './wire.ts'

/** The version of the API that is asked for where the catalogue says nothing: the newer one refuses `temperature`. */
export const VERSION = '2023-06-01'
const NO_SAMPLING = '2026-10-21'
/** By this a model takes instructions in the middle of a conversation. */
const LATER_SYSTEM = 'mid-conversation-system-'

/** A longer name is refused. */
const MAX_USER_CHARS = 256

export function toBody(body: CanonicalRequest, target: Target): WireBody {
  refuse(body)
  const { options } = target.upstream
  const keepsSystem = (options.betas ?? []).some((beta) => beta.startsWith(LATER_SYSTEM))
  const { system, turns } = toConversation(body.messages, { keepsSystem, signer: toSigner(target) })
  const holds = target.features.includes('structured_outputs')
  const tools = toTools(body, holds)
  const choice = tools.length === 0 ? undefined : toToolChoice(body)
  const cap = body.max_completion_tokens ?? body.max_tokens ?? toCap({ system, turns, tools }, target)
  const isForced = choice?.type === 'any' || choice?.type === 'tool'
  const thought = toThinking(body, target, { cap, isForced, hasForgotten: hasForgotten(turns) })
  const { thinking, effort } = thought
  if (thinking?.type === 'disabled') for (const turn of turns) turn.content = turn.content.filter(isNoThought)
  const format = holds ? toFormat(body) : null
  const cache = toCacheControl(body)
  const stops = toStops(body)
  const user = options.user ? (body.user ?? body.safety_identifier ?? '') : ''
  const tier = TIERS[body.service_tier ?? '']
  if (thought.mayNotForce && choice) system.push({ type: 'text', text: toInsistence(choice) })
  const sent: WireBody = {
    model: target.upstreamModel,
    max_tokens: cap,
    ...(system.length > 0 ? { system } : {}),
    messages: turns.filter(({ content }) => content.length > 0),
    ...(tools.length > 0 ? { tools } : {}),
    ...(choice ? { tool_choice: thought.mayNotForce ? { type: 'auto' } : choice } : {}),
    ...(thinking ? { thinking } : {}),
    ...(effort || format ? { output_config: { ...(effort ? { effort } : {}), ...(format ? { format } : {}) } } : {}),
    ...(thinking && thinking.type !== 'disabled' ? {} : toSampling(body, target)),
    ...(stops.length > 0 ? { stop_sequences: stops } : {}),
    ...(user !== '' && user.length <= MAX_USER_CHARS ? { metadata: { user_id: user } } : {}),
    ...(tier ? { service_tier: tier } : {}),
    ...(cache ? { cache_control: cache } : {}),
    ...(body.stream ? { stream: true } : {}),
    ...toPassed(body, options.pass),
  }
  keepMarks(sent)
  return sent
}

/** What the API has no counterpart of, and would change the answer: all else without one is left out. */
function refuse(body: CanonicalRequest): void {
  if (body.logprobs) throw unsupportedField('logprobs', 'its provider tells no probabilities.')
  if (body.modalities?.some((one) => one !== 'text')) throw unsupportedValue('modalities', 'it answers with text.')
}

const isNoThought = ({ type }: Turn['content'][number]) => type !== 'thinking' && type !== 'redacted_thinking'

/** Whether the answer that the last results belong to came back without what was thought before it. */
function hasForgotten(turns: readonly Turn[]): boolean {
  const last = turns.findLast(({ role }) => role === 'assistant')
  const isOpen = last === turns.at(-1) || turns.at(-1)?.content.some(({ type }) => type === 'tool_result') === true
  return last !== undefined && isOpen && (last.content[0] === undefined || isNoThought(last.content[0]))
}

function toFormat({ response_format: format }: CanonicalRequest): { type: 'json_schema'; schema: object } | null {
  if (format?.type !== 'json_schema' || !format.json_schema.schema) return null
  const schema = toStrict(format.json_schema.schema)
  return schema ? { type: 'json_schema', schema } : null
}

/** Temperature and `top_p` together are refused by most models. */
function toSampling(body: CanonicalRequest, { upstream, options }: Target): Partial<WireBody> {
  if (options.sampling === false || (upstream.options.api_version ?? VERSION) >= NO_SAMPLING) return {}
  const { temperature, top_p } = body
  const k: unknown = Reflect.get(body, 'top_k')
  const top_k = typeof k === 'number' && Number.isSafeInteger(k) && k > 0 ? { top_k: k } : {}
  if (typeof temperature === 'number') return { temperature: Math.min(1, temperature), ...top_k }
  return typeof top_p === 'number' ? { top_p, ...top_k } : top_k
}

const toStops = ({ stop }: CanonicalRequest): string[] =>
  (typeof stop === 'string' ? [stop] : (stop ?? [])).filter((each) => each.trim() !== '')

const TIERS: Readonly<Record<string, 'auto' | 'standard_only'>> = {
  auto: 'auto',
  default: 'standard_only',
  priority: 'auto',
}

const toInsistence = (choice: WireToolChoice) =>
  choice.type === 'tool' ? `You must call the tool ${choice.name}.` : 'You must call one of the tools.'

/** Fields of the API that chat does not know, where the catalogue lets them through. */
function toPassed(body: CanonicalRequest, pass: readonly string[]): Record<string, unknown> {
  if (pass.length === 0) return {}
  const isThrough = ([name]: [string, unknown]) => !OURS.has(name) && !REQUEST_FIELDS.has(name) && isPassed(pass, name)
  return Object.fromEntries(Object.entries(body).filter(isThrough))
}

/** What is read otherwise. */
const OURS: ReadonlySet<string> = new Set([
  'reasoning',
  'thinking',
  'top_k',
  'cache_control',
  'system',
  'output_config',
])
