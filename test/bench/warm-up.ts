/**
 * Loads a subject until its runtime has compiled what the loads need. Before that, threads that compile use up to half of
 * its CPU, and later rounds of a measurement look cheaper than earlier ones. The loads take turns, as they do when they are
 * measured: code that was compiled for one of them is compiled anew when another one comes. Called by `cost.ts`.
 */

/** What one slice of a load cost, in microseconds a request or a chunk. */
export interface Slice {
  cpuMicros: number
  /** Of it, what the threads that compile used. */
  jitMicros: number
}

export interface WarmUp {
  /** The first slice of each load: what a server costs just after its start. */
  cold: Record<string, Slice>
  seconds: number
  /** False if it was still compiling at the end of the time there was. */
  quiet: boolean
}

/** Quiet is a subject that compiles with less than this share of its CPU. That CPU itself varies more on a shared machine. */
const QUIET_SHARE = 0.03
/** So many turns one after another: compiling comes in waves. */
const QUIET_TURNS = 2

/** Runs a slice of each load in turn until the subject is quiet in all of them, or `limitS` seconds are over. */
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
