/** Keys: `/admin/api/keys`. A secret is in one answer, that of its making. */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { toKeyDocument } from '../documents/key.ts'
import { ServiceError } from '../domain/service-error.ts'
import { toMs } from '../domain/time.ts'
import { editKey } from '../keys/edit.ts'
import type { KeyChanges } from '../keys/fields.ts'
import { DEFAULT_OVERLAP_MS, OVERLAP_MS, rotateKey } from '../keys/rotate.ts'
import { createKey, type ListedKey, listKeys, revokeKey, showKey } from '../keys/service.ts'
import { toFirstStanding } from '../keys/standing.ts'
import { access } from './access.ts'
import { actors } from './actor.ts'
import type { AdminDeps } from './deps.ts'
import { exactly, orNone, Shared } from './schema.ts'
import { toSharedChanges } from './shared-body.ts'

const KeyFields = {
  ...Shared,
  allowed_ips: Type.Optional(Type.Array(Type.String())),
  /** Id or name. */
  team: orNone(Type.String()),
  expires_ms: orNone(Type.Integer()),
}
const KeyBody = exactly({ ...KeyFields, name: Type.String() })
const KeyPatch = exactly({ ...KeyFields, name: Type.Optional(Type.String()) })

export function keysController({ store, reports, now }: AdminDeps) {
  const standing = async (key: ListedKey) => toKeyDocument(key, (await reports.standings('key', key.id))(key))
  const by = actors({ now })

  return new Elysia({ name: 'keys' })
    .use(access())
    .get(
      '/keys',
      async () => {
        const [keys, standingOf] = await Promise.all([listKeys(store, now()), reports.standings('key')])
        return { keys: keys.map((key) => toKeyDocument(key, standingOf(key))) }
      },
      { least: 'viewer' },
    )
    .post(
      '/keys',
      async ({ principal, body: { name, ...fields } }) => {
        const { key, secret } = await createKey(store, { ...toKeyChanges(fields), name }, by(principal))
        return { ...toKeyDocument(key, toFirstStanding(key, now())), key: secret }
      },
      { least: 'editor', body: KeyBody },
    )
    .get('/keys/:id', async ({ params: { id } }) => standing(await showKey(store, id, now())), { least: 'viewer' })
    .patch(
      '/keys/:id',
      async ({ principal, params: { id }, body }) => {
        const { key } = await editKey(store, id, toKeyChanges(body), by(principal))
        return standing(key)
      },
      { least: 'editor', body: KeyPatch },
    )
    .post(
      '/keys/:id/rotate',
      async ({ principal, params: { id }, body: { overlap } }) => {
        const { key, secret } = await rotateKey(store, id, toOverlapMs(overlap), by(principal))
        return { ...(await standing(key)), key: secret }
      },
      { least: 'editor', body: exactly({ overlap: Type.Optional(Type.String()) }) },
    )
    .post(
      '/keys/:id/revoke',
      async ({ principal, params: { id } }) => standing((await revokeKey(store, id, by(principal))).key),
      { least: 'editor' },
    )
}

function toKeyChanges({ allowed_ips: allowedIps, team, expires_ms: expiresMs, ...shared }: Static<typeof KeyPatch>) {
  const changes: KeyChanges = { ...toSharedChanges(shared) }
  if (allowedIps !== undefined) changes.allowedIps = allowedIps
  if (team !== undefined) changes.team = team
  if (expiresMs !== undefined) changes.expiresMs = expiresMs
  return changes
}

/** Such as `24h`; by default a day. */
function toOverlapMs(text: string | undefined): number {
  const ms = text === undefined ? DEFAULT_OVERLAP_MS : toMs(text, OVERLAP_MS)
  if (ms !== null) return ms
  throw new ServiceError({ kind: 'invalid', field: 'overlap' }, 'The overlap must be a time such as 24h, 7d or 0.')
}
