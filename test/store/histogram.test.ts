/** Log-scale histograms of durations, and what they still tell of them. */
import { describe, expect, test } from 'bun:test'
import {
  addBuckets,
  addDuration,
  addHistogram,
  type Buckets,
  countDuration,
  type Histogram,
  mergeBuckets,
  RESOLUTION,
  sumHistograms,
  toBucket,
  toPercentile,
} from '../../src/store/histogram.ts'
import { createRandom } from '../support/random.ts'

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

test('adding one to another goes bucket by bucket and drops the empty ones', () => {
  const histogram: Histogram = { 3: 2, 7: 1 }
  addHistogram(histogram, { 3: 1, 7: -1, 9: 4 })
  expect(histogram).toEqual({ 3: 3, 9: 4 })
})

describe('a percentile', () => {
  test('of nothing is not known', () => expect(toPercentile({}, 0.5)).toBeNull())

  test('lies between the ends of its bucket, the further up the more of it lies below', () => {
    const histogram: Histogram = { 2: 1, 14: 98, 20: 1 }
    const [start, end] = [2 ** 7, 2 ** 7.5]
    const all = [0.02, 0.5, 0.98].map((share) => toPercentile(histogram, share) ?? 0)
    expect(all).toEqual(all.toSorted((a, b) => a - b))
    for (const ms of all) expect(ms).toBeWithin(start, end)
    expect(toPercentile(histogram, 0.01)).toBe(3)
    expect(toPercentile(histogram, 1)).toBe(Math.round(2 ** 10.5))
  })

  test('is off by the stated resolution at most, whatever the durations', () => {
    const random = createRandom(12)
    for (let round = 0; round < 50; round++) {
      const durations = Array.from({ length: 1 + Math.floor(300 * random()) }, () => Math.ceil(Math.exp(15 * random())))
      const histogram: Histogram = {}
      for (const ms of durations) addDuration(histogram, ms, 1)
      const sorted = durations.toSorted((a, b) => a - b)
      for (const share of [0.5, 0.95, 0.99]) {
        const exact = sorted[Math.ceil(share * sorted.length) - 1] ?? 0
        const ratio = (toPercentile(histogram, share) ?? 0) / exact
        // Half a ms more or less is rounding.
        expect(ratio).toBeWithin((1 / RESOLUTION) * (1 - 0.5 / exact), RESOLUTION * (1 + 0.5 / exact))
      }
    }
  })
})

test('those of a text are summed as each by itself would be, and what is none is passed over', () => {
  const random = createRandom(5)
  const histograms = Array.from({ length: 300 }, () => {
    const histogram: Histogram = {}
    for (let n = 0; n < 20 * random(); n++) addDuration(histogram, 2 ** (31 * random()), Math.ceil(1e9 * random()))
    return histogram
  })
  const sum: Histogram = {}
  for (const histogram of histograms) addHistogram(sum, histogram)
  expect(sumHistograms(histograms.map((histogram) => JSON.stringify(histogram)).join())).toEqual(sum)
  expect(sumHistograms('{ "3" : 4 },{},x,{"3":1,"9":12345678}')).toEqual({ 3: 5, 9: 12_345_678 })
  expect([sumHistograms(''), sumHistograms('{"x":1}'), sumHistograms('{"999999":1}')]).toEqual([{}, {}, {}])
})

test('buckets that are added to a text leave the text of what both come to, in order', () => {
  const random = createRandom(6)
  for (let round = 0; round < 100; round++) {
    const [stored, sum, buckets]: [Histogram, Histogram, Buckets] = [{}, {}, []]
    const times = Array.from({ length: Math.floor(30 * random()) }, () => 2 ** (31 * random()))
    for (const ms of times) {
      addDuration(sum, ms, 3)
      // Part of it is there, some of that is taken back, and each is told by itself.
      addDuration(stored, ms, 4)
      const each: Buckets = []
      countDuration(each, ms, -1)
      countDuration(each, null, 5)
      addBuckets(buckets, each)
    }
    const [gone = null] = times
    countDuration(buckets, gone, -3)
    addDuration(sum, gone, -3)
    expect(mergeBuckets(JSON.stringify(stored), buckets)).toBe(JSON.stringify(sum))
  }
  expect([mergeBuckets('{}', []), mergeBuckets('{"3":1}', [0, 2])]).toEqual(['{}', '{"1":2,"3":1}'])
})
