/** What the status says of upstreams: everything but the credential. And what a test of one tells. */
import { describe, expect, test } from 'bun:test'
import { toUpstreamStatuses } from '../../src/documents/upstream.ts'
import type { Upstream } from '../../src/domain/snapshot.ts'
import type { UpstreamHealth } from '../../src/health/health.ts'
import { testUpstream } from '../../src/server/outward/questions.ts'
import type { Backend, Readiness } from '../../src/upstreams/backend.ts'
import { toSnapshot, toTarget } from '../support/snapshot.ts'

const CREDENTIAL = 'the credential 0123456789'
const upstreamOf = (fields: Partial<Upstream> = {}) =>
  toTarget({ id: 'paid', credential: CREDENTIAL, ...fields }).upstream
const snapshotOf = (...all: Upstream[]) => ({
  ...toSnapshot([]),
  upstreams: new Map(all.map((upstream) => [upstream.id, upstream])),
})

const HEALTH: UpstreamHealth = {
  id: 'paid',
  state: 'down',
  reason: `401: ${CREDENTIAL} is unknown`,
  suspended: [],
  last_ok_ms: 5,
  last_error: { message: `no such key: ${CREDENTIAL}`, at_ms: 7 },
  targets: [],
}

describe('the status of an upstream', () => {
  test('has its health and how it is set up, and never its credential, even where it was quoted', () => {
    const limits = { rpm: 60, tpm: null, concurrency: 4 }
    const [status, ...others] = toUpstreamStatuses(snapshotOf(upstreamOf({ limits })), [HEALTH])
    expect(others).toEqual([])
    expect(JSON.stringify(status)).not.toContain(CREDENTIAL)
    expect(status).toEqual({
      id: 'paid',
      state: 'down',
      reason: '401: … is unknown',
      last_ok_ms: 5,
      last_error: { message: 'no such key: …', at_ms: 7 },
      targets: [],
      preset: null,
      dialect: 'openai',
      base_url: 'http://127.0.0.1:1/v1',
      local: false,
      credential: 'set',
      credentials: [],
      process: null,
      served: [],
      suspended: [],
      deadlines: {
        headers_ms: 60_000,
        first_token_ms: 300_000,
        idle_ms: 120_000,
        total_ms: 3_600_000,
        total_whole_ms: 600_000,
      },
      limits: { rpm: 60, tpm: null, concurrency: 4 },
    })
  })

  test('tells one that needs no credential from one that lacks it, also before anything is known of them', () => {
    const notReady = 'the variable K is not set on the server'
    const lacking = upstreamOf({ id: 'lacking', variable: 'K', credential: null, notReady })
    const free = upstreamOf({ id: 'free', credential: null })
    const newer = upstreamOf({ id: 'newer', credential: null, notReady: 'this version does not know its dialect' })
    expect(toUpstreamStatuses(snapshotOf(lacking, free, newer), [])).toMatchObject([
      { id: 'lacking', state: 'not_ready', reason: notReady, credential: 'not_set' },
      { id: 'free', state: 'unknown', reason: null, credential: 'none' },
      { id: 'newer', state: 'not_ready', reason: 'this version does not know its dialect', credential: 'none' },
    ])
  })
})

describe('a test of an upstream', () => {
  const backendOf = (readiness: Readiness): Backend => ({
    call: () => Promise.reject(new Error('a test makes no call')),
    probe: async () => readiness,
  })
  const clockOf =
    (...times: number[]) =>
    () =>
      times.shift() ?? Number.NaN

  test('tells what came and how long it took, and whoever keeps account hears of it', async () => {
    const readiness: Readiness = { state: 'down', reason: 'connection refused' }
    const heard: Readiness[] = []
    const result = await testUpstream(upstreamOf(), {
      backend: backendOf(readiness),
      monotonicMs: clockOf(1_000.2, 1_012.9),
      onFound: (found) => heard.push(found),
    })
    expect(result).toEqual({ id: 'paid', state: 'down', reason: 'connection refused', ms: 13 })
    expect(heard).toEqual([readiness])
  })

  test('asks nothing of one that could not be called anyway', async () => {
    const heard: Readiness[] = []
    const result = await testUpstream(upstreamOf({ notReady: 'the variable K is not set on the server' }), {
      backend: backendOf({ state: 'ready' }),
      monotonicMs: clockOf(),
      onFound: (found) => heard.push(found),
    })
    expect(result).toEqual({
      id: 'paid',
      state: 'not_ready',
      reason: 'the variable K is not set on the server',
      ms: null,
    })
    expect(heard).toEqual([])
  })
})
