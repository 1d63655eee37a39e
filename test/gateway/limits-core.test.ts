/** A key's limits if the ledger refuses or a count never ends. */
import { afterAll, describe, expect, test } from 'bun:test'
import { DisconnectedCalls } from '../../src/accounting/call.ts'
import { endedBy, GatewayError } from '../../src/domain/error.ts'
import { NO_LIMITS } from '../../src/domain/limits.ts'
import { NO_USAGE } from '../../src/domain/usage.ts'
import { chat } from '../../src/formats/chat/chat.ts'
import { AdaptiveConcurrency } from '../../src/gateway/adaptive-concurrency.ts'
import { Load } from '../../src/gateway/admission.ts'
import { type HandleDeps, handle } from '../../src/gateway/handle.ts'
import { Uploads } from '../../src/gateway/read.ts'
import { createChecker } from '../../src/gateway/structured-checker.ts'
import { createHealth } from '../../src/health/health.ts'
import { hashToken, mintToken } from '../../src/keys/token.ts'
import type { Ledger } from '../../src/ledger/ledger.ts'
import { createLimiter } from '../../src/limits/limiter.ts'
import { createLog } from '../../src/log.ts'
import { Pace } from '../../src/threads/pace.ts'
import { type Counter, createCounter } from '../../src/tokens/count.ts'
import type { Backend } from '../../src/upstreams/backend.ts'
import { text, toWhole } from '../support/answers.ts'
import { onEvery } from '../support/backends.ts'
import { HELLO, HELLO_TOKENS } from '../support/gateway.ts'
import { toKey, toModel, toSnapshot, toTarget } from '../support/snapshot.ts'

const checker = createChecker()
const counter = createCounter()
afterAll(() => {
  checker.close()
  counter.close()
})

const fine = () => Promise.resolve()
const full = (): Promise<void> => Promise.reject(new GatewayError('ledger_unavailable', 'The ledger has no place.'))
const usage = { ...NO_USAGE, prompt: 20, completion: 30 }
const answering: Backend['call'] = async () => toWhole(text('Hi'), { kind: 'usage', usage })

const LEDGER: Ledger = {
  open: fine,
  grow() {},
  openCall: fine,
  settle: fine,
  state: () => 'ok',
  backlog: () => ({ records: 0, ms: 0 }),
  flush: async () => ({ applied: 0, waiting: 0 }),
  close: fine,
}

interface Fakes {
  ownerId?: string
  ledger?: Partial<Ledger>
  counter?: Counter
  call?: Backend['call']
}

/** The core for a key with one slot, 5 requests and 10,000 tokens per minute. */
function createAsking(fakes: Fakes) {
  const token = mintToken()
  const limits = { ...NO_LIMITS, rpm: 5, tpm: 10_000, concurrency: 1 }
  const secrets = new Map([
    [hashToken(token), { key: toKey({ limits, ownerId: fakes.ownerId ?? null }), lastFour: '0000', expiresMs: null }],
  ])
  const call: Backend['call'] = (asked) => (fakes.call ?? answering)(asked)
  const deps: HandleDeps = {
    live: { snapshot: { ...toSnapshot([toModel('acme/large', [toTarget()])]), secrets } },
    ledger: { ...LEDGER, ...fakes.ledger },
    refusals: { note() {} },
    counter: fakes.counter ?? counter,
    checker,
    load: new Load({ maxInFlight: 10, maxBufferedBytes: 10_000, share: 1, nowMs: () => 0 }),
    pace: new Pace(),
    concurrency: new AdaptiveConcurrency(() => 0),
    uploads: new Uploads({ uploadMs: 60_000 }),
    disconnectedCalls: new DisconnectedCalls({ disconnectGraceMs: 0 }),
    log: createLog({ now: () => 0, write: fine }),
    now: () => 0,
    monotonicMs: () => 0,
    limiter: createLimiter(),
    health: createHealth({ nowMs: () => 0, wallMs: () => 0 }),
    onFinished() {},
    tracing: null,
    instance: 'i1',
    heartbeatMs: 0,
    slowReaderMs: 1_000,
    retry: { retries: 0, backoffMs: 0 },
    backends: onEvery({ call }),
  }
  /** Returns the status, and what remains of the rates. */
  return async (signal?: AbortSignal) => {
    const init = { method: 'POST', body: JSON.stringify(HELLO), ...(signal ? { signal } : {}) }
    const request = new Request('http://localhost/', init)
    const headers = { 'content-type': 'application/json' }
    const incoming = {
      request,
      headers,
      owner: null,
      token,
      ipOf: () => null,
      liftIdleLimit() {},
      restoreIdleLimit() {},
    }
    const answer = await handle(deps, chat, incoming).catch((error: GatewayError) => error)
    const rates = new Headers(answer.headers)
    const left = (unit: string) => Number(rates.get(`x-ratelimit-remaining-${unit}`))
    return { status: answer.status, requests: left('requests'), tokens: left('tokens') }
  }
}

describe("a ledger that can't write", () => {
  const asked = HELLO_TOKENS + 1_000

  test('the request: all is released, the request count included', async () => {
    let open = full
    const ask = createAsking({ ledger: { open: () => open() } })
    expect(await ask()).toEqual({ status: 503, requests: 5, tokens: 10_000 })
    open = fine
    expect(await ask()).toEqual({ status: 200, requests: 4, tokens: 10_000 - asked })
  })

  test('the outcome: the slot is free, and usage stays counted', async () => {
    let settle = full
    const ask = createAsking({ ledger: { settle: () => settle() } })
    expect((await ask()).status).toBe(503)
    settle = fine
    expect(await ask()).toEqual({ status: 200, requests: 3, tokens: 10_000 - 50 - asked })
  })
})

test("counting for a member's key uses that member's turns", async () => {
  const owners: string[] = []
  const counting: Counter = {
    async usage(owner) {
      owners.push(owner)
      return usage
    },
    prompt: async () => null,
    bound: async () => null,
    close() {},
  }
  const unsaid: Backend['call'] = async () => toWhole(text('Hi'))
  expect((await createAsking({ counter: counting, call: unsaid, ownerId: 'mia' })()).status).toBe(200)
  expect((await createAsking({ counter: counting, call: unsaid })()).status).toBe(200)
  expect(owners).toEqual(['mia', 'k1'])
})

test("a disconnected client's slot doesn't wait for its usage count", async () => {
  const leaving = new AbortController()
  const begun = Promise.withResolvers<void>()
  const call: Backend['call'] = ({ signal }) =>
    new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(endedBy('disconnected')))
      begun.resolve()
    })
  const endless: Counter = {
    usage: () => new Promise(() => {}),
    prompt: async () => null,
    bound: async () => null,
    close() {},
  }
  const fakes: Fakes = { counter: endless, call }
  const ask = createAsking(fakes)
  void ask(leaving.signal)
  await begun.promise
  expect((await ask()).status).toBe(429)
  leaving.abort()
  await Bun.sleep(0)
  fakes.call = answering
  expect((await ask()).status).toBe(200)
})
