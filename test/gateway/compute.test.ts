/** The price of a local server's time, over the wire, on the test's clock. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { startApp, type TestApp } from '../support/app.ts'
import { hear } from '../support/door-clients.ts'
import { answering, answeringAfter, COUNTS } from '../support/door-upstreams.ts'
import { costOf, DOORS, type DoorGateway, STREAMING, startDoors, writes } from '../support/doors.ts'
import { modelServer } from '../support/model-server.ts'
import { until } from '../support/until.ts'
import { type ScriptedUpstream, startUpstream } from '../support/upstream.ts'
import { errorAnswer, streamAnswer, toDelta, wholeAnswer } from '../support/upstream-answers.ts'
import { createGate, toRefusal } from './limiting.ts'

/** Nano-dollars per ms, per input token, and per output token. */
const [MS, READ, WRITTEN] = [500, 1_000, 2_000]
const PRICE = '{ prompt: "0.000001", completion: "0.000002", second: "0.0005" }'

describe('on every endpoint', () => {
  let gateway: DoorGateway
  beforeAll(async () => {
    gateway = await startDoors({ settings: ', local: true', firstPrice: PRICE })
  })
  afterAll(() => gateway.stop())

  const cases = [
    ...DOORS.map((door) => ({ ...door, streams: false })),
    ...STREAMING.map((door) => ({ ...door, streams: true })),
  ]
  test.each(cases)('$name (stream: $streams) the time of a call is charged, reported, and recorded', async (door) => {
    await gateway.calm(door)
    const { promise, resolve } = Promise.withResolvers<void>()
    gateway.near.script(answeringAfter(promise, answering(door.upstream)))
    const calls = gateway.near.requests.length
    const asking = gateway.ask(door, { stream: door.streams })
    await gateway.near.waitFor((seen) => seen.length === calls + 1, 'the call')
    gateway.app.pass(1_234)
    resolve()
    const text = await (await asking).text()
    const completion = writes(door) ? COUNTS.completion : 0
    const cost = costOf(COUNTS.prompt, completion) + 1_234 * MS
    const [row] = await gateway.rows(1)
    expect(row).toMatchObject({ status: 'ok', lane: door.lane, compute_ms: 1_234, cost_nano_usd: cost, estimated: 0 })
    const told = door.streams ? hear(door.client, text).costNanoUsd : door.client.whole(text).costNanoUsd
    if (told !== null) expect(told).toBe(cost)
  })
})

const FACTS = 'context_length: 32768, max_output_length: 1000, input_modalities: [text], output_modalities: [text]'

describe('a call', () => {
  let upstream: ScriptedUpstream
  let app: TestApp
  let key = ''
  beforeAll(async () => {
    upstream = await startUpstream()
    const model = (id: string, features = '[]') =>
      `  acme/${id}: { name: A, ${FACTS}, supported_features: ${features}, routes: [{ upstream: ${id}, model: m, pricing: [${PRICE}] }] }`
    const local = `dialect: openai, base_url: "${upstream.url}", local: true`
    app = await startApp({
      catalog: `
version: 1
upstreams:
  one: { ${local}, n: false }
  patient: { ${local}, disconnect_grace: 60s }
  hasty: { ${local}, deadlines: { total_whole: 200ms } }
  said: { ${local}, cost: { path: usage.cost, unit: usd } }
models:
${['one', 'patient', 'hasty', 'said'].map((id) => model(id)).join('\n')}
`,
      config: { retries: 1 },
    })
    key = app.key()
  })
  afterAll(async () => {
    await upstream.stop()
    await app.stop()
  })

  const ask = (model: string, body: object = {}, signal?: AbortSignal, of = key) =>
    fetch(`${app.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${of}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: `acme/${model}`, messages: [{ role: 'user', content: 'Hello' }], ...body }),
      ...(signal ? { signal } : {}),
    })
  const asked = (calls: number) => upstream.waitFor((seen) => seen.length === calls, `call ${calls}`)
  const lastRow = async (rows: number) => (await app.settled(rows)).at(-1)
  const BILLED = { usage: { prompt_tokens: 10, completion_tokens: 5 } }

  test('that failed before its first token costs nothing, and the next one only its own time', async () => {
    const [rows, calls, first, second] = [await app.count(), upstream.requests.length, createGate(), createGate()]
    upstream.script(() =>
      upstream.requests.length === calls + 1 ? first.held(errorAnswer(500)) : second.held(wholeAnswer(BILLED)),
    )
    const asking = ask('one')
    await asked(calls + 1)
    app.pass(5_000)
    first.free()
    await asked(calls + 2)
    app.pass(300)
    second.free()
    expect((await asking).status).toBe(200)
    expect(await lastRow(rows + 1)).toMatchObject({
      ...{ attempts: 2, compute_ms: 300, cost_nano_usd: 10 * READ + 5 * WRITTEN + 300 * MS },
    })
  })

  test('per choice has its own time, and the request has the sum', async () => {
    const [rows, calls, gate] = [await app.count(), upstream.requests.length, createGate()]
    upstream.script(gate.held(wholeAnswer(BILLED)))
    const asking = ask('one', { n: 3 })
    await asked(calls + 3)
    app.pass(700)
    gate.free()
    expect((await asking).status).toBe(200)
    expect(await lastRow(rows + 1)).toMatchObject({
      ...{ attempts: 3, compute_ms: 3 * 700, cost_nano_usd: 3 * (10 * READ + 5 * WRITTEN + 700 * MS) },
    })
  })

  test('that is interrupted has the time until then', async () => {
    const [rows, calls, gate] = [await app.count(), upstream.requests.length, createGate()]
    upstream.script(gate.held({ kind: 'stream', steps: [toDelta({ content: 'one' })], end: 'eof' }))
    const asking = ask('one', { stream: true })
    await asked(calls + 1)
    app.pass(900)
    gate.free()
    expect(await (await asking).text()).toContain('"error"')
    expect(await lastRow(rows + 1)).toMatchObject({ status: 'cut', compute_ms: 900 })
  })

  test.each([
    ['until then', 'one', 400],
    ['until it is read no more, where it is read on', 'patient', 1_000],
  ])('that is interrupted has the time %s', async (_, model, ms) => {
    const [rows, end, client] = [await app.count(), Promise.withResolvers<void>(), new AbortController()]
    const slot = app.key({ concurrency: 1 })
    const more = [toDelta({}, 'stop'), { choices: [], ...BILLED }]
    const steps = [toDelta({ content: 'one' }), { until: end.promise }, ...more]
    upstream.script(({ json }) => (json?.stream ? { kind: 'stream', steps, end: 'done' } : wholeAnswer()))
    const response = await ask(model, { stream: true }, client.signal, slot)
    await response.body?.getReader().read()
    app.pass(400)
    client.abort()
    // The slot is free once the gateway notices.
    await until('the free slot', async () => (await ask('one', {}, undefined, slot)).status === 200)
    app.pass(600)
    end.resolve()
    const [row] = (await app.settled(rows + 2)).slice(rows)
    expect(row).toMatchObject({ status: 'cut', stream: 1, compute_ms: ms })
  })

  test('is charged for its deadline at most, however late that is noticed', async () => {
    const [rows, calls] = [await app.count(), upstream.requests.length]
    upstream.script({ kind: 'silent' })
    const asking = ask('hasty')
    await asked(calls + 1)
    app.pass(60_000)
    expect((await asking).status).toBe(504)
    const row = await lastRow(rows + 1)
    expect(row).toMatchObject({ attempts: 1 })
    expect(row?.compute_ms).toBe(200)
  })

  test('with a cost reported by its server costs that, and its time is recorded, too', async () => {
    const [rows, calls, gate] = [await app.count(), upstream.requests.length, createGate()]
    upstream.script(gate.held(wholeAnswer({ usage: { ...BILLED.usage, cost: 0.001 } })))
    const asking = ask('said')
    await asked(calls + 1)
    app.pass(800)
    gate.free()
    await asking
    expect(await lastRow(rows + 1)).toMatchObject({ compute_ms: 800, cost_nano_usd: 1_000_000 })
  })
})

describe('a budget', () => {
  const DEADLINE_MS = 10_000
  const BOUND = DEADLINE_MS * MS
  let upstream: ScriptedUpstream
  let app: TestApp
  beforeAll(async () => {
    upstream = await startUpstream()
    const price = '{ prompt: "0", completion: "0", second: "0.0005" }'
    app = await startApp({
      catalog: `
version: 1
upstreams: { one: { dialect: openai, base_url: "${upstream.url}", local: true, deadlines: { total: 20s, total_whole: 10s } } }
models: { acme/a: { name: A, ${FACTS}, supported_features: [], routes: [{ upstream: one, model: m, pricing: [${price}] }] } }
`,
    })
  })
  afterAll(async () => {
    await upstream.stop()
    await app.stop()
  })

  const ask = (key: string, body: object = {}) =>
    fetch(`${app.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'acme/a', messages: [{ role: 'user', content: 'Hello' }], ...body }),
    })

  test("isn't exceeded by a burst in which all calls take too long", async () => {
    const [rows, calls, gate] = [await app.count(), upstream.requests.length, createGate()]
    const key = app.key({ budget: { nanoUsd: 7 * BOUND, period: 'total' } })
    upstream.script(gate.held(wholeAnswer()))
    let refused = 0
    const all = Array.from({ length: 40 }, async () => {
      const response = await ask(key)
      if (response.status !== 200) refused++
      return response.status
    })
    await until('all to be decided', () => refused + upstream.requests.length - calls === 40)
    app.pass(DEADLINE_MS + 5_000)
    gate.free()
    const served = (await Promise.all(all)).filter((status) => status === 200).length
    expect(served).toBe(7)
    const spent = (await app.settled(rows + 7)).slice(rows).reduce((sum, row) => sum + row.cost_nano_usd, 0)
    expect(spent).toBe(7 * BOUND)
    expect((await toRefusal(await ask(key))).code).toBe('insufficient_quota')
  })

  test('gets back the unused part of a reservation', async () => {
    const [calls, gate] = [upstream.requests.length, createGate()]
    const key = app.key({ budget: { nanoUsd: BOUND + 100 * MS, period: 'total' } })
    upstream.script(gate.held(wholeAnswer()))
    const asking = ask(key)
    await upstream.waitFor((seen) => seen.length === calls + 1, 'the call')
    expect((await ask(key)).status).toBe(429)
    app.pass(100)
    gate.free()
    expect((await asking).status).toBe(200)
    upstream.script(wholeAnswer())
    expect((await ask(key)).status).toBe(200)
  })

  test('covers the maximum time of a stream', async () => {
    const body = { stream: true }
    upstream.script(streamAnswer())
    const [tight, enough] = [2 * BOUND - 1, 2 * BOUND].map((nanoUsd) =>
      app.key({ budget: { nanoUsd, period: 'total' } }),
    )
    expect((await ask(tight ?? '', body)).status).toBe(429)
    const response = await ask(enough ?? '', body)
    expect([response.status, (await response.text()).includes('[DONE]')]).toEqual([200, true])
    expect((await app.settled(await app.count())).at(-1)).toMatchObject({ reserved_nano_usd: 2 * BOUND })
  })
})

describe('with a server that Tollgate starts', () => {
  let app: TestApp
  let key = ''
  afterEach(() => app.stop())

  async function start(): Promise<void> {
    const price = '{ prompt: "0", completion: "0", second: "0.0005" }'
    app = await startApp({
      catalog: `
version: 1
upstreams: { a: { dialect: openai, process: ${JSON.stringify(modelServer('--load', '600'))}, concurrency: 1 } }
models: { local/a: { name: A, ${FACTS}, supported_features: [], routes: [{ upstream: a, model: a, pricing: [${price}] }] } }
`,
      config: { heartbeatMs: 50 },
    })
    key = app.key()
  }

  const ask = (content: string, signal?: AbortSignal) =>
    fetch(`${app.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'local/a', stream: true, messages: [{ role: 'user', content }] }),
      ...(signal ? { signal } : {}),
    })

  async function* pieces(response: Response) {
    for await (const piece of response.body ?? []) yield new TextDecoder().decode(piece)
  }

  test('loading and queueing time is free', async () => {
    await start()
    const read = async (response: Response, onLoading: () => void) => {
      let isLoading = true
      let hasBegun = false
      let text = ''
      for await (const piece of pieces(response)) {
        text += piece
        if (isLoading && text.includes('waiting')) {
          isLoading = false
          onLoading()
        }
        if (hasBegun || !text.includes('I am')) continue
        hasBegun = true
        app.pass(700)
      }
      return text
    }
    const first = read(await ask('wait 300'), () => app.pass(5_000))
    const second = read(await ask('wait 300'), () => {})
    for (const text of await Promise.all([first, second])) expect(text).toContain('[DONE]')
    expect(await app.settled(2)).toMatchObject([
      { status: 'ok', compute_ms: 700, cost_nano_usd: 700 * MS },
      { status: 'ok', compute_ms: 700, cost_nano_usd: 700 * MS },
    ])
  })

  test('a client that disconnects during loading pays for none of it', async () => {
    await start()
    const client = new AbortController()
    const response = await ask('hello', client.signal)
    for await (const piece of pieces(response)) {
      expect(piece).toContain('waiting')
      break
    }
    app.pass(5_000)
    client.abort()
    expect(await app.settled(1)).toMatchObject([{ status: 'cut', compute_ms: 0, cost_nano_usd: 0 }])
  })
})
