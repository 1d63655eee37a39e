/** Times as people write them: so long ago, or a date. Pure. */
import { toMs } from './time.ts'

/** A hundred times what anyone wants, and still a date. */
const LONGEST_MS = 1e14

/** A span such as `90d`, however long; null where it is none. */
export const toLongMs = (text: string): number | null => toMs(text, { min: 0, max: LONGEST_MS })

/** Reads `90d`, `12h`, `30m`, `2w` ago, or a date (`2027-01-31`, UTC, or with a time), into ms since 1970; null for no time. */
export function toPastMs(text: string, nowMs: number): number | null {
  const trimmed = text.trim()
  const spanMs = toLongMs(trimmed)
  return spanMs === null ? toDateMs(trimmed) : Math.max(0, nowMs - spanMs)
}

/** JavaScript reads `2027-02-31` as 3 March, and a time without a zone as local; the first is refused, the second UTC. */
export function toDateMs(text: string): number | null {
  const [, date = '', time = '', zone = 'Z'] =
    /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?)(Z|[+-]\d\d:\d\d)?)?$/.exec(text) ?? []
  const dayMs = Date.parse(date)
  if (Number.isNaN(dayMs) || !new Date(dayMs).toISOString().startsWith(date)) return null
  const atMs = time === '' ? dayMs : Date.parse(`${date}T${time}${zone}`)
  return Number.isNaN(atMs) ? null : atMs
}
