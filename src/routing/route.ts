/**
 * Where a request may be answered, what can take it at all, and in which order its targets are tried: pure functions over
 * the snapshot. A model that a key may not use is refused in the very words of one that does not exist. Targets go by
 * priority, and within one by weighted rendezvous hashing, so that weights hold over conversations and one conversation
 * stays with one target and its prompt cache; what is known to fail comes last or not at all. The same request on the same
 * snapshot has the same order.
 */
import { type Decision, GatewayError } from '../domain/error.ts'
import type { Feature, Modality, Model } from '../domain/models.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import type { CatalogModel, Key, Snapshot, Target } from '../domain/snapshot.ts'
import type { Endpoint } from '../domain/task.ts'
import type { Availability } from '../health/health.ts'
import { suggestModels, visibleModel } from './access.ts'

/** What a model, or a target that is weaker, can do. */
export interface Capabilities extends Pick<Model, 'id' | 'max_output_length' | 'input_modalities'> {
  supported_features: readonly Feature[]
}

interface Resolved {
  model: CatalogModel
  /** Ready targets that this key may use; never empty. */
  targets: Target[]
}

/** Finds the targets of a slug or an alias for a key. `param` is what the refusal names: `model` in a chat request. */
export function resolve(snapshot: Snapshot, key: Key, asked: string): Decision<Resolved> {
  const found = visibleModel(snapshot, key, asked)
  if (!found) return modelNotFound(snapshot, key, asked, 'model')
  const targets = found.targets.filter(({ upstream }) => upstream.notReady === null)
  return targets.length > 0 ? { model: found.model, targets } : notReady(found)
}

/** The refusal of a name behind which this key may use nothing. `param` is what it names. */
export function modelNotFound(snapshot: Snapshot, key: Key, asked: string, param: string | null): GatewayError {
  const meant = suggestModels(snapshot, key, asked)
  const hint = meant.length > 0 ? ` Did you mean ${meant.map((id) => `\`${id}\``).join(' or ')}?` : ''
  return new GatewayError(
    'model_not_found',
    `model not found: \`${asked.slice(0, 200)}\`.${hint} This model is not available on this API; GET /v1/models lists what this key may use.`,
    { param },
  )
}

function notReady({ model, targets }: { model: CatalogModel; targets: Target[] }): GatewayError {
  const [target] = targets
  const why = target
    ? `its upstream \`${target.upstream.id}\` cannot be called: ${target.upstream.notReady}`
    : 'it has no enabled route'
  // Only an administrator can change that: a client that tries again waits for nothing.
  return new GatewayError('model_not_ready', `The model \`${model.facts.id}\` is not ready: ${why}.`, {
    headers: { 'x-should-retry': 'false' },
  })
}

/** What models make that an endpoint is for. */
const MAKES: Readonly<Record<Endpoint, 'words' | 'embeddings'>> = {
  chat: 'words',
  messages: 'words',
  responses: 'words',
  completions: 'words',
  embeddings: 'embeddings',
}

/** Returns the refusal of a model that is for another endpoint than it was asked by, or null. */
export function checkEndpoint(
  endpoint: Endpoint,
  { id, output_modalities: made }: Pick<Model, 'id' | 'output_modalities'>,
): GatewayError | null {
  const isForEmbeddings = MAKES[endpoint] === 'embeddings'
  const isRight = isForEmbeddings ? made.includes('embeddings') : made.length > 1 || made[0] !== 'embeddings'
  if (isRight) return null
  const why = isForEmbeddings
    ? 'makes no embeddings: ask it by /v1/chat/completions, or take a model that GET /v1/models lists with `embeddings` among its output_modalities.'
    : 'makes embeddings and nothing else: ask it by /v1/embeddings, or take another model.'
  return new GatewayError('invalid_request', `The model \`${id}\` ${why}`, {
    code: 'unsupported_endpoint',
    param: 'model',
  })
}

/** Returns the refusal of what a target cannot do, by its own facts where they say less than its model's; null where it can. */
export function checkTarget(body: CanonicalRequest, facts: Capabilities, target: Target): GatewayError | null {
  const { model: id, features, maxOutputLength } = target
  if (maxOutputLength >= facts.max_output_length && features.length >= facts.supported_features.length) return null
  return checkFit(body, { ...facts, id, supported_features: features, max_output_length: maxOutputLength })
}

/** Returns the refusal of what the model cannot do, or null. Tool messages of earlier turns are text to any model. */
export function checkFit(body: CanonicalRequest, facts: Capabilities): GatewayError | null {
  return checkTools(body, facts) ?? checkCap(body, facts)
}

/** Files are left to who is sent them: many read the text in one for a model that cannot. */
const MODALITY_OF: ReadonlyMap<string, [Modality, words: string]> = new Map([
  ['image_url', ['image', 'pictures']],
  ['input_audio', ['audio', 'sound']],
  ['video_url', ['video', 'videos']],
])

/**
 * Returns the refusal of the first part that the model has no eyes or ears for, or null: many servers answer such a one as if it were a
 * failure of their own, or pass over it.
 */
export function checkParts(
  { messages }: Pick<CanonicalRequest, 'messages'>,
  { id, input_modalities: able }: Pick<Capabilities, 'id' | 'input_modalities'>,
): GatewayError | null {
  for (let index = 0; index < messages.length; index++) {
    const content = messages[index]?.content
    if (typeof content === 'string' || !content) continue
    for (let at = 0; at < content.length; at++) {
      const { type = 'text' } = content[at] ?? {}
      const [modality, words] = (type !== 'text' && MODALITY_OF.get(type)) || []
      if (modality === undefined || able.includes(modality)) continue
      const param = `messages[${index}].content[${at}]`
      return new GatewayError(
        'invalid_request',
        `Unsupported value: '${param}' is not supported with the model \`${id}\`: it takes no ${words}.`,
        { code: 'unsupported_value', param },
      )
    }
  }
  return null
}

function checkTools(body: CanonicalRequest, { id, supported_features: features }: Capabilities): GatewayError | null {
  const param = body.tools?.length ? 'tools' : body.functions ? 'functions' : null
  if (param === null || features.includes('tools')) return null
  // Even with a tool_choice of `none`: the upstream would be sent them, and left out they would change what it reads.
  return new GatewayError(
    'invalid_request',
    `Unsupported parameter: '${param}' is not supported with the model \`${id}\`.`,
    {
      code: 'unsupported_parameter',
      param,
    },
  )
}

function checkCap(body: CanonicalRequest, { max_output_length: most }: Capabilities): GatewayError | null {
  for (const param of ['max_tokens', 'max_completion_tokens'] as const) {
    const cap = body[param]
    if (typeof cap !== 'number' || cap <= most) continue
    return new GatewayError(
      'invalid_request',
      `max_tokens is too large: ${cap}. This model supports at most ${most} completion tokens, whereas you provided ${cap}.`,
      { param },
    )
  }
  return null
}

/**
 * Sorts targets, best first, and leaves out those that are unavailable.
 * @param affinity what the requests of one conversation have in common; asked for only where there is a choice.
 */
export function order(
  targets: readonly Target[],
  key: Pick<Key, 'id'>,
  affinity: () => string,
  availability: (target: Target) => Availability,
): Target[] {
  const candidates: Candidate[] = []
  for (const target of targets) {
    const found = availability(target)
    if (found !== 'unavailable') candidates.push({ target, isDegraded: found === 'degraded', score: 0 })
  }
  if (candidates.length > 1) {
    const conversation = Bun.hash.xxHash32(`${key.id}\n${affinity()}`)
    for (const candidate of candidates) candidate.score = scoreOf(candidate.target, conversation)
    candidates.sort(compare)
  }
  return candidates.map(({ target }) => target)
}

interface Candidate {
  target: Target
  isDegraded: boolean
  score: number
}

const compare = (a: Candidate, b: Candidate) =>
  Number(a.isDegraded) - Number(b.isDegraded) || a.target.priority - b.target.priority || b.score - a.score

/**
 * The highest score wins as often as the weights say, and a target that comes or goes moves only its own share of the
 * conversations (weighted rendezvous hashing, Schindelhauer and Schomaker 2005).
 */
function scoreOf(target: Target, conversation: number): number {
  return target.weight / -Math.log((mix(conversation ^ hashOf(target)) + 0.5) / 2 ** 32)
}

/** Spreads 32 bits over 32 bits (the finalizer of MurmurHash3). */
function mix(bits: number): number {
  let mixed = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return (mixed ^ (mixed >>> 16)) >>> 0
}

/** Hashes of what a target is called, for as long as its snapshot lives. */
const names = new WeakMap<Target, number>()

function hashOf(target: Target): number {
  const known = names.get(target)
  if (known !== undefined) return known
  const name = Bun.hash.xxHash32(`${target.upstream.id}\n${target.upstreamModel}\n${target.model}`)
  names.set(target, name)
  return name
}
