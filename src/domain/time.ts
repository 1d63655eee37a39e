/**
 * Times: hours and days as the rollup has them; spans and dates as people write and read them. Pure.
 */

const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const
type Unit = keyof typeof UNITS
const isUnit = (text: string): text is Unit => Object.hasOwn(UNITS, text)

export const HOUR_MS = UNITS.h
export const DAY_MS = UNITS.d

/** The first ms of the UTC hour that a time is in. */
export const hourOf = (ms: number): number => Math.floor(ms / HOUR_MS) * HOUR_MS

/** The first ms of the UTC day that a time is in. */
export const dayOf = (ms: number): number => Math.floor(ms / DAY_MS) * DAY_MS

/** The UTC day of a time: `2027-01-31`. */
export const toDay = (ms: number): string => new Date(ms).toISOString().slice(0, 10)

/** What a timer can wait: beyond a signed 32-bit number of ms it fires at once. */
export const TIMER_MS = { min: 1, max: 2_147_483_647 }

/**
 * Reads a span such as `500ms`, `90s`, `5m`, `12h`, `90d` or `2w` into ms. A bare number could be any of them and is none;
 * only `0` needs no unit.
 *
 * @returns null where it is none, or not within the bounds, in ms.
 */
export function toMs(text: string, { min, max }: { min: number; max: number }): number | null {
  const [, digits, unit = ''] = /^(\d{1,10})([a-z]+)$/.exec(text === '0' ? '0ms' : text) ?? []
  if (digits === undefined || !isUnit(unit)) return null
  const ms = Number(digits) * UNITS[unit]
  return ms >= min && ms <= max ? ms : null
}

/** What a call may be read on for after its client has left: beyond it, a setting is a slip of the hand. */
export const DISCONNECT_GRACE_MS = { min: 0, max: 300_000 }

/** Writes a span in the largest unit up to hours that it is a whole number of: `5m`, `90s`, `1500ms`. */
export function toSpan(ms: number): string {
  const unit = (['h', 'm', 's'] as const).find((unit) => ms >= UNITS[unit] && ms % UNITS[unit] === 0) ?? 'ms'
  return `${ms / UNITS[unit]}${unit}`
}

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

const AGES: readonly [unit: string, ms: number][] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
]

/** A span in the largest unit that it has one of, such as `3 h`; '' for less than a second. */
export function toAge(ms: number): string {
  for (const [unit, each] of AGES) if (ms >= each) return `${Math.floor(ms / each)} ${unit}`
  return ''
}

/** Writes how long ago something was: `3 min ago`. What a clock that was set back calls the future is `just now`. */
export function toAgo(atMs: number, nowMs: number): string {
  const age = toAge(nowMs - atMs)
  return age === '' ? 'just now' : `${age} ago`
}
