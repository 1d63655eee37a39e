/**
 * Newer public facts and prices for what was found out: `/admin/api/catalog/refresh`, for owners. They are read from where the server is
 * set to read them, and nobody says otherwise from afar.
 */
import { Elysia } from 'elysia'
import { loadKnown } from '../catalog/known.ts'
import { listProviders, refreshFacts } from '../catalog/refresh.ts'
import { RefreshedCatalog } from '../documents/catalog.ts'
import { access } from './access.ts'
import { changesByHand } from './by-hand.ts'
import type { AdminDeps } from './deps.ts'
import { PlanQuery } from './schema.ts'

export function factsController(deps: AdminDeps) {
  const { store, catalogFiles, facts } = deps
  const byHand = changesByHand(deps)
  return new Elysia({ name: 'facts' }).use(access()).post(
    '/catalog/refresh',
    async ({ request, principal, query }) => {
      const { source } = facts
      const [text, shipped, { upstreams }] = await Promise.all([facts.read(), loadKnown(), store.readCatalog()])
      const providers = listProviders(upstreams, shipped)
      const { known, wrong } = await catalogFiles.facts({ text, name: source, providers }, principal.id)
      const refreshed = await byHand({ request, principal, query }, (by) =>
        refreshFacts(store, { known, shipped, source }, by),
      )
      return { ...refreshed, source, left_out: wrong }
    },
    {
      route: {
        least: 'owner',
        summary: 'Brings what was found out up to date with newer public facts and prices, or plans that',
        description:
          'They are read from models.dev, or from where TOLLGATE_FACTS of the server says. What a file, an administrator or the list of a provider says stays.',
        answer: RefreshedCatalog,
        errors: ['facts_unusable', 'catalog_not_read'],
      },
      query: PlanQuery,
    },
  )
}
