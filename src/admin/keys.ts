/** Keys: `/admin/api/keys`. A secret is in one answer, that of its making. */
import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { Key, MadeKey, toKeyDocument } from '../documents/key.ts'
import { readNames } from '../identity/admins.ts'
import { editKey } from '../keys/edit.ts'
import { rotateKey } from '../keys/rotate.ts'
import { createKey, type ListedKey, listKeys, revokeKey, showKey } from '../keys/service.ts'
import { toFirstStanding } from '../keys/standing.ts'
import { access } from './access.ts'
import { actors } from './actor.ts'
import type { AdminDeps } from './deps.ts'
import { inForce } from './in-force.ts'
import { KeyBody, KeyPatch, RotateBody, toKeyChanges, toOverlapMs } from './key-body.ts'
import type { Asker } from './reports.ts'

export function keysController(deps: AdminDeps) {
  const { store, identity, reports, serving, now } = deps
  const standing = async (asker: Asker, key: ListedKey) =>
    toKeyDocument(key, (await reports.standings(asker, 'key', key.id))(key), await readNames(identity))
  const by = actors(deps)

  return new Elysia({ name: 'keys' })
    .use(access())
    .onAfterHandle(inForce({ serving }))
    .get(
      '/keys',
      async ({ asker }) => {
        const [keys, standingOf, names] = await Promise.all([
          listKeys(store, now()),
          reports.standings(asker, 'key'),
          readNames(identity),
        ])
        return { keys: keys.map((key) => toKeyDocument(key, standingOf(key), names)) }
      },
      {
        route: {
          least: 'viewer',
          summary: 'Lists all keys, revoked and expired ones too, with what they have spent',
          answer: Type.Object({ keys: Type.Array(Key) }),
        },
      },
    )
    .post(
      '/keys',
      async ({ principal, body: { name, ...fields } }) => {
        const { key, secret } = await createKey(store, { ...toKeyChanges(fields), name }, by(principal))
        return { ...toKeyDocument(key, toFirstStanding(key, now()), await readNames(identity)), key: secret }
      },
      {
        route: {
          least: 'editor',
          summary: 'Makes a key, whose secret is in this answer alone',
          answer: MadeKey,
          errors: ['key_exists', 'team_not_found', 'team_ambiguous'],
        },
        body: KeyBody,
      },
    )
    .get('/keys/:id', async ({ asker, params: { id } }) => standing(asker, await showKey(store, id, now())), {
      route: {
        least: 'viewer',
        summary: 'Shows a key',
        description: 'By its id or at least six digits of it, its name, or the last four characters of its secret.',
        answer: Key,
        errors: ['key_not_found', 'key_ambiguous'],
      },
    })
    .patch(
      '/keys/:id',
      async ({ request, principal, asker, params: { id }, body }) => {
        const { key } = await editKey(store, id, toKeyChanges(body), by(principal, request))
        return standing(asker, key)
      },
      {
        route: {
          least: 'editor',
          edits: true,
          summary: 'Changes what is given; the rest stays, and so does what was spent',
          answer: Key,
          errors: [
            ...(['key_not_found', 'key_ambiguous', 'key_exists', 'key_revoked', 'key_hidden'] as const),
            ...(['team_not_found', 'team_ambiguous'] as const),
          ],
        },
        body: KeyPatch,
      },
    )
    .post(
      '/keys/:id/rotate',
      async ({ principal, asker, params: { id }, body: { overlap } }) => {
        const { key, secret } = await rotateKey(store, id, toOverlapMs(overlap), by(principal))
        return { ...(await standing(asker, key)), key: secret }
      },
      {
        route: {
          least: 'editor',
          summary: 'Makes a new secret; the one before ends after the overlap',
          answer: MadeKey,
          errors: ['key_not_found', 'key_ambiguous', 'key_revoked', 'key_expired', 'key_hidden'],
        },
        body: RotateBody,
      },
    )
    .post(
      '/keys/:id/revoke',
      async ({ principal, asker, params: { id } }) => standing(asker, (await revokeKey(store, id, by(principal))).key),
      {
        route: {
          least: 'editor',
          summary: 'Revokes a key for ever',
          answer: Key,
          errors: ['key_not_found', 'key_ambiguous', 'key_hidden'],
        },
      },
    )
}
