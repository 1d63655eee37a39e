/** The HTTP layer on fakes, for internal errors and a full ledger, which scripted upstreams can't cause. */
import { describe, expect, test } from 'bun:test'
import { DisconnectedCalls } from '../../src/accounting/call.ts'
import { logFinished } from '../../src/accounting/settle.ts'
import { GatewayError } from '../../src/domain/error.ts'
import { AdaptiveConcurrency } from '../../src/gateway/adaptive-concurrency.ts'
import { Load } from '../../src/gateway/admission.ts'
import { Uploads } from '../../src/gateway/read.ts'
import { createChecker } from '../../src/gateway/structured-checker.ts'
import { createHealth } from '../../src/health/health.ts'
import { createApp } from '../../src/http/app.ts'
import { hashToken, mintToken } from '../../src/keys/token.ts'
import type { Ledger } from '../../src/ledger/ledger.ts'
import { createLimiter } from '../../src/limits/limiter.ts'
import { createLog } from '../../src/log.ts'
import type { SettledRow } from '../../src/store/ledger-rows.ts'
import { Pace } from '../../src/threads/pace.ts'
import { createCounter } from '../../src/tokens/count.ts'
import type { Backend } from '../../src/upstreams/backend.ts'
import { DONE, text as saying, stop, toStreamed, toWhole } from '../support/answers.ts'
import { onEvery } from '../support/backends.ts'
import { toFrames } from '../support/frames.ts'
import { HELLO } from '../support/gateway.ts'
import { toKey, toModel, toSnapshot, toTarget } from '../support/snapshot.ts'

const token = mintToken()
const bug = () => {
  throw new TypeError('a bug of ours')
}
const full = () => Promise.reject(new GatewayError('ledger_unavailable', 'The ledger has no place.'))
const fine = () => Promise.resolve()

interface Fakes {
  call?: Backend['call']
  open?: Ledger['open']
  settle?: () => Promise<void>
}

const authorization = `Bearer ${token}`
const toChat = (asStream: boolean) =>
  new Request('http://localhost/v1/chat/completions', {
    method: 'POST',
    headers: { authorization, 'content-type': 'application/json' },
    body: JSON.stringify({ ...HELLO, stream: asStream }),
  })

const words = [saying('Hi')]

async function ask({ call = bug, open = fine, settle = fine }: Fakes, asStream = false, asked = toChat(asStream)) {
  const settled: SettledRow[] = []
  const lines: string[] = []
  const now = () => Date.UTC(2026, 10, 21)
  const log = createLog({ now, write: async (text) => void lines.push(text.toString()) })
  const load = new Load({ maxInFlight: 1, maxBufferedBytes: 1_000, share: 1, nowMs: () => 0 })
  const ledger: Ledger = {
    open,
    grow() {},
    openCall: fine,
    settle(row) {
      settled.push(row)
      return settle()
    },
    state: () => 'ok',
    backlog: () => ({ records: 0, ms: 0 }),
    flush: async () => ({ applied: 0, waiting: 0 }),
    close: fine,
  }
  const secrets = new Map([[hashToken(token), { key: toKey(), lastFour: '0000', expiresMs: null }]])
  const app = createApp({
    live: { snapshot: { ...toSnapshot([toModel('acme/large', [toTarget()])]), secrets } },
    serverStateOf: () => null,
    speedOf: () => null,
    ledger,
    refusals: { note() {} },
    counter: createCounter(),
    checker: createChecker(),
    pace: new Pace(),
    concurrency: new AdaptiveConcurrency(() => 0),
    uploads: new Uploads({ uploadMs: 60_000 }),
    log,
    disconnectedCalls: new DisconnectedCalls({ disconnectGraceMs: 0 }),
    onFinished: logFinished.bind(null, log),
    now,
    monotonicMs: () => 0,
    limiter: createLimiter(),
    admin: { handle: async () => new Response() },
    metrics: async () => new Response(),
    tracing: null,
    pages: null,
    health: createHealth({ nowMs: () => 0, wallMs: now }),
    load,
    instance: 'i1',
    heartbeatMs: 0,
    slowReaderMs: 60_000,
    corsOrigins: [],
    trustedProxies: [],
    retry: { retries: 0, backoffMs: 0 },
    backends: onEvery({ call }),
    readiness: () => 'ok',
  })
  const response = await app.handle(asked)
  const text = await response.text()
  await log.flush()
  expect([load.admitted, load.inFlight, load.bufferedBytes]).toEqual([0, 0, 0])
  return { response, text, settled, log: lines.join('') }
}

describe('an internal error', () => {
  test.each([
    ['before the ledger knows of the request', { open: bug }, []],
    ['after it', { call: bug }, [{ status: 'failed', httpStatus: 500, errorCode: 'internal', costNanoUsd: 0 }]],
  ])('%s gets a fixed message, and the log has its cause under the request’s ID', async (_, fakes, rows) => {
    const { response, text, settled, log } = await ask(fakes)
    expect(response.status).toBe(500)
    expect(JSON.parse(text)).toMatchObject({ error: { type: 'server_error', code: null, param: null } })
    expect(text).not.toContain('a bug of ours')
    expect(settled).toMatchObject(rows)
    expect(log).toContain('TypeError: a bug of ours')
    expect(log).toContain(`"id":"${response.headers.get('x-request-id')}"`)
  })

  test('in the middle of a stream is an error frame, an interrupted row, and a log line', async () => {
    const call = async () => toStreamed(words, new TypeError('a bug of ours'))
    const { text, settled, log } = await ask({ call }, true)
    const { content, done, error } = toFrames(text)
    expect({ content, done }).toEqual({ content: 'Hi', done: false })
    expect(error).toMatchObject({ type: 'server_error', code: null })
    expect(settled).toMatchObject([{ status: 'cut', httpStatus: 200, errorCode: 'internal', estimated: 1 }])
    expect(log).toContain('response interrupted by an internal error')
  })
})

describe("a ledger that can't write", () => {
  const refusal = { error: { type: 'service_unavailable_error', code: 'ledger_unavailable', param: null } }

  test('the request: nothing is dispatched', async () => {
    let calls = 0
    const call = async () => {
      calls++
      return toWhole(...words)
    }
    const { response, text } = await ask({ open: full, call })
    expect({ status: response.status, calls }).toEqual({ status: 503, calls: 0 })
    expect(response.headers.get('retry-after')).toMatch(/^\d+$/)
    expect(JSON.parse(text)).toMatchObject(refusal)
  })

  test('the outcome: a stream withholds its tail and reports an error', async () => {
    const { text } = await ask({ settle: full, call: async () => toStreamed(words, [stop(), DONE]) }, true)
    const { content, done, error } = toFrames(text)
    expect({ content, done }).toEqual({ content: 'Hi', done: false })
    expect(error).toMatchObject(refusal.error)
  })

  test('the outcome: a whole response is withheld', async () => {
    const { response, text } = await ask({ settle: full, call: async () => toWhole(...words) })
    expect(response.status).toBe(503)
    expect(JSON.parse(text)).toMatchObject(refusal)
    expect(text).not.toContain('Hi')
  })
})

test.each(['files', 'batches', 'messages/batches'])('a cluster node rejects /v1/%s and says why', async (path) => {
  const { response, text } = await ask(
    {},
    false,
    new Request(`http://localhost/v1/${path}`, { headers: { authorization } }),
  )
  expect(response.status).toBe(501)
  expect(text).toContain("whose nodes don't share them")
})
