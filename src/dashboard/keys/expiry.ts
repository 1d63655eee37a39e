/** When a key or a token ends, as it is typed. Pure. */
import { DAY_MS } from '../../domain/time.ts'
import { Refusal } from '../api/refusal.ts'

export const NEW_EXPIRY = {
  /** One of `EXPIRIES`; `kept` as it is, `on` with a day. */
  expires_ms: '',
  /** Such as `2027-01-31`. */
  expires_on: '',
}

export const EXPIRIES = [
  ['', 'Never'],
  ['30', 'In 30 days'],
  ['90', 'In 90 days'],
  ['365', 'In a year'],
  ['on', 'On a day …'],
] as const

/** Undefined where it stays as it is. Throws a Refusal. */
export function toExpiry(
  { expires_ms: when, expires_on: day }: typeof NEW_EXPIRY,
  nowMs: number,
): number | null | undefined {
  if (when === 'kept') return undefined
  if (when === '') return null
  if (when !== 'on') return nowMs + Number(when) * DAY_MS
  // To the end of that day, where whoever types it is.
  const endMs = new Date(`${day}T23:59:59.999`).getTime()
  if (Number.isNaN(endMs)) throw new Refusal('Say on which day it ends.', 'invalid', 'expires_on')
  return endMs
}
