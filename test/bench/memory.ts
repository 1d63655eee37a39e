/** A process's memory over time, from /proc: idle, peak, and return to idle. */
import { exchange } from './exchange.ts'
import { toChatBody } from './json-load.ts'
import { rssMegabytes } from './processes.ts'
import type { Subject } from './subjects.ts'
import { median } from './table.ts'
import { MODEL } from './tollgate.ts'

/** Relative to idle, with room for what a runtime keeps. */
export const RETURN_RATIO = 1.5
const SAMPLE_MS = 100

/** Median of five samples within a second, in MB. */
export async function settledRss(pid: number): Promise<number> {
  const seen: number[] = []
  for (let i = 0; i < 5; i += 1) {
    seen.push(rssMegabytes(pid))
    await Bun.sleep(200)
  }
  return median(seen)
}

/** Loads every lazy part with 20 sequential requests, then waits for memory to settle. */
export async function warmToIdle(subject: Subject): Promise<number> {
  await exchange(subject, { connections: 1, requests: 20, body: toChatBody(MODEL), together: false })
  await Bun.sleep(3_000)
  return settledRss(subject.process.pid)
}

export function followRss(pid: number) {
  let peak = rssMegabytes(pid)
  const timer = setInterval(() => {
    peak = Math.max(peak, rssMegabytes(pid))
  }, SAMPLE_MS)
  return {
    peak: () => peak,
    stop: () => clearInterval(timer),
  }
}

/**
 * Resolves to the memory after `seconds`, and the seconds after which it stayed within the ratio to `idle`; null if
 * never.
 */
export async function watchReturn(
  pid: number,
  idle: number,
  seconds: number,
): Promise<{ rssAfter: number; returnedAfterS: number | null }> {
  const began = performance.now()
  let since: number | null = null
  for (;;) {
    const rss = rssMegabytes(pid)
    const atS = (performance.now() - began) / 1000
    if (rss > idle * RETURN_RATIO) since = null
    else since ??= atS
    if (atS >= seconds) return { rssAfter: rss, returnedAfterS: since }
    await Bun.sleep(SAMPLE_MS)
  }
}
