/**
 * What members are told of the ledger: `/admin/api/own/usage`, `/own/requests`, `/own/requests/live` and one request, as others are of
 * all. No filter leads beyond keys of their own: whose those are is settled where the ledger is read.
 */
import { Elysia } from 'elysia'
import { requireMember } from '../identity/own-keys.ts'
import type { Principal } from '../identity/principal.ts'
import { toOwnFilter, toOwnRows, toRequestFilter } from '../ledger/report-filter.ts'
import { access, isStillLetIn, type Route } from './access.ts'
import type { AdminDeps } from './deps.ts'
import { type LastingAsker, toAnswer } from './reports.ts'
import { FilterQuery, ListQuery, REQUESTS, toLasting, toWanted, toWantedPage } from './requests.ts'
import { toUsageOptions, USAGE, UsageQuery } from './usage.ts'

const toOwnAsker = (asker: LastingAsker, principal: Principal) => ({
  ...asker,
  ownerId: requireMember(principal).id,
})

/** What a route of all keys says of itself, of keys of a member's own. */
const toOwn = (route: Omit<Route, 'least'>): Route => ({
  ...route,
  least: 'member',
  description: [route.description, "Of a member's own keys alone."].filter(Boolean).join(' '),
  errors: [...(route.errors ?? []), 'no_team'],
})

export function ownLedgerController(deps: AdminDeps) {
  const { store, reports, live, now } = deps

  return new Elysia({ name: 'own-ledger', prefix: '/own' })
    .use(access())
    .get(
      '/usage',
      async ({ request, asker, principal, query }) =>
        toAnswer(await reports.usage(toOwnAsker(asker, principal), toUsageOptions(request, query, now()))),
      { route: toOwn(USAGE), query: UsageQuery },
    )
    .get(
      '/requests',
      async ({ request, asker, principal, query }) =>
        toAnswer(await reports.requests(toOwnAsker(asker, principal), toWantedPage(request, query, now()))),
      { route: toOwn(REQUESTS.list), query: ListQuery },
    )
    .get(
      '/requests/live',
      async ({ request, asker, principal, query }) => {
        const own = toOwnAsker(asker, principal)
        const rows = toOwnRows(await store.read(), own.ownerId)
        // Of the keys that they have when they begin to follow.
        const filter = { ...toRequestFilter(toWanted(request, query), rows, now()), ...toOwnFilter(rows) }
        const response = live.follow(own, filter, () => isStillLetIn(request, 'member', deps))
        return toLasting(response, request, live)
      },
      { route: toOwn(REQUESTS.live), query: FilterQuery },
    )
    .get(
      '/requests/:id',
      async ({ asker, principal, params: { id } }) => toAnswer(await reports.request(toOwnAsker(asker, principal), id)),
      { route: toOwn(REQUESTS.one) },
    )
}
