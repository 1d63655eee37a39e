import type { Load } from '../gateway/admission.ts'

const LOOK_MS = 5_000
const RATIO = 1.5

interface Memory {
  residentBytes(): number
  /** Takes some 20 ms. */
  collect(): void
}

const OWN: Memory = { residentBytes: () => process.memoryUsage.rss(), collect: () => void Bun.gc(true) }

/**
 * Called from time to time, returns the memory of a load to the system once two looks in a row see no request, since JavaScriptCore itself collects only while
 * it allocates: once per load, and not if that wouldn't help.
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

/** Returns what ends it. */
export function returnMemory(load: Pick<Load, 'inFlight'>): () => void {
  const look = createRest()
  const timer = setInterval(() => look(load.inFlight), LOOK_MS)
  return () => clearInterval(timer)
}
