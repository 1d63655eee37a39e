/** Log-scale histograms of durations. */
import { expect, test } from 'bun:test'
import { addDuration, type Histogram, mergeHistogram, toBucket } from '../../../src/store/sqlite/ledger-rollup.ts'

test('a bucket holds 2^(b/2) ms up to 2^((b+1)/2) ms', () => {
  expect([0, 0.9, 1, 2, 3, 4, 1_024, 3_600_000].map(toBucket)).toEqual([0, 0, 0, 2, 3, 4, 20, 43])
  for (let ms = 1; ms < 100_000; ms += 7) {
    const bucket = toBucket(ms)
    expect(ms).toBeGreaterThanOrEqual(2 ** (bucket / 2) * (1 - 1e-12))
    expect(ms).toBeLessThan(2 ** ((bucket + 1) / 2))
  }
})

test('what was added and taken back leaves nothing behind, and unknown durations count nowhere', () => {
  const histogram: Histogram = {}
  addDuration(histogram, 120, 1)
  addDuration(histogram, 5, 1)
  addDuration(histogram, null, 1)
  addDuration(histogram, 120, -1)
  expect(histogram).toEqual({ 4: 1 })
})

test('merging adds bucket by bucket and drops the empty ones', () => {
  expect(JSON.parse(mergeHistogram('{"3":2,"7":1}', { 3: 1, 7: -1, 9: 4 }))).toEqual({ 3: 3, 9: 4 })
})
