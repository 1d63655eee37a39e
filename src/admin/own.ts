/**
 * What members have of their own: `/admin/api/own`. Their keys, which nobody else's id leads beyond, and what their team may use. A
 * secret is in one answer, that of its making.
 */
import { Elysia } from 'elysia'
import { toKeyDocument } from '../documents/key.ts'
import { toTeamDocument } from '../documents/team.ts'
import { createOwnKeys, requireMember } from '../identity/own-keys.ts'
import type { Principal } from '../identity/principal.ts'
import { editKey } from '../keys/edit.ts'
import { rotateKey } from '../keys/rotate.ts'
import { type ListedKey, listKeys, revokeKey, showKey } from '../keys/service.ts'
import { toFirstStanding } from '../keys/standing.ts'
import { showTeam } from '../keys/teams.ts'
import { access } from './access.ts'
import { actors } from './actor.ts'
import type { AdminDeps } from './deps.ts'
import { inForce } from './in-force.ts'
import { OwnBody, OwnPatch, RotateBody, toOverlapMs, toOwnChanges } from './key-body.ts'

export function ownController(deps: AdminDeps) {
  const { store, identity, reports, serving, now } = deps
  const namesOf = ({ id, name }: Principal) => new Map([[id, name]])
  const standing = async (key: ListedKey, owner: Principal) =>
    toKeyDocument(key, (await reports.standings(owner, 'key', key.id))(key), namesOf(owner))
  const by = actors(deps)
  const ownKeys = (principal: Principal) => createOwnKeys(store, identity, requireMember(principal))

  return new Elysia({ name: 'own', prefix: '/own' })
    .use(access())
    .onAfterHandle(inForce({ serving }))
    .get(
      '/team',
      async ({ principal }) => {
        const { team } = await showTeam(ownKeys(principal), requireMember(principal).teamId, now())
        // What is noted beside a team is for those who make teams.
        const { metadata: _, ...document } = toTeamDocument(
          team,
          (await reports.standings(principal, 'team', team.id))(team),
        )
        return document
      },
      { least: 'member' },
    )
    .get('/models', ({ principal }) => ({ models: serving.modelsOf(requireMember(principal).teamId) }), {
      least: 'member',
    })
    .get(
      '/keys',
      async ({ principal }) => {
        const [keys, standingOf] = await Promise.all([
          listKeys(ownKeys(principal), now()),
          reports.standings(principal, 'key'),
        ])
        return { keys: keys.map((key) => toKeyDocument(key, standingOf(key), namesOf(principal))) }
      },
      { least: 'member' },
    )
    .post(
      '/keys',
      async ({ principal, body: { name, ...fields } }) => {
        const { key, secret } = await ownKeys(principal).create({ ...toOwnChanges(fields), name }, by(principal))
        return { ...toKeyDocument(key, toFirstStanding(key, now()), namesOf(principal)), key: secret }
      },
      { least: 'member', body: OwnBody },
    )
    .get(
      '/keys/:id',
      async ({ principal, params: { id } }) => standing(await showKey(ownKeys(principal), id, now()), principal),
      {
        least: 'member',
      },
    )
    .patch(
      '/keys/:id',
      async ({ request, principal, params: { id }, body }) => {
        const { key } = await editKey(ownKeys(principal), id, toOwnChanges(body), by(principal, request))
        return standing(key, principal)
      },
      { least: 'member', body: OwnPatch },
    )
    .post(
      '/keys/:id/rotate',
      async ({ principal, params: { id }, body: { overlap } }) => {
        const { key, secret } = await rotateKey(ownKeys(principal), id, toOverlapMs(overlap), by(principal))
        return { ...(await standing(key, principal)), key: secret }
      },
      { least: 'member', body: RotateBody },
    )
    .post(
      '/keys/:id/revoke',
      async ({ principal, params: { id } }) =>
        standing((await revokeKey(ownKeys(principal), id, by(principal))).key, principal),
      { least: 'member' },
    )
}
