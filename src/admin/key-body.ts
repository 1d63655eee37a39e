/** What bodies say of keys: of any key, and of a member's own. */
import { type Static, Type } from '@sinclair/typebox'
import { ServiceError } from '../domain/service-error.ts'
import { toMs } from '../domain/time.ts'
import type { KeyChanges } from '../keys/fields.ts'
import { DEFAULT_OVERLAP_MS, OVERLAP_MS } from '../keys/rotate.ts'
import { exactly, Name, orNone, Shared } from './schema.ts'
import { toSharedChanges } from './shared-body.ts'

const OwnFields = {
  ...Shared,
  allowed_ips: Type.Optional(
    Type.Array(Type.String(), {
      description: 'Addresses and ranges that it may be used from; none: from everywhere.',
    }),
  ),
  expires_ms: orNone(Type.Integer(), 'When it ends, ms since 1970; null: never.'),
}
const KeyFields = { ...OwnFields, team: orNone(Type.String(), 'By id, a part of it, or name; null: none.') }
const named = { name: Name }
const renamed = { name: Type.Optional(Name) }

export const KeyBody = exactly({ ...KeyFields, ...named })
export const KeyPatch = exactly({ ...KeyFields, ...renamed })
export const OwnBody = exactly({ ...OwnFields, ...named })
export const OwnPatch = exactly({ ...OwnFields, ...renamed })
export const RotateBody = exactly({
  overlap: Type.Optional(
    Type.String({
      description: 'How long the secret before works on, such as `24h`, `7d` or `0`; a day where nothing is said.',
    }),
  ),
})

export function toKeyChanges({ team, ...own }: Static<typeof KeyPatch>): KeyChanges {
  return { ...toOwnChanges(own), ...(team === undefined ? {} : { team }) }
}

export function toOwnChanges({
  allowed_ips: allowedIps,
  expires_ms: expiresMs,
  ...shared
}: Static<typeof OwnPatch>): Omit<KeyChanges, 'team'> {
  const changes: Omit<KeyChanges, 'team'> = { ...toSharedChanges(shared) }
  if (allowedIps !== undefined) changes.allowedIps = allowedIps
  if (expiresMs !== undefined) changes.expiresMs = expiresMs
  return changes
}

/** Such as `24h`; by default a day. */
export function toOverlapMs(text: string | undefined): number {
  const ms = text === undefined ? DEFAULT_OVERLAP_MS : toMs(text, OVERLAP_MS)
  if (ms !== null) return ms
  throw new ServiceError({ kind: 'invalid', field: 'overlap' }, 'The overlap must be a time such as 24h, 7d or 0.')
}
