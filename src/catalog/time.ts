/** Durations as a catalogue writes them. Pure. */

const UNITS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }
/** A timer beyond this fires at once (it is a signed 32-bit number of ms). */
const LONGEST_MS = 2_147_483_647

/** Reads milliseconds (`60000`) or a text such as `60s`, `500ms`, `5m`, `1h`; null where it is neither. */
export function toMilliseconds(value: number | string): number | null {
  const [, digits, unit = 'ms'] = /^(\d{1,10})(ms|s|m|h)?$/.exec(String(value)) ?? []
  if (digits === undefined) return null
  const ms = Number(digits) * (UNITS[unit] ?? 1)
  return ms >= 1 && ms <= LONGEST_MS ? ms : null
}
