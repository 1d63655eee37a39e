/**
 * Resolves a model, checks what its targets can do, and orders them: by priority, then by weighted rendezvous hashing,
 * so that a conversation stays with one target and its prompt cache.
 */
import { type Decision, GatewayError } from '../domain/error.ts'
import {
  endpointsOf,
  type Feature,
  isOther,
  MODALITY_WORDS,
  type Modality,
  type Model,
  outputFor,
} from '../domain/models.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import type { CatalogModel, Key, Snapshot, Target } from '../domain/snapshot.ts'
import { RECORDED_PATHS, type RecordedEndpoint } from '../domain/task.ts'
import type { Availability } from '../health/health.ts'
import { suggestModels, visibleModel } from './access.ts'

/** Capabilities of a model, or of a target that supports less. */
export interface Capabilities extends Pick<Model, 'id' | 'max_output_length' | 'input_modalities'> {
  supported_features: readonly Feature[]
}

interface Resolved {
  model: CatalogModel
  /** Ready, and allowed for this key; never empty. */
  targets: Target[]
}

/** A model that the key may not use gets the same error as one that doesn't exist. */
export function resolve(snapshot: Snapshot, key: Key, asked: string): Decision<Resolved> {
  const found = visibleModel(snapshot, key, asked)
  if (!found) return modelNotFound(snapshot, key, asked, 'model')
  const targets = found.targets.filter(({ upstream }) => upstream.notReady === null)
  return targets.length > 0 ? { model: found.model, targets } : notReady(found)
}

export function modelNotFound(snapshot: Snapshot, key: Key, asked: string, param: string | null): GatewayError {
  const meant = suggestModels(snapshot, key, asked)
  const hint = meant.length > 0 ? ` Did you mean ${meant.map((id) => `\`${id}\``).join(' or ')}?` : ''
  return new GatewayError(
    'model_not_found',
    `model not found: \`${asked.slice(0, 200)}\`.${hint} See GET /v1/models for models available to this key.`,
    { param },
  )
}

function notReady({ model, targets }: { model: CatalogModel; targets: Target[] }): GatewayError {
  const [target] = targets
  const why = target
    ? `upstream \`${target.upstream.id}\` is unavailable: ${target.upstream.notReady}`
    : 'it has no enabled route'
  // Only an administrator can fix this, so retrying won't help.
  return new GatewayError('model_not_ready', `The model \`${model.facts.id}\` is not ready: ${why}.`, {
    headers: { 'x-should-retry': 'false' },
  })
}

/** Returns an error if the model is for another endpoint, else null. */
export function checkEndpoint(
  endpoint: RecordedEndpoint,
  { id, output_modalities: made }: Pick<Model, 'id' | 'output_modalities'>,
): GatewayError | null {
  const able = endpointsOf(made)
  const needed = outputFor(endpoint)
  if (able.includes(endpoint === 'realtime' || isOther(endpoint) ? endpoint : 'chat')) return null
  const words = able.map((other) => MODALITY_WORDS[outputFor(other) ?? 'text'])
  const paths = able.map((other) => RECORDED_PATHS[other]).join(' or ')
  const why =
    needed === null
      ? `supports only ${[...new Set(words)].join(' and ')}. Use ${paths}, or another model.`
      : `doesn't support ${MODALITY_WORDS[needed]}. Use ${paths}, or a model whose output_modalities include \`${needed}\`.`
  return new GatewayError('invalid_request', `The model \`${id}\` ${why}`, {
    code: 'unsupported_endpoint',
    param: 'model',
  })
}

/** Checks a target by its own facts, if they are narrower than its model's. */
export function checkTarget(body: CanonicalRequest, facts: Capabilities, target: Target): GatewayError | null {
  const { model: id, features, maxOutputLength } = target
  if (maxOutputLength >= facts.max_output_length && features.length >= facts.supported_features.length) return null
  return checkFit(body, { ...facts, id, supported_features: features, max_output_length: maxOutputLength })
}

/** Tool messages of earlier turns are plain text to any model. */
export function checkFit(body: CanonicalRequest, facts: Capabilities): GatewayError | null {
  return checkTools(body, facts) ?? checkCap(body, facts)
}

/** Files are not checked: many upstreams extract text from them. */
const MODALITY_OF: ReadonlyMap<string, [Modality, name: string]> = new Map([
  ['image_url', ['image', 'images']],
  ['input_audio', ['audio', 'audio']],
  ['video_url', ['video', 'video']],
])

/** Rejects the first part of an unsupported modality: many servers return a 5xx for it, or ignore it. */
export function checkParts(
  { messages }: Pick<CanonicalRequest, 'messages'>,
  { id, input_modalities: able }: Pick<Capabilities, 'id' | 'input_modalities'>,
): GatewayError | null {
  for (let index = 0; index < messages.length; index++) {
    const content = messages[index]?.content
    if (typeof content === 'string' || !content) continue
    for (let at = 0; at < content.length; at++) {
      const { type = 'text' } = content[at] ?? {}
      const [modality, name] = (type !== 'text' && MODALITY_OF.get(type)) || []
      if (modality === undefined || able.includes(modality)) continue
      const param = `messages[${index}].content[${at}]`
      return new GatewayError(
        'invalid_request',
        `Unsupported value: '${param}' is not supported with the model \`${id}\`: it doesn't accept ${name}.`,
        { code: 'unsupported_value', param },
      )
    }
  }
  return null
}

function checkTools(body: CanonicalRequest, { id, supported_features: features }: Capabilities): GatewayError | null {
  const param = body.tools?.length ? 'tools' : body.functions ? 'functions' : null
  if (param === null || features.includes('tools')) return null
  // Even with a tool_choice of `none`: the upstream would receive them, and dropping them would change the prompt.
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
 * Sorts targets, best first, and drops unavailable ones.
 * @param affinity the same for all requests of a conversation; read only if there is a choice.
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
 * Weighted rendezvous hashing (Schindelhauer and Schomaker 2005): a target that is added or removed moves only its own
 * share of the conversations.
 */
function scoreOf(target: Target, conversation: number): number {
  return target.weight / -Math.log((mix(conversation ^ hashOf(target)) + 0.5) / 2 ** 32)
}

/** The finalizer of MurmurHash3. */
function mix(bits: number): number {
  let mixed = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return (mixed ^ (mixed >>> 16)) >>> 0
}

const names = new WeakMap<Target, number>()

function hashOf(target: Target): number {
  const known = names.get(target)
  if (known !== undefined) return known
  const name = Bun.hash.xxHash32(`${target.upstream.id}\n${target.upstreamModel}\n${target.model}`)
  names.set(target, name)
  return name
}
