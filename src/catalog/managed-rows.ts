/** Which rows are there for model servers that are started here. Pure. */
import type { CatalogRows } from '../store/catalog-rows.ts'
import { KINDS } from './rows-as-entries.ts'

/**
 * Names the upstreams whose servers are started here, the routes to them, the models that lead nowhere else, and their aliases: what
 * is of no use once the file of their commands is gone.
 */
export function namesOfManaged({ upstreams, models, routes, aliases }: CatalogRows): ReadonlySet<string> {
  const managed = upstreams.filter(({ options }) => options.process !== undefined)
  const ids = new Set(managed.map(({ id }) => id))
  const leading = routes.filter(({ upstream }) => ids.has(upstream))
  const elsewhere = new Set(routes.filter(({ upstream }) => !ids.has(upstream)).map(({ model }) => model))
  const slugs = new Set(leading.map(({ model }) => model).filter((slug) => !elsewhere.has(slug)))
  return new Set([
    ...managed.map(KINDS.upstreams.nameOf),
    ...leading.map(KINDS.routes.nameOf),
    ...models.filter(({ slug }) => slugs.has(slug)).map(KINDS.models.nameOf),
    ...aliases.filter(({ model }) => slugs.has(model)).map(KINDS.aliases.nameOf),
  ])
}
