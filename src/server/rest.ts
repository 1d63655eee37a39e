import type { Load } from '../gateway/admission.ts'

const LOOK_MS = 5_000
const RATIO = 1.5

interface Memory {
  residentBytes(): number
  /** Takes about 20 ms. */
  collect(): void
}

const OWN: Memory = { residentBytes: () => process.memoryUsage.rss(), collect: () => void Bun.gc(true) }

/**
 * Called regularly, returns memory to the system after a load, once two calls in a row see no request. JavaScriptCore collects only while it allocates. Runs
 * once per load, and only if this helps.
 */
export function createRest({ residentBytes, collect } = OWN): (inFlight: number) => void {
  let isResting = false
  let hasCollected = true
  let leastBytes = Number.POSITIVE_INFINITY
  return (inFlight) => {
    const wasResting = isResting
    isResting = inFlight === 0
    if (!isResting || !wasResting) return
    const bytes = residentBytes()
    if (hasCollected || bytes < leastBytes) leastBytes = bytes
    hasCollected = bytes > leastBytes * RATIO
    if (hasCollected) collect()
  }
}

/** Returns a function that stops. */
export function returnMemory(load: Pick<Load, 'inFlight'>): () => void {
  const look = createRest()
  const timer = setInterval(() => look(load.inFlight), LOOK_MS)
  return () => clearInterval(timer)
}
