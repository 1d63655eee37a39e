/** An upstream's own limits, and the minute before the process began. */
import { describe, expect, test } from 'bun:test'
import { UpstreamError } from '../../src/domain/error.ts'
import type { Permit } from '../../src/limits/limiter.ts'
import { at, createLimiter, held, limited, refused, tokens, toUpstream } from './asking.ts'

const passed = (entered: Permit | UpstreamError): Permit => {
  if (entered instanceof UpstreamError) throw entered
  return entered
}
const failed = (entered: Permit | UpstreamError): UpstreamError => {
  if (entered instanceof UpstreamError) return entered
  throw new Error('was let in')
}

describe('an upstream', () => {
  test.each([
    ['requests', { rpm: 2 }, 'requests per min (RPM)', 'Limit 2, Used 2, Requested 1', 59_990],
    ['tokens', { tpm: 25 }, 'tokens per min (TPM)', 'Limit 25, Used 20, Requested 10', 59_990],
    ['calls at a time', { concurrency: 2 }, 'concurrent requests', 'Limit 2, Used 2, Requested 1', 1_000],
  ])('that is limited in %s has no place beyond that, and says whose limit it is', (_, limits, on, figures, ms) => {
    const limiter = createLimiter()
    const upstream = toUpstream(limits)
    for (let i = 0; i < 2; i++) {
      expect(limiter.isFull(upstream, 10, 0)).toBe(false)
      passed(limiter.permit(upstream, 10, 0))
    }
    expect(limiter.isFull(upstream, 10, 10)).toBe(true)
    const error = failed(limiter.permit(upstream, 10, 10))
    expect(error).toMatchObject({ kind: 'status', status: 429, retryable: true, retryAfterMs: ms })
    for (const words of [on, 'the Tollgate catalog, not the provider', '`paid`', figures])
      expect(error.message).toContain(words)
  })

  test("gets its slot back once, and the call's actual usage", () => {
    const limiter = createLimiter()
    const upstream = toUpstream({ concurrency: 1, tpm: 100 })
    const first = passed(limiter.permit(upstream, 90, 0))
    expect(limiter.isFull(upstream, 1, 0)).toBe(true)
    first.leave(30)
    first.leave(0)
    const second = passed(limiter.permit(upstream, 70, 1))
    second.leave(null)
    expect([1, 0].map((asked) => limiter.isFull(upstream, asked, 2))).toEqual([true, false])
  })

  test('is not tried again for a request that it can never accept', () => {
    const error = failed(createLimiter().permit(toUpstream({ tpm: 100 }), 101, 0))
    expect(error).toMatchObject({ status: 429, retryable: false, retryAfterMs: null })
    expect(error.message).toContain("retrying won't help")
  })

  test('without limits admits all requests with the same pass', () => {
    const limiter = createLimiter()
    const pass = passed(limiter.permit(toUpstream({}), 1e9, 0))
    pass.leave(1e9)
    expect(limiter.permit({ ...toUpstream({}), id: 'other' }, 1e9, 0)).toBe(pass)
    expect(limiter.isFull(toUpstream({}), 1e9, 0)).toBe(false)
  })

  test('has separate windows, even from a key with the same name', () => {
    const limiter = createLimiter()
    held(limiter.admit(limited({ rpm: 1 }, { id: 'paid' }), null, tokens(1), at(0)))
    expect(limiter.isFull(toUpstream({ rpm: 1 }), 1, 0)).toBe(false)
  })
})

describe('the last minute before the process began', () => {
  const key = limited({ rpm: 2, tpm: 100 })
  const row = (agoMs: number, keyId = 'k1') => ({ keyId, teamId: null, upstream: 'paid', tokens: 40, agoMs })

  test('counts for keys and upstreams, each request until it is a minute old', () => {
    const limiter = createLimiter()
    // The monotonic clock may have begun with the process.
    limiter.replay([row(60_000), row(50_000), row(20_000)], 5)
    const error = refused(limiter.admit(key, null, tokens(1), at(5)))
    expect(error.message).toContain('Limit 2, Used 2, Requested 1. Please try again in 10s.')
    expect(error.headers['x-ratelimit-remaining-tokens']).toBe('20')
    const upstream = toUpstream({ tpm: 100 })
    expect(limiter.isFull(upstream, 21, 10_004)).toBe(true)
    expect(limiter.isFull(upstream, 60, 10_005)).toBe(false)
    held(limiter.admit(key, null, tokens(1), at(10_005)))
  })

  test('leaves no slot in use', () => {
    const limiter = createLimiter()
    limiter.replay([row(1_000), row(500)], 0)
    held(limiter.admit(limited({ concurrency: 1 }), null, tokens(1), at(0)))
    expect(limiter.isFull(toUpstream({ concurrency: 1 }), 1, 0)).toBe(false)
  })

  test('that lies in the future, after the clock was set back, counts as now', () => {
    const limiter = createLimiter()
    limiter.replay([row(-5_000), row(-4_000)], 0)
    refused(limiter.admit(key, null, tokens(1), at(59_999)))
    held(limiter.admit(key, null, tokens(1), at(60_000)))
  })
})
