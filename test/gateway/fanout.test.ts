/** Several choices, from upstreams that write them in one call and from those that don't. */
import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import type { PlannedCall } from '../../src/accounting/call.ts'
import { UpstreamError } from '../../src/domain/error.ts'
import { fanOut } from '../../src/gateway/fan-out.ts'
import { DEFAULT_OPTIONS } from '../../src/upstreams/dialects/dialects.ts'
import { DONE, stop, text, toWhole } from '../support/answers.ts'
import { toFrames } from '../support/frames.ts'
import { costOf, startGateway, usageOf } from '../support/gateway.ts'
import { forAllTests } from '../support/lifetime.ts'
import { expectHonest, reading } from '../support/several-upstreams.ts'
import { toTarget } from '../support/snapshot.ts'
import type { Seen } from '../support/upstream.ts'
import { errorAnswer, streamAnswer, wholeAnswer } from '../support/upstream-answers.ts'
import { type Bench, createGate, startBench } from './limiting.ts'

// The counting thread starts slowly under load.
setDefaultTimeout(60_000)

const gateway = forAllTests(startGateway)

const numberOf = ({ headers }: Seen) => Number(headers['x-client-request-id']?.split('-')[1])

const usage = { prompt_tokens: 10, completion_tokens: 2 }
const obliging = (seen: Seen) => {
  const answer = { tokens: [`answer `, `of call ${numberOf(seen)}`], usage }
  return seen.json?.stream === true ? streamAnswer({ ...answer, paceMs: 1 }) : wholeAnswer(answer)
}

const ask = (body: Record<string, unknown>) => gateway.chat({ model: 'acme/single', ...body })

interface Answer {
  choices: { index: number; message: { content: string } }[]
  usage: unknown
}

const read = async (response: Response): Promise<Answer> => JSON.parse(await response.text())

const callsOf = (id: string): Record<string, unknown>[] =>
  reading(gateway.app, (sqlite) =>
    sqlite.query<Record<string, unknown>, [string]>('SELECT * FROM calls WHERE request_id = ? AND number > 1').all(id),
  )

describe('an upstream that returns one choice', () => {
  test('is called once per choice, and the responses become one', async () => {
    const { app, upstream } = gateway
    upstream.script(obliging)
    const [rows, seen] = [await app.count(), upstream.requests.length]
    const response = await ask({ n: 3 })
    const answer = await read(response)
    expect(answer.choices.map(({ index }) => index)).toEqual([0, 1, 2])
    expect(answer.choices.map(({ message }) => message.content).sort()).toEqual(
      [1, 2, 3].map((n) => `answer of call ${n}`),
    )
    expect(answer.usage).toEqual(usageOf(30, 6))
    expect(response.headers.get('x-tollgate-attempts')).toBe('3')
    const calls = upstream.requests.slice(seen)
    expect(calls.map(({ json }) => json && 'n' in json)).toEqual([false, false, false])
    const row = (await app.settled(rows + 1)).at(-1)
    expect(row).toMatchObject({
      status: 'ok',
      attempts: 3,
      prompt_tokens: 30,
      estimated: 0,
      cost_nano_usd: costOf(30, 6),
    })
    expect(callsOf(String(row?.id))).toMatchObject(
      [2, 3].map((number) => ({
        number,
        reason: 'fan_out',
        status: 'ok',
        upstream: 'single',
        upstream_model: 'single-v1',
        prompt_tokens: 10,
        completion_tokens: 2,
        cost_nano_usd: costOf(10, 2),
      })),
    )
  })

  test('is called eight times at once at most', async () => {
    const { upstream } = gateway
    let most = 0
    upstream.script((seen) => {
      most = Math.max(most, upstream.requests.filter((one) => one.answeredAtMs === null && !one.abortedAtMs).length)
      return { ...wholeAnswer({ usage }), delayMs: seen.index % 3 }
    })
    const answer = await read(await ask({ n: 20 }))
    expect(answer.choices).toHaveLength(20)
    expect(answer.usage).toEqual(usageOf(200, 40))
    expect(most).toBeLessThanOrEqual(8)
    expect(most).toBeGreaterThan(1)
  })

  test.each([3, 12])('streams %i choices as one stream, with one usage', async (n) => {
    gateway.upstream.script(obliging)
    const response = await ask({ n, stream: true, stream_options: { include_usage: true } })
    expect(response.headers.get('x-tollgate-attempts')).toBe(String(Math.min(n, 8)))
    const { frames, done } = toFrames(await response.text())
    expect(done).toBe(true)
    const indexes = frames.flatMap(({ choices }) => choices.map(({ index }) => index))
    expect([...new Set(indexes)]).toEqual(Array.from({ length: n }, (_, index) => index))
    for (let index = 0; index < n; index++) {
      const own = frames.flatMap(({ choices }) => choices.filter((choice) => choice.index === index))
      expect(own.map(({ delta }) => delta.content ?? '').join('')).toMatch(/^answer of call \d+$/)
      expect(own.filter(({ finish_reason: reason }) => reason !== null)).toHaveLength(1)
    }
    expect(frames.at(-1)).toMatchObject({ choices: [], usage: usageOf(10 * n, 2 * n) })
  })

  test('that rejects one of them rejects all; finished ones are paid for', async () => {
    const { app, upstream } = gateway
    upstream.script((seen) => (numberOf(seen) === 2 ? { ...errorAnswer(500), delayMs: 150 } : obliging(seen)))
    const rows = await app.count()
    const response = await ask({ n: 3 })
    expect(response.status).toBe(502)
    expect((await app.settled(rows + 1)).at(-1)).toMatchObject({
      status: 'failed',
      error_code: 'upstream_failed',
      attempts: 3,
      prompt_tokens: 20,
      cost_nano_usd: costOf(20, 4),
    })
  })

  test('that responds to one after the other streams from the first token of the first', async () => {
    const { upstream } = gateway
    const seen = upstream.requests.length
    // The others get headers only once the client has read the first one's first word.
    const free = Promise.withResolvers<void>()
    upstream.script((call) =>
      numberOf(call) === 1
        ? streamAnswer({ tokens: ['first'], usage })
        : { ...streamAnswer({ tokens: ['later'], usage }), after: free.promise },
    )
    const response = await ask({ n: 3, stream: true })
    const reader = response.body?.getReader()
    const begun = new TextDecoder().decode((await reader?.read())?.value)
    expect(begun).toContain('first')
    expect(upstream.requests.slice(seen).filter(({ answeredAtMs }) => answeredAtMs !== null).length).toBeLessThan(3)
    free.resolve()
    let rest = ''
    for (let read = await reader?.read(); read && !read.done; read = await reader?.read()) {
      rest += new TextDecoder().decode(read.value)
    }
    expect(toFrames(begun + rest)).toMatchObject({ done: true })
  })

  test('that rejects one of them after the first token interrupts the stream; the output so far is paid for', async () => {
    const { app, upstream } = gateway
    upstream.script((seen) =>
      numberOf(seen) === 2
        ? { ...errorAnswer(500), delayMs: 250 }
        : { kind: 'stream', steps: [...streamAnswer({ finish: null, usage: null }).steps], end: 'hang' },
    )
    const rows = await app.count()
    const { done, error } = toFrames(await (await ask({ n: 3, stream: true })).text())
    expect({ done, code: error?.code }).toEqual({ done: false, code: 'upstream_failed' })
    const row = (await app.settled(rows + 1)).at(-1)
    expect(row).toMatchObject({ status: 'cut', attempts: 3, estimated: 1 })
    // Two calls wrote "tok0 " to "tok4 "; the refused one is free.
    expect(row?.completion_tokens).toBe(2 * 11)
    expect(callsOf(String(row?.id)).map(({ status, error_code: code }) => [status, code])).toEqual([
      ['failed', 'status'],
      ['cut', 'aborted'],
    ])
  })

  test('with a schema that only a late choice misses reports this, streamed too', async () => {
    gateway.upstream.script((seen) => wholeAnswer({ tokens: [numberOf(seen) >= 9 ? 'no' : '{"a":1}'], usage }))
    const schema = {
      type: 'object',
      properties: { a: { type: 'integer' } },
      required: ['a'],
      additionalProperties: false,
    }
    const format = { type: 'json_schema', json_schema: { name: 'n', strict: true, schema } }
    const { error } = toFrames(await (await ask({ n: 10, stream: true, response_format: format })).text())
    expect(error).toMatchObject({ code: 'schema_not_met', param: 'response_format' })
  })

  test.each([
    ['as text', { index: '0' }],
    ['that is missing', { index: undefined }],
  ])('with an index %s is accepted', async (_, place) => {
    const answer = { choices: [{ ...place, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }] }
    gateway.upstream.script({ kind: 'whole', body: answer })
    expect((await read(await ask({ n: 2 }))).choices.map(({ message }) => message.content)).toEqual(['Hi', 'Hi'])
    gateway.upstream.script({
      kind: 'stream',
      steps: [{ choices: [{ ...place, delta: { content: 'Hi' }, finish_reason: 'stop' }] }],
    })
    const { frames } = toFrames(await (await ask({ n: 2, stream: true })).text())
    expect(frames.flatMap(({ choices }) => choices.flatMap(({ delta }) => delta.content || []))).toEqual(['Hi', 'Hi'])
  })

  test('that interrupts one stream interrupts all', async () => {
    const { app, upstream } = gateway
    upstream.script((seen) =>
      numberOf(seen) === 2
        ? {
            kind: 'stream',
            steps: [...streamAnswer({ finish: null, usage: null }).steps, { waitMs: 50 }],
            end: 'reset',
          }
        : { ...streamAnswer({ tokens: 2_000 }), paceMs: 1 },
    )
    const rows = await app.count()
    const { done, error } = toFrames(await (await ask({ n: 2, stream: true })).text())
    expect({ done, code: error?.code }).toEqual({ done: false, code: 'upstream_failed' })
    const row = (await app.settled(rows + 1)).at(-1)
    expect(row).toMatchObject({ status: 'cut', attempts: 2, estimated: 1 })
    expect(callsOf(String(row?.id))).toMatchObject([{ status: 'cut' }])
    await upstream.waitFor((all) => all.at(-2)?.abortedAtMs !== null, 'the end of the other call')
  })

  test('whose client disconnects has all its calls ended', async () => {
    const { app, upstream } = gateway
    upstream.script(() => ({ ...streamAnswer({ tokens: 10_000 }), paceMs: 1 }))
    const [rows, seen] = [await app.count(), upstream.requests.length]
    const client = new AbortController()
    const response = await gateway.chat({ model: 'acme/single', n: 3, stream: true }, { signal: client.signal })
    await response.body?.getReader().read()
    client.abort()
    await upstream.waitFor((all) => all.slice(seen).every(({ abortedAtMs }) => abortedAtMs !== null), 'the end of all')
    expect((await app.settled(rows + 1)).at(-1)).toMatchObject({ status: 'cut', attempts: 3, estimated: 1 })
  })
})

describe('an upstream whose own limits have slots for only some of them', () => {
  const withBench = async (tight: string, run: (bench: Bench, key: string) => Promise<void>) => {
    const bench = await startBench({ tight: `n: false, ${tight}` })
    bench.near.script(obliging)
    try {
      await run(bench, bench.app.key())
      await expectHonest(bench.app)
    } finally {
      await bench.stop()
    }
  }
  const tight = (n: number, stream: boolean) => ({ model: 'acme/tight', n, stream })

  test.each([false, true])('is called for the others after those, next to another request, stream: %p', (stream) =>
    withBench('concurrency: 2', async ({ app, near, ask }, key) => {
      const { held, free } = createGate()
      near.script((seen) => (seen.index === 0 ? held(obliging(seen)) : obliging(seen)))
      const other = ask(key, tight(1, false))
      await near.waitFor((all) => all.length === 1, 'the other request')
      const response = await ask(key, tight(4, stream))
      const text = await response.text()
      expect(response.status).toBe(200)
      if (stream) {
        const { frames, done } = toFrames(text)
        const indexes = frames.flatMap(({ choices }) => choices.map(({ index }) => index))
        expect([...new Set(indexes)]).toEqual([0, 1, 2, 3])
        expect(done).toBe(true)
      } else {
        const { choices }: Answer = JSON.parse(text)
        expect(choices.map(({ index, message }) => [index, message.content])).toEqual(
          [0, 1, 2, 3].map((index) => [index, `answer of call ${index + 1}`]),
        )
      }
      free()
      await (await other).text()
      expect(near.requests.map(({ abortedAtMs }) => abortedAtMs)).toEqual(Array(5).fill(null))
      expect((await app.settled(2)).at(-1)).toMatchObject({ attempts: 4, estimated: 0, cost_nano_usd: costOf(40, 8) })
    }),
  )

  test('is called once more for each released slot', () =>
    withBench('tpm: 130', async ({ app, near, ask }, key) => {
      // 11 tokens in and 50 out: two at a time fit in 130, and each costs 12 in the end.
      const response = await ask(key, { ...tight(6, false), max_tokens: 50 })
      expect((await read(response)).choices).toHaveLength(6)
      expect(near.requests).toHaveLength(6)
      expect((await app.settled(1)).at(-1)).toMatchObject({ attempts: 6, estimated: 0 })
    }))

  test("isn't waited for if no call is running", () =>
    withBench('rpm: 2', async ({ app, near, ask }, key) => {
      const refused = async (stream: boolean) => {
        const response = await ask(key, tight(2, stream))
        expect({ status: response.status, text: await response.text() }).toMatchObject({ status: 429 })
      }
      await (await ask(key, tight(1, false))).text()
      await refused(false)
      await refused(true)
      app.pass(60_000)
      await (await ask(key, tight(1, false))).text()
      const { done, error } = toFrames(await (await ask(key, tight(2, true))).text())
      expect({ done, code: error?.code }).toEqual({ done: false, code: 'upstream_rate_limited' })
      expect(near.requests).toHaveLength(4)
      // Only what was answered is billed.
      const [one, nothing] = [costOf(10, 2), 0]
      expect((await app.settled(5)).map((row) => row.cost_nano_usd)).toEqual([one, one, nothing, one, one])
    }))
})

describe('of the calls to a target that returns one choice', () => {
  const asking = (count: number, stream: boolean): PlannedCall => ({
    target: toTarget({ options: { ...DEFAULT_OPTIONS, n: false } }),
    body: { model: 'acme/single', messages: [{ role: 'user', content: 'Hi' }], n: count, stream },
    passthrough: null,
    reason: 'first',
    signal: new AbortController().signal,
  })
  const saying = (content: string) => toWhole(text(content))

  test("one that responds after another failed doesn't begin, and blocks nothing", async () => {
    const late = Promise.withResolvers<void>()
    const dispatch = fanOut(async ({ reason }) => {
      if (reason === 'fan_out') throw new UpstreamError('status', 'it broke', { status: 500 })
      await late.promise
      return saying('too late')
    }, 1)
    const asked = dispatch(asking(2, true))
    setTimeout(late.resolve)
    await expect(asked).rejects.toThrow('it broke')
  })

  test('one whose reading fails by an internal error is closed', async () => {
    let closed = 0
    const rest = { pump: () => Promise.reject(new TypeError('our own')), close: () => closed++ }
    const { rest: merged } = await fanOut(
      async () => ({ events: [text('word')], rest, upstreamRequestId: null }),
      1,
    )(asking(2, true))
    await expect(merged?.pump(() => true)).rejects.toThrow('our own')
    expect(closed).toBe(2)
  })

  test.each([
    [1, 8],
    [10 * 1024 ** 2, 3],
    [32 * 1024 ** 2, 1],
  ])('of a request of %i bytes there are at most %i at once: each is sent its own body', async (chars, most) => {
    let underWay = 0
    let highest = 0
    const dispatch = fanOut(async () => {
      highest = Math.max(highest, ++underWay)
      await Promise.resolve()
      underWay--
      return saying('word')
    }, chars)
    await dispatch(asking(20, false))
    expect(highest).toBe(most)
  })

  test('one without a slot while another ended is retried once; if no other is running, it fails', async () => {
    const full = new UpstreamError('status', 'no place', { status: 429, isOwnLimit: true })
    let refusals = 0
    const refusing = (most: number) =>
      fanOut(async ({ reason }) => {
        if (reason !== 'fan_out') return saying('first')
        await Bun.sleep(1)
        if (++refusals <= most) throw full
        return saying('second')
      }, 1)
    const answer = await refusing(1)(asking(2, false))
    expect(answer.events).toEqual([text('first'), stop(), text('second', 1), stop(1), DONE])
    refusals = 0
    await expect(refusing(9)(asking(2, false))).rejects.toThrow('no place')
    expect(refusals).toBe(2)
  })
})

test('an upstream that supports `n` is called once', async () => {
  const { upstream } = gateway
  upstream.script(obliging)
  const seen = upstream.requests.length
  expect((await gateway.chat({ n: 2 })).headers.get('x-tollgate-attempts')).toBe('1')
  expect(upstream.requests.slice(seen).map(({ json }) => json?.n)).toEqual([2])
})

test("an upstream gets the output cap under its own name, and no user if it doesn't support one", async () => {
  const { upstream } = gateway
  upstream.script(obliging)
  await ask({ max_tokens: 5, user: 'somebody' })
  expect(upstream.requests.at(-1)?.json).toMatchObject({ max_completion_tokens: 5 })
  expect(Object.keys(upstream.requests.at(-1)?.json ?? {})).not.toContain('max_tokens')
  expect(Object.keys(upstream.requests.at(-1)?.json ?? {})).not.toContain('user')
  await gateway.chat({ max_completion_tokens: 5, user: 'somebody' })
  expect(upstream.requests.at(-1)?.json).toMatchObject({ max_completion_tokens: 5, user: 'somebody' })
})
