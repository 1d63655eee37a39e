/** How a server stops taking requests: with what is under way. Called once, by `server.ts`. */

import type { InFlightTracker } from '../gateway/load.ts'
import type { App } from '../http/app.ts'

/** How long the rows of answers that a stop has cut may take to settle. */
const CUT_MS = 5_000

/**
 * Waits for what is under way, and for its last bytes to leave; what does not end in time is cut, and settled as such.
 * Resolves true where nothing was cut.
 * @param closeThreads called once no more time is to be spent on counting tokens and checking schemas.
 */
export async function drain(
  app: App,
  inFlight: InFlightTracker,
  drainMs: number,
  closeThreads: () => void,
): Promise<boolean> {
  const endMs = performance.now() + drainMs
  const clean = await inFlight.ended(drainMs)
  closeThreads()
  if (clean) await Promise.race([app.server?.stop(false), Bun.sleep(Math.max(0, endMs - performance.now()))])
  await app.server?.stop(true)
  if (!clean) await inFlight.ended(CUT_MS)
  return clean
}
