/** How long an upstream asks to be left alone, as every dialect's failures say it: in milliseconds, in seconds, or until a date. Pure. */

/** Reads `retry-after-ms` or `retry-after` (RFC 9110, 10.2.3), in ms; undefined where neither tells. */
export function toRetryAfterMs(headers: Headers): number | undefined {
  const ms = Number(headers.get('retry-after-ms') ?? Number.NaN)
  if (Number.isFinite(ms) && ms >= 0) return ms
  const header = headers.get('retry-after')
  if (header === null) return undefined
  const seconds = Number(header)
  if (Number.isFinite(seconds) && seconds >= 0) return seconds * 1000
  // A date is compared with the upstream's own clock; without that it says nothing, because ours may differ.
  const waitMs = toMs(header) - toMs(headers.get('date'))
  return Number.isNaN(waitMs) ? undefined : Math.max(0, waitMs)
}

/** An HTTP date; NaN for anything else. */
const toMs = (date: string | null) => (date?.endsWith(' GMT') ? Date.parse(date) : Number.NaN)
