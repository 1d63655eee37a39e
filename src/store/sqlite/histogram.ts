/** Log-scale histograms of durations, kept as sparse JSON (`{"13": 4}`) so that SQL and people can read them. Pure. */

export type Histogram = Record<string, number>

/** Bucket of a duration: b holds 2^(b/2) ms up to 2^((b+1)/2) ms, so an hour is bucket 43; under 1 ms is bucket 0. */
export function toBucket(ms: number): number {
  return ms < 1 ? 0 : Math.floor(2 * Math.log2(ms))
}

/** Adds `by` to the bucket of `ms`, in place; unknown durations count nowhere. Empty buckets vanish. */
export function addDuration(histogram: Histogram, ms: number | null, by: number): void {
  if (ms === null) return
  addCount(histogram, String(toBucket(ms)), by)
}

/** Adds every bucket of `delta` to the stored text and returns the new text. */
export function mergeHistogram(stored: string, delta: Histogram): string {
  const sum: Histogram = JSON.parse(stored)
  for (const bucket in delta) addCount(sum, bucket, delta[bucket] ?? 0)
  return JSON.stringify(sum)
}

function addCount(histogram: Histogram, bucket: string, by: number): void {
  const count = (histogram[bucket] ?? 0) + by
  if (count === 0) delete histogram[bucket]
  else histogram[bucket] = count
}
