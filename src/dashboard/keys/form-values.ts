/** Between what is typed of a key and what the API takes. Fields are called as its columns are. Pure. */
import type { KeyDocument } from '../../documents/key.ts'
import { DAY_MS } from '../../domain/time.ts'
import { Refusal } from '../api/refusal.ts'
import { NEW_SHARED, toLines, toSharedBody, toSharedValues } from './shared-values.ts'

export const NEW_KEY = {
  ...NEW_SHARED,
  /** A team's id; '' for none. */
  team: '',
  /** One of `EXPIRIES`; `kept` as it is, `on` with a day. */
  expires_ms: '',
  /** Such as `2027-01-31`. */
  expires_on: '',
  /** One a line. */
  allowed_ips: '',
}

export type KeyValues = typeof NEW_KEY

export const EXPIRIES = [
  ['', 'Never'],
  ['30', 'In 30 days'],
  ['90', 'In 90 days'],
  ['365', 'In a year'],
  ['on', 'On a day …'],
] as const

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

/** Undefined where it stays as it is. */
function toExpiry({ expires_ms: when, expires_on: day }: KeyValues, nowMs: number): number | null | undefined {
  if (when === 'kept') return undefined
  if (when === '') return null
  if (when !== 'on') return nowMs + Number(when) * DAY_MS
  // To the end of that day, where whoever types it is.
  const endMs = new Date(`${day}T23:59:59.999`).getTime()
  if (Number.isNaN(endMs)) throw new Refusal('Say on which day it ends.', 'invalid', 'expires_on')
  return endMs
}
