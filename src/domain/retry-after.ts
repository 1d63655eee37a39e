/** How long a response asks to wait, ms: `retry-after-ms` or `retry-after` (RFC 9110, 10.2.3); undefined if neither is valid. */
export function toRetryAfterMs(get: (name: string) => string | null): number | undefined {
  const ms = Number(get('retry-after-ms') ?? Number.NaN)
  if (Number.isFinite(ms) && ms >= 0) return ms
  const text = get('retry-after')
  if (text === null) return undefined
  const seconds = Number(text)
  if (Number.isFinite(seconds) && seconds >= 0) return seconds * 1_000
  // A date is only meaningful against the sender's own clock, since ours may differ.
  const waitMs = toDateMs(text) - toDateMs(get('date'))
  return Number.isNaN(waitMs) ? undefined : Math.max(0, waitMs)
}

const toDateMs = (date: string | null) => (date?.endsWith(' GMT') ? Date.parse(date) : Number.NaN)
