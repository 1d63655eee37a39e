/** Hours as the rollup has them; spans as people write and read them: in the catalogue, in settings. Pure. */

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
export const LEAVE_MS = { min: 0, max: 300_000 }

/** Writes a span in the largest unit up to hours that it is a whole number of: `5m`, `90s`, `1500ms`. */
export function toSpan(ms: number): string {
  const unit = (['h', 'm', 's'] as const).find((unit) => ms >= UNITS[unit] && ms % UNITS[unit] === 0) ?? 'ms'
  return `${ms / UNITS[unit]}${unit}`
}
