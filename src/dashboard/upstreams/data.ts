/** Data of the upstream pages. */
import type { ShownFoundServer, ShownUpstream } from '../../documents/upstream.ts'
import { HOUR_MS } from '../../domain/time.ts'
import { api, ask, ifMatch } from '../api/client.ts'
import { readNow } from '../api/clock.ts'
import { reloadAll, useLoaded } from '../api/loaded.ts'
import { Refusal } from '../api/refusal.ts'
import { reloadCatalog } from '../catalog/data.ts'
import { toUpstreamPatch, type UpstreamValues } from './words.ts'

const FRESH_MS = 10_000

export const useUpstreams = () =>
  useLoaded('upstreams', async () => (await ask(api.upstreams.get())).upstreams, { everyMs: FRESH_MS })

/** @throws a Refusal. */
export async function readUpstream(wanted: string): Promise<ShownUpstream> {
  const found = (await ask(api.upstreams.get())).upstreams.find(({ id }) => id === wanted)
  if (found) return found
  throw new Refusal(`Someone has removed ${wanted}.`, 'upstream_not_found')
}

/** Doesn't change while the server runs. */
export const usePresets = () => useLoaded('presets', async () => (await ask(api.presets.get())).presets)

/** Owners only. Each read makes the server search. */
export const useFound = () => useLoaded('found', () => ask(api.upstreams.discover.post()))

/** Adds a model server with the models it lists; adds nothing if it lists none. @returns the number of models. */
export async function addFound({ id, preset, base_url }: ShownFoundServer): Promise<number> {
  await ask(api.upstreams.post({ id, preset, base_url, local: true }))
  try {
    const { upstream } = await ask(api.upstreams({ id }).models.post({ models: [] }))
    return upstream?.targets.length ?? 0
  } catch (error) {
    await ask(api.upstreams({ id }).delete())
    throw error
  } finally {
    await reloadUpstreams()
  }
}

/** Runs a free health check and reloads the states that it changes. */
export async function testUpstream(id: string) {
  const result = await ask(api.upstreams({ id }).test.post())
  await Promise.all([reloadAll('upstreams'), reloadAll('models')])
  return result
}

const FAILURES_SHOWN = 5

/** The newest failed requests whose last call went to this upstream. */
export const useFailures = (id: string) =>
  useLoaded(
    `requests?upstream=${id}&errors=true`,
    async () =>
      (await ask(api.requests.get({ query: { upstream: id, errors: true, limit: FAILURES_SHOWN } }))).requests,
    { everyMs: FRESH_MS },
  )

const HOURS_SHOWN = 24

/** Requests and errors by hour of the last day; hours without requests are missing. */
export const useHours = (id: string) =>
  useLoaded(
    `usage?by=hour&upstream=${id}`,
    async () => {
      const since = String(Math.floor(readNow() / HOUR_MS) * HOUR_MS - (HOURS_SHOWN - 1) * HOUR_MS)
      const { usage } = await ask(api.usage.get({ query: { by: 'hour', upstream: id, since } }))
      return usage.map(({ hour_ms: ms, requests, errors }) => ({
        ms: Number(ms),
        requests: Number(requests),
        errors: Number(errors),
      }))
    },
    { everyMs: 6 * FRESH_MS },
  )

export const editUpstream = (upstream: ShownUpstream, values: UpstreamValues, plan: boolean) =>
  change(
    () =>
      ask(
        api
          .upstreams({ id: upstream.id })
          .patch(toUpstreamPatch(values, upstream), { query: { plan }, ...ifMatch(upstream.revision) }),
      ),
    plan,
  )

/** Also removes its routes. */
export const deleteUpstream = ({ id, revision }: ShownUpstream, plan: boolean) =>
  change(() => ask(api.upstreams({ id }).delete(undefined, { query: { plan }, ...ifMatch(revision) })), plan)

async function change<T>(work: () => Promise<T>, isPlan: boolean): Promise<T> {
  const done = await work()
  if (!isPlan) await reloadUpstreams()
  return done
}

const reloadUpstreams = () => Promise.all([reloadCatalog(), reloadAll('found')])
