/**
 * Which targets can take a request: by features, prompt length, and kind, number, and length of embedding inputs. A
 * step of `handle.ts`.
 */

import { type Decision, GatewayError } from '../domain/error.ts'
import type { RefusalReason } from '../domain/fields.ts'
import { asList } from '../domain/json.ts'
import type { AnyRequest, CanonicalRequest } from '../domain/request.ts'
import { RerankRequest } from '../domain/rerank.ts'
import type { Target } from '../domain/snapshot.ts'
import { pricesTokens } from '../domain/tariff.ts'
import {
  type EmbeddingInput,
  EmbeddingsRequest,
  ENDPOINT_PATHS,
  type Endpoint,
  type EndpointTask,
  isChat,
  type PassthroughRequest,
  type Task,
} from '../domain/task.ts'
import type { Health } from '../health/health.ts'
import {
  checkRestricted,
  findPassthroughRestricted,
  findRestricted,
  mayBeSent,
  type RestrictedField,
} from '../routing/restricted-fields.ts'
import {
  type Capabilities,
  checkEndpoint,
  checkFit,
  checkParts,
  checkTarget,
  resolve as resolveModel,
} from '../routing/route.ts'
import type { Counter } from '../tokens/count.ts'
import { BYTES_PER_TOKEN } from '../tokens/estimate.ts'
import { dialectOf } from '../upstreams/dialects/dialects.ts'
import { withoutTools } from '../upstreams/dialects/passthrough.ts'
import type { Parsed, Resolved } from './exchange.ts'
import { isSplit } from './fan-out.ts'
import { toBatches } from './input-batches.ts'
import { isEnforced } from './structured-plan.ts'

export interface ResolveDeps {
  counter: Counter
  health: Pick<Health, 'forRequest'>
}

type Asked = Pick<Parsed, 'snapshot' | 'key' | 'task'>
type Found = Pick<Resolved, Exclude<keyof Resolved, keyof Parsed>>

export function resolve<T extends Asked>(
  deps: ResolveDeps,
  parsed: T,
): Decision<T & Found> | Promise<Decision<T & Found>> {
  const { snapshot, key, task } = parsed
  const found = resolveModel(snapshot, key, task.model)
  if (found instanceof GatewayError) return found
  const { model, targets } = found
  const wrong = checkEndpoint(task.endpoint, model.facts)
  if (wrong) return wrong
  const able = toAble(task, model.facts, targets)
  const passthrough = toPassthrough(able)
  const fitting = fitFeatures(able, model.facts, targets, passthrough)
  if (fitting instanceof GatewayError) return fitting
  const resolved = (eligible: Decision<readonly Target[]>): Decision<T & Found> =>
    eligible instanceof GatewayError
      ? eligible
      : Object.assign(parsed, { model, able, passthrough, eligible, health: deps.health.forRequest(key) })
  const { body } = able
  if (body instanceof EmbeddingsRequest) return fitInputs(deps.counter, key.quotaId, body, fitting).then(resolved)
  // Other upstreams read each input separately or truncate it; they decide.
  if (!isChat(able) || !mayOverflow(able, fitting)) return resolved(fitting)
  return fitLength(deps.counter, key.quotaId, able.body, fitting).then(resolved)
}

/**
 * Adapts a request that clients send to any model: lowers the cap to the model's output limit, and drops unsupported
 * reasoning and web search.
 */
export function toAble(task: Task, facts: Capabilities, targets: readonly Target[]): Task {
  if (!isChat(task)) return toPricedAlike(task, targets)
  if (!task.isForAnyModel) return task
  const { max_tokens: cap, web_search_options: search, ...rest } = task.body
  const most = Math.min(facts.max_output_length, Math.max(...targets.map(({ maxOutputLength }) => maxOutputLength)))
  const body: CanonicalRequest = typeof cap === 'number' ? { ...rest, max_tokens: Math.min(cap, most) } : rest
  if (search && facts.supported_features.includes('web_search')) {
    const restricted = findRestricted({ ...body, web_search_options: search })
    if (targets.some((target) => checkRestricted(restricted, target) === null)) body.web_search_options = search
  }
  if (!facts.supported_features.includes('reasoning')) {
    delete body.reasoning_effort
    delete body.thinking
  }
  return { ...task, body, cap: body.max_tokens ?? null }
}

/** Token limits don't apply to models charged by other units, such as seconds of audio. */
function toPricedAlike(task: EndpointTask, targets: readonly Target[]): Task {
  const body = targets.some(({ pricing }) => pricesTokens(pricing)) ? null : task.body.withoutTokens?.()
  return body ? { ...task, body, cap: 0, promptTokens: 0, maxPromptTokens: 0 } : task
}

/** Keeps the targets that support the request's features, or rejects it before anything is reserved. */
function fitFeatures(
  task: Task,
  facts: Capabilities,
  targets: readonly Target[],
  passthrough: Passthrough,
): Decision<readonly Target[]> {
  const { body } = task
  const chat = isChat(task) ? task : null
  const misfit = chat && checkFit(chat.body, facts)
  if (misfit) return misfit
  const restricted = findRestricted(body)
  const able: Target[] = []
  let none: GatewayError | null = null
  for (const target of targets) {
    const isTranslated = passthrough.of(target) === null
    const unable =
      passthrough.refusal(target) ??
      (isTranslated ? (chat?.untranslatable ?? checkRestricted(restricted, target)) : null) ??
      (target.upstream.local ? null : chat?.beyondStrict) ??
      (chat ? checkTarget(chat.body, facts, target) : checkEndpointOf(task.endpoint, target)) ??
      checkCalls(body, target)
    if (unable === null) able.push(target)
    else none ??= unable
  }
  return (able.length === 0 ? none : chat && checkParts(chat.body, facts)) ?? able
}

function checkEndpointOf(endpoint: Endpoint, { model, upstream }: Target): GatewayError | null {
  // For embeddings, inputs matter, too: see `checkKind`.
  if (endpoint === 'embeddings' || dialectOf(upstream).endpoints.some((name) => name === endpoint)) return null
  const path = ENDPOINT_PATHS[endpoint]
  return new GatewayError(
    'invalid_request',
    `The model \`${model}\` can't be called at ${path}: upstream \`${upstream.id}\` has no such endpoint. Use another model.`,
    { code: 'unsupported_endpoint', param: 'model' },
  )
}

/** One call per choice would exceed the upstream's requests per minute. */
function checkCalls(body: AnyRequest, target: Target): GatewayError | null {
  if (body instanceof RerankRequest) return checkInputCalls(body, target)
  const { id, limits } = target.upstream
  const most = limits.rpm
  if (most === null || (body.n ?? 1) <= most || !isSplit(body, target)) return null
  const why = `each choice is a separate call, and upstream \`${id}\` allows ${most} per minute`
  return new GatewayError('invalid_request', `'n' is too large for the model \`${target.model}\`: ${why}.`, {
    param: 'n',
  })
}

function mayOverflow({ promptTokens }: Task, targets: readonly Target[]): boolean {
  for (const { contextLength } of targets) if (promptTokens * BYTES_PER_TOKEN > contextLength) return true
  return false
}

/** A model's own tokenizer may count fewer tokens than ours by this factor; closer cases are left to the upstream. */
const TOLERANCE = 1.25

/** Counts the prompt and keeps the targets it may fit; all of them if it can't be counted. */
async function fitLength(
  counter: Counter,
  quotaId: string,
  body: AnyRequest,
  targets: readonly Target[],
): Promise<Decision<readonly Target[]>> {
  const counted = await counter.prompt(quotaId, body)
  if (counted === null) return targets
  const fitting = targets.filter(({ contextLength }) => counted <= contextLength * TOLERANCE)
  if (fitting.length > 0) return fitting
  return contextOverflow(Math.max(...targets.map(({ contextLength }) => contextLength)), counted)
}

/** Clients match on this text and shorten their history. */
export const contextOverflow = (contextLength: number, promptTokens: number, param = 'messages') =>
  new GatewayError(
    'invalid_request',
    `This model's maximum context length is ${contextLength} tokens. However, your messages resulted in ${promptTokens} tokens. Please reduce the length of the messages.`,
    { code: 'context_length_exceeded', param },
  )

/** A request that needs more calls was meant for another upstream; each is recorded and paid for. */
const MAX_CALLS = 256
const MAX_COUNTED = 8

async function fitInputs(
  counter: Counter,
  quotaId: string,
  body: EmbeddingsRequest,
  targets: readonly Target[],
): Promise<Decision<readonly Target[]>> {
  const unable = targets.map((target) => checkKind(body, target) ?? checkInputCalls(body, target))
  const able = targets.filter((_, at) => unable[at] === null)
  const [why] = unable
  if (able.length === 0 && why) return why
  const lengths = able.map(({ contextLength }) => contextLength)
  let longest: Counted = { tokens: 0, least: 0 }
  for (const { input, at } of toLongInputs(body.inputs, Math.min(...lengths))) {
    const counted = await count(counter, quotaId, body, input)
    const most = Math.max(...lengths)
    if (counted.least > most) return contextOverflow(most, counted.tokens, toParam(body, at))
    if (counted.least > longest.least) longest = counted
  }
  return able.filter(({ contextLength }) => longest.least <= contextLength)
}

interface Counted {
  tokens: number
  /** Lower bound in the model's own vocabulary. */
  least: number
}

function checkKind({ inputs }: EmbeddingsRequest, { model, upstream }: Target): GatewayError | null {
  const { embeds: reads } = dialectOf(upstream)
  if (reads === 'texts and tokens') return null
  const at = inputs.findIndex((input) => typeof input !== 'string')
  if (reads === 'texts' && at < 0) return null
  const [why, param] =
    reads === 'nothing'
      ? [`upstream \`${upstream.id}\` doesn't support embeddings`, 'model']
      : [`upstream \`${upstream.id}\` doesn't accept token arrays. Send text`, 'input']
  return new GatewayError('invalid_request', `The model \`${model}\` can't embed this input: ${why}.`, {
    code: reads === 'nothing' ? 'unsupported_endpoint' : 'unsupported_parameter',
    param,
  })
}

function checkInputCalls(body: EmbeddingsRequest | RerankRequest, target: Target): GatewayError | null {
  const { id, limits } = target.upstream
  const calls = toBatches(body, target).length
  const most = Math.min(MAX_CALLS, limits.rpm ?? Infinity)
  if (calls <= most) return null
  const isRanking = body instanceof RerankRequest
  const count = isRanking ? `${body.documents.length} documents` : `${body.inputs.length} inputs`
  const param = isRanking ? 'documents' : 'input'
  return new GatewayError(
    'invalid_request',
    `Invalid '${param}': array too long for the model \`${target.model}\`: ${count} need ${calls} calls to upstream \`${id}\` (limit: ${most}). Send fewer.`,
    { param, code: 'array_above_max_length' },
  )
}

interface LongInput {
  input: EmbeddingInput
  at: number
}

function toLongInputs(inputs: readonly EmbeddingInput[], contextLength: number): LongInput[] {
  const found: (LongInput & { most: number })[] = []
  for (const [at, input] of inputs.entries()) {
    const most = typeof input === 'string' ? Buffer.byteLength(input) : input.length
    if (most > contextLength) found.push({ input, at, most })
  }
  return found.sort((a, b) => b.most - a.most).slice(0, MAX_COUNTED)
}

/** 0 if it can't be counted in time; then its upstream decides. */
async function count(
  counter: Counter,
  quotaId: string,
  body: EmbeddingsRequest,
  input: EmbeddingInput,
): Promise<Counted> {
  if (typeof input !== 'string') return { tokens: input.length, least: input.length }
  const tokens = (await counter.prompt(quotaId, body.of([input]))) ?? 0
  return { tokens, least: tokens / TOLERANCE }
}

const toParam = ({ inputs }: EmbeddingsRequest, at: number) => (inputs.length === 1 ? 'input' : `input[${at}]`)

/**
 * Passed through if the target speaks the client's format and nothing about the request needs changing; else
 * translated.
 */
export interface Passthrough {
  of(target: Target): PassthroughRequest | null
  /** The error for a field that this target may not be sent either way. */
  refusal(target: Target): GatewayError | null
}

const TRANSLATED: Passthrough = { of: () => null, refusal: () => null }

export function toPassthrough(task: Task): Passthrough {
  if (!isChat(task) || !task.passthrough) return TRANSLATED
  const { passthrough, untranslatable, body } = task
  const found = findPassthroughRestricted(passthrough)
  // Fields with unknown prices or fees, unknown fields, and provider tools may be dropped if the request can be
  // translated.
  const never = found.filter(
    (each) => untranslatable !== undefined || (toolOf(each) === null && !MAY_BE_LEFT_OUT.has(each.reason)),
  )
  // Cached per set of removed tools: each text is as long as the request.
  const known = new Map<string, PassthroughRequest | null>()
  return {
    of(target) {
      if (!speaks(passthrough, body, target)) return null
      const restricted = found.filter((each) => !mayBeSent(each, target, 'native'))
      if (restricted.length === 0) return passthrough
      return known.getOrInsertComputed(restricted.map(({ param }) => param).join(), () =>
        withoutRestricted(passthrough, restricted),
      )
    },
    refusal: (target) => (speaks(passthrough, body, target) ? checkRestricted(never, target, 'native') : null),
  }
}

const MAY_BE_LEFT_OUT: ReadonlySet<RefusalReason> = new Set<RefusalReason>(['dear', 'fee', 'unknown'])

function speaks({ endpoint }: PassthroughRequest, body: CanonicalRequest, target: Target): boolean {
  const { passthrough } = target.upstream.options
  const isPassthrough =
    passthrough !== false && passthrough.includes(endpoint) && dialectOf(target.upstream).passthrough.includes(endpoint)
  return isPassthrough && !isSplit(body, target) && !isEnforced(body, target)
}

const toolOf = ({ param }: RestrictedField): number | null => {
  const [, index] = /^tools\[(\d+)\]/.exec(param) ?? []
  return index === undefined ? null : Number(index)
}

/**
 * Codex offers every model a web search, and some models only speak this format: restricted tools are removed if not
 * required. Null if that leaves doubt.
 */
function withoutRestricted(
  passthrough: PassthroughRequest,
  restricted: readonly RestrictedField[],
): PassthroughRequest | null {
  if (passthrough.endpoint !== 'responses') return null
  const tools = new Set<number>()
  for (const each of restricted) {
    const tool = toolOf(each)
    if (tool === null) return null
    tools.add(tool)
  }
  const { tool_choice: choice } = passthrough.json
  const mayChoose = choice == null || choice === 'auto' || choice === 'none'
  return mayChoose && tools.size < asList(passthrough.json.tools).length ? withoutTools(passthrough, tools) : null
}
