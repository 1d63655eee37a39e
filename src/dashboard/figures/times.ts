/** Times as pages show them, from ms since 1970, in the zone of whoever looks. Pure. */

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

/** `now`, `4 min ago`, `in 3 h` within a day; then `Nov 21, 14:03`, with the year where that is another. */
export function toWhen(ms: number, nowMs: number, timeZone?: string): string {
  const distance = Math.abs(nowMs - ms)
  if (distance < MINUTE) return ms > nowMs ? 'in a moment' : 'now'
  if (distance < DAY) {
    const text = distance < HOUR ? `${Math.floor(distance / MINUTE)} min` : `${Math.floor(distance / HOUR)} h`
    return ms > nowMs ? `in ${text}` : `${text} ago`
  }
  return toMoment(ms, nowMs, timeZone)
}

/** `Nov 21, 14:03`; of another year `Nov 21, 2025, 14:03`. */
export function toMoment(ms: number, nowMs: number, timeZone?: string): string {
  const zone = timeZone === undefined ? {} : { timeZone }
  const part = new Intl.DateTimeFormat('en-US', { ...zone, month: 'short', day: 'numeric' })
  const year = new Intl.DateTimeFormat('en-US', { ...zone, year: 'numeric' })
  const clock = new Intl.DateTimeFormat('en-GB', { ...zone, hour: '2-digit', minute: '2-digit' })
  const isThisYear = year.format(ms) === year.format(nowMs)
  return `${part.format(ms)}${isThisYear ? '' : `, ${year.format(ms)}`}, ${clock.format(ms)}`
}

/** The day alone: `Nov 21`, or `Nov 21, 2025`. */
export const toDay = (ms: number, nowMs: number, timeZone?: string): string =>
  toMoment(ms, nowMs, timeZone).replace(/, \d\d:\d\d$/, '')

/** With its offset: `2026-11-22T21:04:05+01:00`. */
export function toIso(ms: number, offsetMinutes: number = -new Date(ms).getTimezoneOffset()): string {
  const local = new Date(ms + offsetMinutes * MINUTE).toISOString().slice(0, 19)
  if (offsetMinutes === 0) return `${local}Z`
  const [hours, minutes] = [Math.trunc(Math.abs(offsetMinutes) / 60), Math.abs(offsetMinutes) % 60]
  return `${local}${offsetMinutes < 0 ? '-' : '+'}${[hours, minutes].map((part) => String(part).padStart(2, '0')).join(':')}`
}
