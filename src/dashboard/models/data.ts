/** What the pages of models read. After a change, what is open is read again. */
import type { toShownModel } from '../../documents/model.ts'
import { api, ask } from '../api/client.ts'
import { useLoaded } from '../api/loaded.ts'

const FRESH_MS = 15_000

/** One model, with all of its prices. */
export type Model = ReturnType<typeof toShownModel>

export const useModels = () =>
  useLoaded('models', async () => (await ask(api.models.get())).models, { everyMs: FRESH_MS })

/** A slug has a slash, which is escaped in a path. */
const modelOf = (slug: string) => api.models({ slug: encodeURIComponent(slug) })

export const useModel = (slug: string) =>
  useLoaded(`models/${slug}`, async () => (await ask(modelOf(slug).get())) as Model, { everyMs: FRESH_MS })
