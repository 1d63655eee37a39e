/** Breakers and unavailable upstreams as clients and lists see them; test/routing tests the rules. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { CREDENTIAL } from '../support/app.ts'
import { expectEnvelope } from '../support/scenario.ts'
import { answering, expectHonest, type Several, startSeveral } from '../support/several-upstreams.ts'
import { until } from '../support/until.ts'
import { startUpstream } from '../support/upstream.ts'
import { errorAnswer, toDelta } from '../support/upstream-answers.ts'

const OPEN_MS = 10_000

let several: Several
beforeEach(async () => {
  several = await startSeveral()
})
afterEach(async () => {
  expect(await several.app.logText()).not.toContain(CREDENTIAL)
  await expectHonest(several.app)
  await several.stop()
})

const upstreamOf = async (asked: Promise<Response>) => {
  const response = await asked
  await response.text()
  return response.headers.get('x-tollgate-upstream')
}

const get = async (path: string) => {
  const response = await fetch(new URL(path, several.app.origin), {
    headers: { authorization: `Bearer ${several.key}` },
  })
  const text = await response.text()
  expect(text).not.toContain(CREDENTIAL)
  return JSON.parse(text)
}

const readyModels = async (): Promise<string[]> => {
  const { data }: { data: { id: string; is_ready: boolean }[] } = await get('/v1/models')
  return data.filter((model) => model.is_ready).map(({ id }) => id)
}

describe('a target that has failed five times in a row', () => {
  test('is not called while another is available; then it gets one probe', async () => {
    const { app, first, chat } = several
    first.script(errorAnswer(500))
    for (let i = 0; i < 8; i++) expect(await upstreamOf(chat())).toBe('second')
    expect(first.requests).toHaveLength(5)
    expect((await app.settled(8)).map(({ attempts }) => attempts)).toEqual([2, 2, 2, 2, 2, 1, 1, 1])

    app.pass(OPEN_MS - 1)
    expect(await upstreamOf(chat())).toBe('second')
    expect(first.requests).toHaveLength(5)
    app.pass(1)
    first.script({ ...errorAnswer(500), delayMs: 100 })
    expect(await Promise.all([1, 2, 3].map(() => upstreamOf(chat())))).toEqual(['second', 'second', 'second'])
    expect(first.requests).toHaveLength(6)

    app.pass(OPEN_MS)
    first.script(answering('first'))
    expect(await upstreamOf(chat())).toBe('first')
    expect(await upstreamOf(chat())).toBe('first')
    expect(await app.logText()).toContain('circuit breaker closed')
  })

  test('and is the only one makes its model not ready: no request waits or is recorded', async () => {
    const { app, first, chat } = several
    first.script(errorAnswer(500, `you said ${CREDENTIAL}`))
    for (let i = 0; i < 5; i++) expect((await chat({ model: 'acme/only', stream: i % 2 === 0 })).status).toBe(502)
    const rows = await app.settled(5)
    app.pass(2_500)
    for (const stream of [true, false]) {
      const response = await chat({ model: 'acme/only', stream })
      const text = await response.text()
      expect(response.status).toBe(503)
      expectEnvelope(response, text, { type: 'service_unavailable_error', code: 'model_not_ready', param: null })
      expect(response.headers.get('retry-after')).toBe('8')
      expect(text).toContain('its last 5 calls to `first` failed, most recently: status 500')
      expect(text).not.toContain(CREDENTIAL)
    }
    expect(first.requests).toHaveLength(5)
    expect(app.rows()).toHaveLength(rows.length)
    expect(await readyModels()).not.toContain('acme/only')
    expect((await get('/v1/models/acme/only')).is_ready).toBe(false)
    const known = await (await fetch('http://localhost/status', { unix: join(app.dataFolder, 'control.sock') })).text()
    expect(known).toContain('"breaker":"open"')
    expect(known).toContain('status 500: you said …')
    expect(known).not.toContain(CREDENTIAL)

    // The first one due is the trial; the others wait for it.
    app.pass(OPEN_MS - 2_500)
    expect(await readyModels()).toContain('acme/only')
    first.script({ ...errorAnswer(500), delayMs: 100 })
    const statuses = await Promise.all([1, 2, 3].map(() => chat({ model: 'acme/only' }).then(({ status }) => status)))
    expect(statuses.sort()).toEqual([502, 503, 503])
    expect(first.requests).toHaveLength(6)
    expect((await chat({ model: 'acme/only' })).status).toBe(503)

    app.pass(OPEN_MS)
    first.script(answering('first'))
    expect((await chat({ model: 'acme/only' })).status).toBe(200)
    expect(await readyModels()).toContain('acme/only')
  })

  test('is separate from other models of its upstream', async () => {
    const { first, chat } = several
    first.script((seen) => (seen.json?.model === 'one' ? errorAnswer(500) : answering('first')(seen)))
    for (let i = 0; i < 6; i++) await chat({ model: 'acme/only' })
    expect(first.requests).toHaveLength(5)
    expect(await upstreamOf(chat({ model: 'acme/other' }))).toBe('first')
  })

  test("doesn't count responses about the request, or its provider's rate limit", async () => {
    const { first, chat } = several
    for (const status of [400, 422, 429]) {
      first.script(errorAnswer(status))
      for (let i = 0; i < 6; i++) expect((await chat({ model: 'acme/only' })).status).toBe(status)
    }
  })

  test('counts even if each response began well', async () => {
    const { first, chat } = several
    first.script({ kind: 'stream', steps: [toDelta({ content: 'one' }), { waitMs: 20 }], end: 'reset' })
    for (let i = 0; i < 5; i++) await (await chat({ model: 'acme/only', stream: true })).text()
    expect((await chat({ model: 'acme/only', stream: true })).status).toBe(503)
  })

  test('counts even if beginning and failure arrive together: its breaker opens once, and stays open', async () => {
    const { app, first, chat } = several
    const frames = [toDelta({ content: 'one' }), { error: { message: 'no more' } }]
    first.script({ kind: 'stream', steps: [frames.map((frame) => `data: ${JSON.stringify(frame)}\n\n`).join('')] })
    for (let i = 0; i < 8; i++) await (await chat({ model: 'acme/only', stream: true })).text()
    expect(first.requests).toHaveLength(5)
    expect((await app.logText()).match(/circuit breaker \w+/g)).toEqual(['circuit breaker opened'])
  })
})

describe('an upstream that rejects its credential', () => {
  test('is deprioritized, and the gateway is degraded until a call succeeds', async () => {
    const { first, chat } = several
    first.script(errorAnswer(401))
    for (let i = 0; i < 3; i++) expect(await upstreamOf(chat())).toBe('second')
    expect(first.requests).toHaveLength(1)
    expect(await get('/readyz')).toEqual({ status: 'degraded' })
    first.script(answering('first'))
    expect((await chat({ model: 'acme/only' })).status).toBe(200)
    expect(await get('/readyz')).toEqual({ status: 'ok' })
  })
})

describe('an upstream that is found down', () => {
  test("isn't called anymore, its models are not ready, and the gateway is degraded until it is back", async () => {
    const { app, first, chat } = several
    expect(await get('/readyz')).toEqual({ status: 'ok' })
    await first.stop()
    expect(await upstreamOf(chat())).toBe('second')
    // The health check that the failed call triggered.
    await until('a look', async () => (await get('/readyz')).status === 'degraded')
    expect(await readyModels()).toEqual(expect.arrayContaining(['acme/both', 'acme/mixed']))
    expect(await readyModels()).not.toContain('acme/only')
    expect(await upstreamOf(chat())).toBe('second')
    expect((await app.settled(2)).map(({ attempts }) => attempts)).toEqual([2, 1])
    const refused = await chat({ model: 'acme/only' })
    const text = await refused.text()
    expect(refused.status).toBe(503)
    expectEnvelope(refused, text, { code: 'model_not_ready' })
    expect(text).toContain('upstream `first` is down: connection refused')
    expect(app.rows()).toHaveLength(2)

    const back = await startUpstream(answering('first'), first.port)
    await until('it to be found again', async () => (await get('/readyz')).status === 'ok')
    expect(await upstreamOf(chat())).toBe('first')
    await back.stop()
  })
})

describe('a key with local scope', () => {
  test('never uses a paid route, even if the local one fails', async () => {
    const { app, first, here, chat } = several
    const key = app.key({ scope: 'local' })
    expect(await upstreamOf(chat({ model: 'acme/mixed' }, { key }))).toBe('here')
    here.script(errorAnswer(500))
    expect((await chat({ model: 'acme/mixed' }, { key })).status).toBe(502)
    expect(first.requests).toEqual([])
    for (const { cost_nano_usd: cost } of await app.settled(2)) expect(cost).toBe(0)
    expect((await chat({ model: 'acme/both' }, { key })).status).toBe(404)
  })
})

test('conversations are distributed by weight, and each stays on its target', async () => {
  const { first, second, chat } = several
  const ask = (i: number, more: object[] = []) =>
    upstreamOf(chat({ model: 'acme/shared', messages: [{ role: 'user', content: `question ${i}` }, ...more] }))
  const begun: (string | null)[] = []
  for (let i = 0; i < 100; i++) begun.push(await ask(i))
  // The distribution depends on a random hash of the key: one run in a million fails.
  expect(first.requests.length).toBeGreaterThan(0)
  expect(second.requests.length).toBeGreaterThan(first.requests.length)
  const on = [
    { role: 'assistant', content: 'Yes.' },
    { role: 'user', content: 'And then?' },
  ]
  for (let i = 0; i < 40; i++) expect(await ask(i, on)).toBe(begun[i] ?? '')
})
