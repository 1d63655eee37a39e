/** `/admin/api/own`: a member's keys, team, models, usage, and requests. Ledger reads are limited to their keys, whatever the filter. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { OwnTeam, toTeamDocument } from '../documents/key.ts'
import { PublicModel } from '../documents/model.ts'
import { createOwnKeys, requireMember } from '../identity/own-keys.ts'
import type { Principal } from '../identity/principal.ts'
import { showTeam } from '../keys/service.ts'
import { toOwnFilter, toOwnRows, toRequestFilter } from '../ledger/report-filter.ts'
import { access, isStillLetIn } from './access.ts'
import { ownAttentionController } from './attention.ts'
import { type AdminDeps, type LastingAsker, toAnswer } from './deps.ts'
import { ownKeysController, toOwn } from './keys.ts'
import {
  MAX_ROWS,
  OwnFilterQuery,
  OwnListQuery,
  REQUESTS,
  toLasting,
  toWanted,
  toWantedCsv,
  toWantedPage,
} from './requests.ts'
import { REFUSALS, RefusalsQuery, toRefusalOptions, toUsageOptions, USAGE, UsageQuery } from './usage.ts'

const toOwnAsker = (asker: LastingAsker, principal: Principal) => ({
  ...asker,
  ownerId: requireMember(principal).id,
})

export function ownController(deps: AdminDeps) {
  const { store, identity, reports, serving, live, exportCsv, now } = deps

  return new Elysia({ name: 'own', prefix: '/own' })
    .use(access())
    .use(ownKeysController(deps))
    .use(ownAttentionController(deps))
    .get(
      '/team',
      async ({ principal }) => {
        const member = requireMember(principal)
        const own = createOwnKeys(store, identity, member)
        const { team } = await showTeam(own, member.teamId, now())
        // Metadata is for administrators.
        const { metadata: _, ...document } = toTeamDocument(
          team,
          (await reports.spendStatuses(principal, 'team', team.id))(team),
        )
        return document
      },
      { route: { least: 'member', summary: 'Get your team', answer: OwnTeam, errors: ['no_team'] } },
    )
    .get('/models', ({ principal }) => ({ models: serving.modelsOf(requireMember(principal).teamId) }), {
      route: {
        least: 'member',
        summary: 'List the models available to you',
        answer: Type.Object({ models: Type.Array(PublicModel) }),
        errors: ['no_team'],
      },
    })
    .get(
      '/usage',
      async ({ request, asker, principal, query }) =>
        toAnswer(await reports.usage(toOwnAsker(asker, principal), toUsageOptions(request, query, asker, now()))),
      { route: toOwn(USAGE), query: UsageQuery },
    )
    .get(
      '/usage/refusals',
      async ({ request, asker, principal, query }) =>
        toAnswer(await reports.refusals(toOwnAsker(asker, principal), toRefusalOptions(request, query, asker, now()))),
      { route: toOwn(REFUSALS), query: RefusalsQuery },
    )
    .get(
      '/requests',
      async ({ request, asker, principal, query }) =>
        toAnswer(
          await reports.requests(
            toOwnAsker(asker, principal),
            toWantedPage(request, query, { most: MAX_ROWS, asker, nowMs: now() }),
          ),
        ),
      { route: toOwn(REQUESTS.list), query: OwnListQuery },
    )
    .get(
      '/requests/csv',
      async ({ request, asker, principal, query }) => {
        const nowMs = now()
        return exportCsv({
          ...{ asker: toOwnAsker(asker, principal), nowMs, read: reports.requestsCsv },
          keepOpen: (isKept) => live.keepOpen(request, isKept),
          wanted: toWantedCsv(request, query, asker, nowMs),
          isLetIn: () => isStillLetIn(request, 'member', deps),
        })
      },
      { route: toOwn(REQUESTS.csv), query: OwnListQuery },
    )
    .get(
      '/requests/live',
      async ({ request, asker, principal, query }) => {
        const own = toOwnAsker(asker, principal)
        const rows = toOwnRows(await store.read(), own.ownerId)
        // Keys created later are not included.
        const filter = { ...toRequestFilter(toWanted(request, query), rows, now()), ...toOwnFilter(rows) }
        const response = live.follow(own, filter, () => isStillLetIn(request, 'member', deps))
        return toLasting(response, request, live)
      },
      { route: toOwn(REQUESTS.live), query: OwnFilterQuery },
    )
    .get(
      '/requests/:id',
      async ({ asker, principal, params: { id } }) => toAnswer(await reports.request(toOwnAsker(asker, principal), id)),
      { route: toOwn(REQUESTS.one) },
    )
}
