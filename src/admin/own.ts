/**
 * What members have of their own: `/admin/api/own`. Their keys, which nobody else's id leads beyond, and what their team may use. A
 * secret is in one answer, that of its making.
 */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { Key, MadeKey, OwnTeam, toKeyDocument, toTeamDocument } from '../documents/key.ts'
import { PublicModel } from '../documents/model.ts'
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
      { route: { least: 'member', summary: "Shows a member's team", answer: OwnTeam, errors: ['no_team'] } },
    )
    .get('/models', ({ principal }) => ({ models: serving.modelsOf(requireMember(principal).teamId) }), {
      route: {
        least: 'member',
        summary: 'Lists the models that a member may use, as clients are told of them',
        answer: Type.Object({ models: Type.Array(PublicModel) }),
        errors: ['no_team'],
      },
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
      {
        route: {
          least: 'member',
          summary: "Lists a member's own keys",
          answer: Type.Object({ keys: Type.Array(Key) }),
          errors: ['no_team'],
        },
      },
    )
    .post(
      '/keys',
      async ({ principal, body: { name, ...fields } }) => {
        const { key, secret } = await ownKeys(principal).create({ ...toOwnChanges(fields), name }, by(principal))
        return { ...toKeyDocument(key, toFirstStanding(key, now()), namesOf(principal)), key: secret }
      },
      {
        route: {
          least: 'member',
          summary: "Makes a key of a member's own, in their team",
          answer: MadeKey,
          errors: ['no_team', 'key_exists', 'too_many_keys'],
        },
        body: OwnBody,
      },
    )
    .get(
      '/keys/:id',
      async ({ principal, params: { id } }) => standing(await showKey(ownKeys(principal), id, now()), principal),
      {
        route: {
          least: 'member',
          summary: "Shows a key of a member's own",
          answer: Key,
          errors: ['no_team', 'key_not_found', 'key_ambiguous'],
        },
      },
    )
    .patch(
      '/keys/:id',
      async ({ request, principal, params: { id }, body }) => {
        const { key } = await editKey(ownKeys(principal), id, toOwnChanges(body), by(principal, request))
        return standing(key, principal)
      },
      {
        route: {
          least: 'member',
          edits: true,
          summary: "Changes a key of a member's own",
          answer: Key,
          description: 'What an administrator has set (`ceilings`) can be lowered, and not raised or removed.',
          errors: [
            ...(['no_team', 'key_not_found', 'key_ambiguous', 'key_exists', 'key_revoked'] as const),
            ...(['too_many_keys', 'above_ceiling'] as const),
          ],
        },
        body: OwnPatch,
      },
    )
    .post(
      '/keys/:id/rotate',
      async ({ principal, params: { id }, body: { overlap } }) => {
        const { key, secret } = await rotateKey(ownKeys(principal), id, toOverlapMs(overlap), by(principal))
        return { ...(await standing(key, principal)), key: secret }
      },
      {
        route: {
          least: 'member',
          summary: "Makes a new secret of a member's own key",
          answer: MadeKey,
          errors: ['no_team', 'key_not_found', 'key_ambiguous', 'key_revoked', 'key_expired'],
        },
        body: RotateBody,
      },
    )
    .post(
      '/keys/:id/revoke',
      async ({ principal, params: { id } }) =>
        standing((await revokeKey(ownKeys(principal), id, by(principal))).key, principal),
      {
        route: {
          least: 'member',
          summary: "Revokes a key of a member's own",
          answer: Key,
          errors: ['no_team', 'key_not_found', 'key_ambiguous'],
        },
      },
    )
}
