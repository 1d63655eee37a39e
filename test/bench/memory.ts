/** What a process holds over time: its idle memory, its peak, and whether and when it came back. From /proc. */
import { exchange } from './exchange.ts'
import { toChatBody } from './json-load.ts'
import { rssMegabytes } from './processes.ts'
import type { Subject } from './subjects.ts'
import { median } from './table.ts'
import { MODEL } from './tollgate.ts'

/** Back to what was idle, with room for what a runtime keeps for later. */
export const RETURN_RATIO = 1.5
const SAMPLE_MS = 100

/** The median of five looks within a second, in MB. */
export async function settledRss(pid: number): Promise<number> {
  const seen: number[] = []
  for (let i = 0; i < 5; i += 1) {
    seen.push(rssMegabytes(pid))
    await Bun.sleep(200)
  }
  return median(seen)
}

/** Sends what every lazily loaded part needs, once: 20 whole requests, one after another. Then waits for it to settle. */
export async function warmToIdle(subject: Subject): Promise<number> {
  await exchange(subject, { connections: 1, requests: 20, body: toChatBody(MODEL), together: false })
  await Bun.sleep(3_000)
  return settledRss(subject.process.pid)
}

/** Follows a process from now on. Call `stop` when enough was seen. */
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
 * Watches for `seconds`. Resolves to the memory at the end, and to the seconds after which it stayed within the ratio to
 * `idle` until then; null where it did not.
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
