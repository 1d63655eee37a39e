/** Keys: `/admin/api/keys`. A secret is in one answer, that of its making. */
import { Elysia } from 'elysia'
import { toKeyDocument } from '../documents/key.ts'
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
      { least: 'viewer' },
    )
    .post(
      '/keys',
      async ({ principal, body: { name, ...fields } }) => {
        const { key, secret } = await createKey(store, { ...toKeyChanges(fields), name }, by(principal))
        return { ...toKeyDocument(key, toFirstStanding(key, now()), await readNames(identity)), key: secret }
      },
      { least: 'editor', body: KeyBody },
    )
    .get('/keys/:id', async ({ asker, params: { id } }) => standing(asker, await showKey(store, id, now())), {
      least: 'viewer',
    })
    .patch(
      '/keys/:id',
      async ({ request, principal, asker, params: { id }, body }) => {
        const { key } = await editKey(store, id, toKeyChanges(body), by(principal, request))
        return standing(asker, key)
      },
      { least: 'editor', body: KeyPatch },
    )
    .post(
      '/keys/:id/rotate',
      async ({ principal, asker, params: { id }, body: { overlap } }) => {
        const { key, secret } = await rotateKey(store, id, toOverlapMs(overlap), by(principal))
        return { ...(await standing(asker, key)), key: secret }
      },
      { least: 'editor', body: RotateBody },
    )
    .post(
      '/keys/:id/revoke',
      async ({ principal, asker, params: { id } }) => standing(asker, (await revokeKey(store, id, by(principal))).key),
      { least: 'editor' },
    )
}
