/** UTC hours and days, durations, and dates. */

const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const
type Unit = keyof typeof UNITS
const isUnit = (text: string): text is Unit => Object.hasOwn(UNITS, text)

export const HOUR_MS = UNITS.h
export const DAY_MS = UNITS.d

export const hourOf = (ms: number): number => Math.floor(ms / HOUR_MS) * HOUR_MS

export const dayOf = (ms: number): number => Math.floor(ms / DAY_MS) * DAY_MS

/** `2027-01-31`. */
export const toDay = (ms: number): string => new Date(ms).toISOString().slice(0, 10)

/** Beyond 32 bits a timer fires at once. */
export const TIMER_MS = { min: 1, max: 2_147_483_647 }

/**
 * `500ms`, `90s`, `5m`, `12h`, `90d`, or `2w`; only `0` needs no unit.
 * @returns ms; null if invalid or out of bounds.
 */
export function toMs(text: string, { min, max }: { min: number; max: number }): number | null {
  const [, digits, unit = ''] = /^(\d{1,10})([a-z]+)$/.exec(text === '0' ? '0ms' : text) ?? []
  if (digits === undefined || !isUnit(unit)) return null
  const ms = Number(digits) * UNITS[unit]
  return ms >= min && ms <= max ? ms : null
}

/** Longer is a typo. */
export const DISCONNECT_GRACE_MS = { min: 0, max: 300_000 }

/** `5m`, `90s`, `1500ms`. */
export function toSpan(ms: number): string {
  const unit = (['h', 'm', 's'] as const).find((unit) => ms >= UNITS[unit] && ms % UNITS[unit] === 0) ?? 'ms'
  return `${ms / UNITS[unit]}${unit}`
}

/** More than anyone needs, and still a valid date. */
const LONGEST_MS = 1e14

/** null if invalid. */
export const toLongMs = (text: string): number | null => toMs(text, { min: 0, max: LONGEST_MS })

/** `90d` ago, `today`, `yesterday`, or a date (`2027-01-31`, optionally with a time), all UTC, to Unix ms; null if invalid. */
export function toPastMs(text: string, nowMs: number): number | null {
  const trimmed = text.trim()
  if (trimmed === 'today' || trimmed === 'yesterday') return dayOf(nowMs) - (trimmed === 'today' ? 0 : DAY_MS)
  const spanMs = toLongMs(trimmed)
  return spanMs === null ? toDateMs(trimmed) : Math.max(0, nowMs - spanMs)
}

/** JavaScript reads `2027-02-31` as 3 March, and times without a zone as local; here the first is invalid, the second UTC. */
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

/** `3 h`; '' below one second. */
export function toAge(ms: number): string {
  for (const [unit, each] of AGES) if (ms >= each) return `${Math.floor(ms / each)} ${unit}`
  return ''
}

/** `3 min ago`; `just now` also for future times. */
export function toAgo(atMs: number, nowMs: number): string {
  const age = toAge(nowMs - atMs)
  return age === '' ? 'just now' : `${age} ago`
}
