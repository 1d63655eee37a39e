/** Data of the model pages. A change reloads what is open. */
import type { ShownRoute, toShownModel } from '../../documents/model.ts'
import { count } from '../../domain/text.ts'
import { api, ask, ifMatch } from '../api/client.ts'
import { useLoaded } from '../api/loaded.ts'
import { Refusal, readRefusal, UNREACHABLE } from '../api/refusal.ts'
import { endSession } from '../api/session.ts'
import { reloadCatalog } from '../catalog/data.ts'
import { toLatency, toMoney } from '../figures/figures.ts'
import { toChangedFields } from '../keys/values.ts'
import type { Told } from '../upstreams/words.ts'
import { type ModelValues, type RouteValues, toModelPatch, toRouteBody, toRouteValues } from './words.ts'

const FRESH_MS = 15_000

/** Includes the price history. */
export type Model = ReturnType<typeof toShownModel>

export const useModels = () =>
  useLoaded('models', async () => (await ask(api.models.get())).models, { everyMs: FRESH_MS })

/** Model IDs contain a slash. */
const modelOf = (slug: string) => api.models({ slug: encodeURIComponent(slug) })

export const readModel = async (slug: string) => (await ask(modelOf(slug).get())) as Model

/** @throws a Refusal. */
export async function readRoute(slug: string, { upstream, upstream_model: model }: ShownRoute): Promise<ShownRoute> {
  const { routes } = await readModel(slug)
  const found = routes.find((one) => one.upstream === upstream && one.upstream_model === model)
  if (found) return found
  throw new Refusal('Someone has removed this route.', 'route_not_found')
}

export const useModel = (slug: string) => useLoaded(`models/${slug}`, () => readModel(slug), { everyMs: FRESH_MS })

/** @param revision undefined for something new. @param plan true for a preview only. */
async function change<T>(
  revision: string | undefined,
  work: (options: { query: { plan: boolean } } & ReturnType<typeof ifMatch>) => Promise<T>,
  plan: boolean,
): Promise<T> {
  const done = await work({ query: { plan }, ...ifMatch(revision) })
  if (!plan) await reloadCatalog()
  return done
}

export const editModel = (model: Model, values: ModelValues, isPlan: boolean) =>
  change(model.revision, (options) => ask(modelOf(model.slug).patch(toModelPatch(values, model), options)), isPlan)

/** Discards manual changes. */
export const resetModel = ({ slug, revision }: Model, isPlan: boolean) =>
  change(revision, (options) => ask(modelOf(slug).reset.post(undefined, options)), isPlan)

const routeOf = (slug: string, upstream: string, upstreamModel: string) =>
  modelOf(slug).routes({ upstream: encodeURIComponent(upstream) })({
    upstream_model: encodeURIComponent(upstreamModel),
  })

export const setRoute = (slug: string, values: RouteValues, before: ShownRoute | null, isPlan: boolean) =>
  change(
    before?.revision,
    (options) => {
      const upstreamModel = values.upstream_model.trim()
      if (upstreamModel === '') throw new Refusal('Enter the upstream model ID.', 'invalid', 'upstream_model')
      const body = toRouteBody(values, before)
      const changed = before === null ? body : toChangedFields(body, toRouteBody(toRouteValues(before), before))
      return ask(routeOf(slug, values.upstream, upstreamModel).put(changed, options))
    },
    isPlan,
  )

export const deleteRoute = (slug: string, route: ShownRoute, isPlan: boolean) =>
  change(
    route.revision,
    (options) => ask(routeOf(slug, route.upstream, route.upstream_model).delete(undefined, options)),
    isPlan,
  )

export interface TestResult extends Told {
  /** ID of the recorded request; null if none was recorded. */
  request: string | null
}

interface Completion {
  usage?: { cost_nano_usd?: number } | null
}

const TEST_MS = 60_000

/** Some models refuse a limit of one. */
const MORE_TOKENS = 16

/** One request for one token with the user's playground key. Never throws. @param upstream null for any */
export async function askOnce(model: string, upstream: string | null, tokens = 1): Promise<TestResult> {
  const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi' }], max_tokens: tokens })
  const startedMs = performance.now()
  const at = upstream === null ? '' : `?upstream=${encodeURIComponent(upstream)}`
  const response = await fetch(`/admin/api/playground${at}`, {
    ...{ method: 'POST', headers: { 'content-type': 'application/json' }, body },
    signal: AbortSignal.timeout(TEST_MS),
  }).catch(() => null)
  const answer = await response?.json().catch(() => null)
  const took = toLatency(performance.now() - startedMs)
  if (!response) return { kind: 'bad', word: UNREACHABLE().message, request: null }
  const request = response.headers.get('x-request-id')?.replace(/^req_/, '') ?? null
  if (response.ok) {
    const nanoUsd = (answer as Completion | null)?.usage?.cost_nano_usd
    const upstream = response.headers.get('x-tollgate-upstream')
    const parts = [took, nanoUsd !== undefined && toMoney(nanoUsd), upstream && `by ${upstream}`].filter(Boolean)
    return { kind: 'good', word: `Works: ${parts.join(', ')}.`, request }
  }
  const refusal = readRefusal(answer, response.status)
  if (refusal.kind === 'signed_out') endSession()
  if (response.status === 400 && /max_\w*tokens|output limit/.test(refusal.message)) {
    if (tokens < MORE_TOKENS) return askOnce(model, upstream, MORE_TOKENS)
    // A reasoning model may spend the whole limit before it answers.
    if (/limit was reached/.test(refusal.message))
      return { kind: 'good', word: `Works: ${took}, ended at its limit of ${count(tokens, 'token')}.`, request }
  }
  const isRecorded = refusal.kind.startsWith('upstream_')
  return { kind: 'bad', word: refusal.message, request: isRecorded ? request : null }
}
