/** `/admin/api/attention`: what needs a person now; for members, only their own spend. */
import { Elysia } from 'elysia'
import { Attention, type AttentionDocument, toAttention } from '../documents/attention.ts'
import { createOwnKeys, requireMember } from '../identity/own-keys.ts'
import { listKeys, showTeam } from '../keys/service.ts'
import { access } from './access.ts'
import type { AdminDeps } from './deps.ts'
import { toOwn } from './keys.ts'
import { createSeen, EMPTY, toSpender, toSpenders } from './seen.ts'

export function attentionController(deps: AdminDeps) {
  const seen = createSeen(deps)

  return new Elysia({ name: 'attention' })
    .use(access())
    .get(
      '/attention',
      async ({ asker, principal }): Promise<AttentionDocument> => toAttention(await seen(asker), principal.role),
      {
        route: {
          least: 'viewer',
          summary: 'List what needs attention now, with the page and command for each',
          description:
            'Budgets and upstreams are current within 5 seconds, error rates, refused requests, and prices within a minute.',
          answer: Attention,
        },
      },
    )
}

export const ownAttentionController = ({ store, identity, reports, now }: AdminDeps) =>
  new Elysia({ name: 'own-attention' }).use(access()).get(
    '/attention',
    async ({ asker, principal }) => {
      const member = requireMember(principal)
      const own = createOwnKeys(store, identity, member)
      const [keys, { team }, ofKey, ofTeam] = await Promise.all([
        listKeys(own, now()),
        showTeam(own, member.teamId, now()),
        reports.spendStatuses(asker, 'key'),
        reports.spendStatuses(asker, 'team', member.teamId),
      ])
      const spenders = [{ ...toSpender('team', team, ofTeam), page: '/team' }, ...toSpenders(keys, ofKey)]
      return toAttention({ ...EMPTY, nowMs: now(), spenders }, 'member')
    },
    {
      route: toOwn({ summary: 'List budgets that need attention now', answer: Attention, errors: ['no_team'] }),
    },
  )
