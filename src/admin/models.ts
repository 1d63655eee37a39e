/** Models, as the commands list and show them: `/admin/api/models`. A slug has a slash, which is escaped in a path. */
import { Elysia } from 'elysia'
import { findModel } from '../catalog/find.ts'
import { toAliasDocuments, toModelDocuments, toShownModel } from '../documents/model.ts'
import { toKnown } from '../documents/readiness.ts'
import { toUpstreamDocuments } from '../documents/upstream.ts'
import type { CatalogRows } from '../store/catalog-rows.ts'
import { access } from './access.ts'
import type { AdminDeps } from './deps.ts'

/** The server knows whether it has them. */
const NOT_NEEDED = new Map()

export function modelsController({ store, serving }: AdminDeps) {
  const toDocuments = (rows: CatalogRows) =>
    toModelDocuments(rows, toKnown(toUpstreamDocuments(rows.upstreams, NOT_NEEDED, serving.upstreams()), true))

  const show = async (name: string) => {
    const rows = await store.readCatalog()
    const { slug } = findModel(rows, name)
    const prices = await store.readPrices(slug)
    // Of one model alone: there may be thousands.
    const own = { ...rows, models: rows.models.filter((row) => row.slug === slug) }
    return toDocuments(own).map((document) => toShownModel(document, rows, prices))[0]
  }

  return new Elysia({ name: 'models' })
    .use(access())
    .get(
      '/models',
      async () => {
        const rows = await store.readCatalog()
        return { models: toDocuments(rows), aliases: toAliasDocuments(rows) }
      },
      { least: 'viewer' },
    )
    .get('/models/:slug', ({ params: { slug } }) => show(slug), { least: 'viewer' })
}
