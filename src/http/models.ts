/** `GET /v1/models` and `GET /v1/models/<vendor>/<model_name>`: only models that the key may call. */

import { Elysia } from 'elysia'
import { isReady, type PublicModel, toPublicFacts } from '../catalog/public.ts'
import { isBuiltIn } from '../domain/dialects.ts'
import { mintId, toRequestId } from '../domain/id.ts'
import type { ServerState } from '../domain/model-server.ts'
import type { Key, Snapshot, Target } from '../domain/snapshot.ts'
import { isGeminis, keyInUrl, toGeminiCall, toGeminiModel, toMethods } from '../formats/gemini/path.ts'
import type { HandleDeps } from '../gateway/handle.ts'
import type { RequestHeaders } from '../gateway/read.ts'
import type { Health } from '../health/health.ts'
import type { IpOf } from '../keys/token.ts'
import type { Log } from '../log.ts'
import { type ListedName, listedNames, listedTargets, teamOf, visibleModel } from '../routing/access.ts'
import { modelNotFound } from '../routing/route.ts'
import { callerOf } from './caller.ts'
import { errorFormatOf } from './endpoints.ts'
import { bearerToken, NoRoute, pathOf } from './instance.ts'

export interface ModelsDeps {
  live: { readonly snapshot: Snapshot }
  health: Pick<Health, 'forRequest'>
  /** Null if Tollgate does not start its server. */
  serverStateOf(upstreamId: string): ServerState | null
  /** Output tokens per second; null if not measured. */
  speedOf(target: Target): number | null
  refusals: HandleDeps['refusals']
  log: Log
  now(): number
}

/** @param owner the caller, if it needs no authentication. */
export const modelsController = (deps: ModelsDeps, ipOf: IpOf, owner: Key | null = null) => {
  const keyOf = (request: Request, headers: RequestHeaders, bearer: string | undefined): Key => {
    const inUrl = pathOf(request).startsWith('/v1beta/') ? keyInUrl(request) : null
    return owner ?? callerOf(deps, ipOf, { request, headers, bearer }, inUrl)
  }
  const reply = (key: Key, request: Request, json: string) => {
    const id = mintId(deps.now())
    deps.log.info('models_listed', 'models listed', { id, key: key.id, http: 200 })
    const ids = errorFormatOf(request).ids(toRequestId(id))
    return new Response(json, { headers: { 'content-type': 'application/json', ...ids } })
  }

  const listForGemini = (key: Key, request: Request) => {
    const { snapshot } = deps.live
    const team = teamOf(snapshot, key)
    const names = listedNames(snapshot).filter(
      (name) => toMethods(name.model.facts).length > 0 && listedTargets(key, team, name),
    )
    return reply(key, request, JSON.stringify({ models: names.map(({ model, id }) => toGeminiModel(model.facts, id)) }))
  }
  const findModel = (key: Key, request: Request, id: string) => {
    const { snapshot } = deps.live
    const found = visibleModel(snapshot, key, id)
    if (!found) throw modelNotFound(snapshot, key, id, null)
    if (isGeminis(request, pathOf(request)))
      return reply(key, request, JSON.stringify(toGeminiModel(found.model.facts, id)))
    const state = statesFor(deps, key)(found.targets)
    return reply(key, request, JSON.stringify({ ...toPublicFacts(found.model, id), ...state }))
  }

  return new Elysia({ name: 'models' })
    .use(bearerToken())
    .get('/v1beta/models', ({ request, headers, bearer }) => listForGemini(keyOf(request, headers, bearer), request))
    .get('/v1beta/models/*', ({ request, headers, bearer }) => {
      const asked = askedModel(request)
      return findModel(keyOf(request, headers, bearer), request, asked.replace(/^models\//, ''))
    })
    .get('/v1/models', ({ request, headers, bearer, query }) => {
      const key = keyOf(request, headers, bearer)
      if (isGeminis(request, pathOf(request))) return listForGemini(key, request)
      const stateFor = statesFor(deps, key)
      const { snapshot } = deps.live
      const team = teamOf(snapshot, key)
      let data = ''
      let first: string | null = null
      let last: string | null = null
      for (const name of listedNames(snapshot)) {
        const targets = listedTargets(key, team, name)
        if (!targets) continue
        data += `${data === '' ? '' : ','}${toText(name, stateFor(targets))}`
        first ??= name.id
        last = name.id
      }
      const page = JSON.stringify({ has_more: false, first_id: first, last_id: last }).slice(1, -1)
      return reply(
        key,
        request,
        `{"object":"list","data":[${data}],${page}${'client_version' in query ? FOR_CODEX : ''}}`,
      )
    })
    .get('/v1/models/*', ({ request, headers, bearer }) => {
      const asked = askedModel(request)
      return findModel(keyOf(request, headers, bearer), request, asked)
    })
}

/**
 * The slash of a model ID may be escaped as %2F, and the router doesn't decode its parameter.
 * Throws for a method of Gemini's.
 */
function askedModel(request: Request): string {
  const path = pathOf(request)
  if (toGeminiCall(path)) throw new NoRoute(request.method, path, 'POST')
  return decode(path.replace(/^.*?\/v1(beta)?\/models\//, ''))
}

/**
 * Codex (`client_version`) can't read a list without `models`. An entry would replace its own instructions for a model,
 * so the list stays empty (https://github.com/openai/codex/blob/main/codex-rs/protocol/src/openai_models.rs).
 */
const FOR_CODEX = ',"models":[]'

type Asking = Pick<Key, 'id' | 'teamId' | 'scope' | 'models'>

export const ANY_KEY: Asking = { id: '', teamId: null, scope: 'all', models: [] }

/** The list of `GET /v1/models` for a key. */
export function listModels(deps: StatesDeps, key: Asking): PublicModel[] {
  const stateFor = statesFor(deps, key)
  const { snapshot } = deps.live
  const team = teamOf(snapshot, key)
  return listedNames(snapshot).flatMap((name) => {
    const targets = listedTargets(key, team, name)
    return targets ? { ...toPublicFacts(name.model, name.id), ...stateFor(targets) } : []
  })
}

type StatesDeps = Pick<ModelsDeps, 'live' | 'health' | 'serverStateOf' | 'speedOf'>

type ModelState = Pick<PublicModel, 'is_ready' | 'state' | 'tokens_per_second'>

/** Readiness, the state of the first managed server, and the speed of a local one. */
function statesFor(
  { health, serverStateOf, speedOf }: StatesDeps,
  key: Asking,
): (targets: readonly Target[]) => ModelState {
  const request = health.forRequest(key)
  const isOut = (target: Target) =>
    request.availability(target) === 'unavailable' || serverStateOf(target.upstream.id) === 'failed'
  return (targets) => {
    const managed = targets.find(({ upstream }) => upstream.process !== null)
    const state = managed && (serverStateOf(managed.upstream.id) ?? 'stopped')
    const local = targets.filter(({ upstream }) => upstream.local && !isBuiltIn(upstream))
    const speed = local.map(speedOf).find((one) => one !== null) ?? null
    return {
      is_ready: isReady(targets, isOut),
      ...(state ? { state } : {}),
      ...(local.length > 0 ? { tokens_per_second: speed } : {}),
    }
  }
}

/** Cached JSON of each model, up to the fields that differ per request. A list may have hundreds of models. */
const beginnings = new WeakMap<ListedName, string>()

const toText = (name: ListedName, state: ModelState) =>
  `${beginnings.getOrInsertComputed(name, toBeginning)},${JSON.stringify(state).slice(1)}`

const toBeginning = ({ model, id }: ListedName) => JSON.stringify(toPublicFacts(model, id)).slice(0, -1)

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
