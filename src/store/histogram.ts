/** Log-scale histogram of durations: `{"13": 4}`; bucket b holds 2^(b/2) to 2^((b+1)/2) ms, so an hour is in bucket 43. */
export type Histogram = Record<string, number>

/** Below 1 ms: 0. */
export function toBucket(ms: number): number {
  return ms < 1 ? 0 : Math.floor(2 * Math.log2(ms))
}

/** ms. */
const startOf = (bucket: number) => 2 ** (bucket / 2)

/** In place; null is ignored, and empty buckets are removed. */
export function addDuration(histogram: Histogram, ms: number | null, by: number): void {
  if (ms === null) return
  addCount(histogram, String(toBucket(ms)), by)
}

/** In place. */
export function addHistogram(histogram: Histogram, delta: Readonly<Histogram>): void {
  for (const bucket in delta) addCount(histogram, bucket, delta[bucket] ?? 0)
}

/** More than the age of the universe. */
const MAX_BUCKETS = 256
/** Reused; all 0 between calls. */
const counts = new Float64Array(MAX_BUCKETS)

/** Sums histograms in a text such as `{"13":4},{"13":1}`, many times faster than parsing each; skips anything else. */
export function sumHistograms(text: string): Histogram {
  const most = addText(text)
  const sum: Histogram = {}
  for (let each = 0; each <= most; each++) {
    const count = counts[each] ?? 0
    if (count !== 0) sum[each] = count
    counts[each] = 0
  }
  return sum
}

/** Returns the highest bucket. */
function addText(text: string): number {
  let most = -1
  let bucket = -1
  let number = -1
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code >= ZERO && code <= NINE) number = Math.max(0, number) * 10 + code - ZERO
    else if (number >= 0) {
      if (code === QUOTE) bucket = number
      else if (bucket >= 0 && bucket < MAX_BUCKETS) {
        counts[bucket] = (counts[bucket] ?? 0) + number
        most = Math.max(most, bucket)
        bucket = -1
      }
      number = -1
    }
  }
  return most
}

const [QUOTE, ZERO, NINE] = [34, 48, 57]

function addCount(histogram: Histogram, bucket: string, by: number): void {
  const count = (histogram[bucket] ?? 0) + by
  if (count === 0) delete histogram[bucket]
  else histogram[bucket] = count
}

/** By bucket index: faster to add to. */
export type Buckets = number[]

export function countDuration(buckets: Buckets, ms: number | null, by: number): void {
  if (ms === null) return
  const bucket = toBucket(ms)
  while (buckets.length <= bucket) buckets.push(0)
  buckets[bucket] = (buckets[bucket] ?? 0) + by
}

/** In place. */
export function addBuckets(buckets: Buckets, delta: readonly number[]): void {
  while (buckets.length < delta.length) buckets.push(0)
  for (let each = 0; each < delta.length; each++) buckets[each] = (buckets[each] ?? 0) + (delta[each] ?? 0)
}

export function mergeBuckets(text: string, delta: readonly number[]): string {
  const end = Math.max(addText(text) + 1, Math.min(delta.length, MAX_BUCKETS))
  let merged = ''
  for (let each = 0; each < end; each++) {
    const count = (counts[each] ?? 0) + (delta[each] ?? 0)
    counts[each] = 0
    if (count !== 0) merged += `${merged === '' ? '' : ','}"${each}":${count}`
  }
  return `{${merged}}`
}

/** Maximum error factor of a percentile. */
export const RESOLUTION = Math.SQRT2

/**
 * Whole ms, interpolated on the log scale.
 * @param share above 0, such as 0.95.
 * @returns null if nothing was counted.
 */
export function toPercentile(histogram: Histogram, share: number): number | null {
  const buckets = Object.entries(histogram).sort(([a], [b]) => Number(a) - Number(b))
  const wanted = share * buckets.reduce((sum, [, count]) => sum + count, 0)
  let before = 0
  for (const [bucket, count] of buckets) {
    if (before + count >= wanted) return Math.round(startOf(Number(bucket) + (wanted - before) / count))
    before += count
  }
  return null
}
