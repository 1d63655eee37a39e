/** A request before it is admitted: its usage while its body is read, and which refusals return it. */
import { describe, expect, test } from 'bun:test'
import { type ErrorKind, GatewayError } from '../../src/domain/error.ts'
import type { EnteredRequest, Limiter } from '../../src/limits/limiter.ts'
import { at, atOnce, budget, CENT, createLimiter, held, limited, refused, tokens } from './asking.ts'

const key = limited({ rpm: 2, tpm: 100, concurrency: 1 }, { budget: budget(1) })

function entered(limiter: Limiter, atMs: number): EnteredRequest {
  const entry = limiter.enter('r1', key, null, atMs)
  if (entry instanceof GatewayError) throw entry
  return entry
}

/** The remaining requests of a minute, from the next response's headers. */
function left(limiter: Limiter, atMs: number): string | undefined {
  const entry = entered(limiter, atMs)
  const error = new GatewayError('overloaded', 'asked only to see what stands beside it')
  void entry.refuse(error, atMs)
  return error.headers['x-ratelimit-remaining-requests']
}

test('a request counts, and has its slot, before its body is read', () => {
  const limiter = createLimiter()
  const first = entered(limiter, 0)
  expect(limiter.enter('r1', key, null, 1)).toMatchObject({ kind: 'request_limit', headers: { 'retry-after': '1' } })
  held(atOnce(first.admit(tokens(10), at(2)))).settle(tokens(10))
  void entered(limiter, 3).refuse(new GatewayError('invalid_request', 'no JSON'), 4)
  const error = limiter.enter('r1', key, null, 5)
  expect(error).toMatchObject({ kind: 'request_limit', headers: { 'x-ratelimit-remaining-requests': '0' } })
})

describe('a request that is refused', () => {
  test.each<[ErrorKind, string]>([
    ['invalid_request', '1'],
    ['request_too_large', '1'],
    ['model_not_found', '1'],
    ['model_not_ready', '1'],
    ['client_closed', '1'],
    ['overloaded', '2'],
    ['token_limit', '2'],
    ['insufficient_quota', '2'],
  ])('as %s leaves its key %s of 2, and its slot', (kind, requests) => {
    const limiter = createLimiter()
    const error = new GatewayError(kind, 'refused')
    void entered(limiter, 0).refuse(error, 0)
    expect(error.headers).toMatchObject({
      'x-ratelimit-limit-requests': '2',
      'x-ratelimit-remaining-requests': requests,
      'x-ratelimit-remaining-tokens': '100',
    })
    expect(left(limiter, 1)).toBe(requests)
  })

  test('before its body was read leaves nothing', () => {
    const limiter = createLimiter()
    entered(limiter, 0).cancel()
    expect(left(limiter, 1)).toBe('2')
  })

  test('for its tokens, or by a budget, may ask for less, and keeps its slot meanwhile', () => {
    const limiter = createLimiter()
    const entry = entered(limiter, 0)
    for (const amount of [tokens(101), { tokens: 1, nanoUsd: 2 * CENT }])
      expect(entry.admit(amount, at(1))).toBeInstanceOf(GatewayError)
    expect(limiter.enter('r1', key, null, 2)).toBeInstanceOf(GatewayError)
    expect(entry.admit(tokens(100), at(3))).not.toBeInstanceOf(GatewayError)
  })
})

test("tokens count from a request's admission, however long its body took", () => {
  const limiter = createLimiter()
  const entry = entered(limiter, 0)
  held(atOnce(entry.admit(tokens(90), at(50_000)))).settle(tokens(90))
  expect(refused(limiter.admit(key, null, tokens(50), at(60_000)))).toMatchObject({
    kind: 'token_limit',
    headers: { 'x-ratelimit-remaining-requests': '2', 'x-ratelimit-remaining-tokens': '10', 'retry-after': '50' },
  })
})
