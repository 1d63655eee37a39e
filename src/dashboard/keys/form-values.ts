/** Between what is typed of a key and what the API takes. Fields are called as its columns are. Pure. */
import type { KeyDocument } from '../../documents/key.ts'
import { NEW_EXPIRY, toExpiry } from './expiry.ts'
import { NEW_SHARED, toChangedFields, toLines, toSharedBody, toSharedValues } from './shared-values.ts'

export const NEW_KEY = {
  ...NEW_SHARED,
  /** A team's id; '' for none. */
  team: '',
  ...NEW_EXPIRY,
  /** One a line. */
  allowed_ips: '',
}

export type KeyValues = typeof NEW_KEY

export const toValues = (key: KeyDocument): KeyValues => ({
  ...toSharedValues(key),
  team: key.team_id ?? '',
  expires_ms: key.expires_ms === null ? '' : 'kept',
  expires_on: '',
  allowed_ips: key.allowed_ips.join('\n'),
})

/** Throws a Refusal that names the field for what cannot be read. */
export function toBody(values: KeyValues, nowMs: number) {
  const expiresMs = toExpiry(values, nowMs)
  return {
    ...toSharedBody(values),
    team: values.team === '' ? null : values.team,
    ...(expiresMs === undefined ? {} : { expires_ms: expiresMs }),
    allowed_ips: toLines(values.allowed_ips),
  }
}

/** What is said otherwise than it is: the rest may be somebody else's by now. Throws a Refusal that names the field. */
export const toPatch = (values: KeyValues, before: KeyDocument, nowMs: number) =>
  toChangedFields(toBody(values, nowMs), toBody(toValues(before), nowMs))
