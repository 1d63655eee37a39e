/**
 * Loads a subject until its runtime has compiled everything: compiling uses up to half of its CPU before. Loads take
 * turns, as when measured, because a new load triggers recompiling.
 */

/** Microseconds per request or chunk. */
export interface Slice {
  cpuMicros: number
  /** Part used by compiler threads. */
  jitMicros: number
}

export interface WarmUp {
  /** The first slice of each load, right after the start. */
  cold: Record<string, Slice>
  seconds: number
  /** False if still compiling at the limit. */
  quiet: boolean
}

/** Share of CPU for compiling below which a subject is warm; total CPU varies more on a shared machine. */
const QUIET_SHARE = 0.03
/** Consecutive turns: compiling comes in waves. */
const QUIET_TURNS = 2

/** Until warm in all loads, or for `limitS` seconds. */
export async function warmUp(loads: Record<string, () => Promise<Slice>>, limitS: number): Promise<WarmUp> {
  const began = performance.now()
  let cold: Record<string, Slice> | null = null
  for (let quiet = 0; ; ) {
    const slices: Record<string, Slice> = {}
    for (const [load, run] of Object.entries(loads)) slices[load] = await run()
    cold ??= slices
    const isQuiet = Object.values(slices).every((slice) => slice.jitMicros < slice.cpuMicros * QUIET_SHARE)
    quiet = isQuiet ? quiet + 1 : 0
    const seconds = (performance.now() - began) / 1000
    if (quiet >= QUIET_TURNS || seconds >= limitS) return { cold, seconds, quiet: quiet >= QUIET_TURNS }
  }
}
