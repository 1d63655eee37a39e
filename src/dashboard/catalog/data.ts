/** The catalog, its versions, and changes of it as a whole. */
import { api, ask, ifMatch } from '../api/client.ts'
import { reloadAll, useLoaded } from '../api/loaded.ts'

export const useVersions = () =>
  useLoaded('catalog/history', async () => (await ask(api.catalog.history.get())).versions.toReversed(), {
    everyMs: 30_000,
  })

export const useVersion = (number: number) =>
  useLoaded(`catalog/history/${number}`, () => ask(api.catalog.history({ number }).get()))

/** As a file, without credentials. */
export const readCatalog = () => ask(api.catalog.get())

export const reloadCatalog = () => Promise.all(['catalog', 'models', 'upstreams'].map(reloadAll))

/** @param revision the catalog's revision at the preview. */
export async function revert(number: number, isPlan: boolean, revision: string | undefined) {
  const done = await ask(api.catalog.revert.post({ number, plan: isPlan }, ifMatch(revision)))
  if (!isPlan) await reloadCatalog()
  return done
}

export async function undo(number: number, isPlan: boolean, revision: string | undefined) {
  const done = await ask(api.catalog.undo.post({ number, plan: isPlan }, ifMatch(revision)))
  if (!isPlan) await reloadCatalog()
  return done
}

/** A preview of undoing a version, or why it can't be undone. */
export const useUndo = (number: number) =>
  useLoaded(`catalog/history/${number}/undo`, () => undo(number, true, undefined))

export interface Wishes {
  prune: boolean
  discard_edits: boolean
}

export const planYaml = (yaml: string, wishes: Wishes) => ask(api.catalog.plan.post({ yaml, ...wishes }))

/** @param revision the catalog's revision at the preview. */
export async function applyYaml(yaml: string, wishes: Wishes, revision: string | undefined) {
  const summary = await ask(api.catalog.apply.post({ yaml, ...wishes }, ifMatch(revision)))
  await reloadCatalog()
  return summary
}
