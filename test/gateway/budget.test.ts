/** Budgets of keys and teams over the wire. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { Budget } from '../../src/domain/limits.ts'
import { costOf, HELLO_BOUND, HELLO_COUNTED, HELLO_TOKENS } from '../support/gateway.ts'
import { obliging, type Seen } from '../support/upstream.ts'
import { errorAnswer, streamAnswer, wholeAnswer } from '../support/upstream-answers.ts'
import { type Bench, billing, createGate, headersFrom, rowOf, startBench, toRefusal } from './limiting.ts'

let bench: Bench
beforeAll(async () => {
  bench = await startBench({ config: { retries: 1 } })
})
afterAll(() => bench.stop())

/** Reserved on a cheap route. */
const reserveOf = (maxTokens: number) => costOf(HELLO_TOKENS, maxTokens)
const daily = (nanoUsd: number): Budget => ({ nanoUsd, period: 'day' })
const inTotal = (nanoUsd: number): Budget => ({ nanoUsd, period: 'total' })

/** Reads a key's budget from the refusal of a request larger than any budget here. */
async function standing(key: string, { ask } = bench): Promise<{ spent: number; reserved: number }> {
  const { message } = await toRefusal(await ask(key, { model: 'acme/long', max_tokens: 16_000 }))
  const [, spent, reserved] = /\$(\S+) spent, \$(\S+) reserved/.exec(message) ?? []
  return { spent: Math.round(Number(spent) * 1e9), reserved: Math.round(Number(reserved) * 1e9) }
}

describe('a budget', () => {
  test('with too little left rejects, states amounts and reset, records no row, and calls no upstream', async () => {
    const { app, near, ask } = bench
    const key = app.key({ name: 'ann', budget: daily(3_000_000) })
    near.script(billing(20, 990))
    expect((await ask(key)).status).toBe(200)
    const [rows, calls] = [await app.count(), near.requests.length]
    for (const body of [{}, { stream: true }]) {
      const refusal = await toRefusal(await ask(key, body))
      expect(refusal).toMatchObject({
        status: 429,
        type: 'insufficient_quota',
        code: 'insufficient_quota',
        param: null,
        message:
          'Budget exceeded for key `ann`: $0.003 per day limit, $0.002 spent, $0 reserved by running requests; this request may cost up to $0.00202. It resets at 2026-11-22T00:00:00Z. Lower max_tokens, use a cheaper model, wait for the reset, or ask your administrator for a larger budget.',
      })
      expect(headersFrom(refusal, 'retry-after', 'x-should-retry', 'x-ratelimit-')).toEqual({
        'x-should-retry': 'false',
      })
    }
    expect([await app.count(), near.requests.length]).toEqual([rows, calls])
    expect((await ask(key, { max_tokens: 494 })).status).toBe(200)
    near.script(obliging)
  })

  test('of a key and of its team reserve both or neither', async () => {
    const { app, near, ask, team } = bench
    team({ name: 'crew', budget: daily(1_500_000) })
    const [ann, bob] = ['ann', 'bob'].map((name) => app.key({ name, team: 'crew', budget: daily(3_000_000) }))
    const gate = createGate()
    const calls = near.requests.length
    near.script(gate.held(billing(10, 100)))
    const first = ask(ann as string, { max_tokens: 500 })
    await near.waitFor((seen) => seen.length === calls + 1, 'the call')
    // The team's budget refuses both; the key's own budget has room.
    for (const key of [ann, bob]) {
      const { code, message } = await toRefusal(await ask(key as string, { max_tokens: 500 }))
      expect(code).toBe('insufficient_quota')
      expect(message).toContain('Budget exceeded for team `crew`: $0.0015 per day limit, $0 spent, $0.001013 reserved')
    }
    expect(await standing(ann as string)).toEqual({ spent: 0, reserved: costOf(HELLO_BOUND, 500) })
    expect(await standing(bob as string)).toEqual({ spent: 0, reserved: 0 })
    gate.free()
    await (await first).text()
    expect(await standing(ann as string)).toEqual({ spent: costOf(10, 100), reserved: 0 })
    near.script(obliging)
    expect((await ask(bob as string, { max_tokens: 500 })).status).toBe(200)
  })

  test('covers the most expensive route', async () => {
    const { app, ask } = bench
    const dear = 10 * costOf(HELLO_COUNTED, 500)
    const body = { model: 'acme/both', max_tokens: 500 }
    const { message } = await toRefusal(await ask(app.key({ budget: inTotal(dear - 1) }), body))
    expect(message).toContain('may cost up to $0.0101')
    expect((await ask(app.key({ budget: inTotal(dear) }), body)).headers.get('x-tollgate-upstream')).toBe('near')
  })

  test('covers the most expensive kinds of tokens: cache writes, and reasoning', async () => {
    const { app, near, ask } = bench
    const most = HELLO_COUNTED * 3_000 + 500 * 5_000
    const reserved = HELLO_TOKENS * 3_000 + 500 * 5_000
    const body = { model: 'acme/thinker', max_completion_tokens: 500 }
    expect((await ask(app.key({ budget: inTotal(most - 1) }), body)).status).toBe(429)
    const usage = {
      prompt_tokens: HELLO_COUNTED,
      completion_tokens: 500,
      prompt_tokens_details: { cache_write_tokens: HELLO_COUNTED },
      completion_tokens_details: { reasoning_tokens: 500 },
    }
    near.script(wholeAnswer({ usage }))
    const response = await ask(app.key({ budget: inTotal(most) }), body)
    expect(response.status).toBe(200)
    expect(rowOf(bench, response)).toMatchObject({ reserved_nano_usd: reserved, cost_nano_usd: most })
    near.script(obliging)
  })

  test('resets with its period, and a total never does', async () => {
    const { app, near, ask } = bench
    const keys = [app.key({ budget: daily(2_011_000) }), app.key({ budget: inTotal(2_011_000) })]
    near.script(billing(1, 900))
    for (const key of keys) expect([(await ask(key)).status, (await ask(key)).status]).toEqual([200, 429])
    app.pass(12 * 3_600_000)
    near.script(obliging)
    expect(await Promise.all(keys.map(async (key) => (await ask(key)).status))).toEqual([200, 429])
  })

  test('that is spent is logged once at 80% and once at 100%', async () => {
    const { app, near, ask } = bench
    const key = app.key({ name: 'dora', budget: inTotal(10_000_000) })
    const spend = async (nanoUsd: number) => {
      // An output token costs as much as two input tokens.
      near.script(billing(nanoUsd / 1_000 - 2, 1))
      expect((await ask(key, { max_tokens: 1 })).status).toBe(200)
    }
    const warnings = async () => {
      const lines = (await app.logLines()).filter(({ name }) => name === 'dora')
      return lines.map(({ level, threshold_percent: percent, spent_nano_usd: spent }) => [level, percent, spent])
    }
    await spend(7_900_000)
    expect(await warnings()).toEqual([])
    for (const nanoUsd of [100_000, 200_000]) await spend(nanoUsd)
    expect(await warnings()).toEqual([['warn', 80, 8_000_000]])
    await spend(1_900_000)
    expect((await ask(key, { max_tokens: 1 })).status).toBe(429)
    expect(await warnings()).toEqual([
      ['warn', 80, 8_000_000],
      ['warn', 100, 10_100_000],
    ])
    near.script(obliging)
  })
})

const asJson = { model: 'acme/long', response_format: { type: 'json_object' } }
const scripted = (seen: Seen) => (seen.json?.stream ? streamAnswer() : wholeAnswer())

describe('the reservation for a response', () => {
  const sentOf = ({ json }: Seen): object => {
    const { max_tokens, max_completion_tokens } = json ?? {}
    return { max_tokens, max_completion_tokens }
  }
  const holds: [string, Record<string, unknown>, number][] = [
    ['is all that the model writes of a whole one', { model: 'acme/long' }, 16_000],
    ['is 4,096 tokens of a stream at first', { model: 'acme/long', stream: true }, 4_096],
    ['is what the model writes of a stream, where that is less', { stream: true }, 1_000],
    ['is all that the model writes of a stream that is checked as a whole', { ...asJson, stream: true }, 16_000],
    ['counts a cap of null as none', { max_tokens: null }, 1_000],
    ['is the client’s own cap', { model: 'acme/long', max_tokens: 7 }, 7],
    ['is the client’s own cap by its newer name', { max_completion_tokens: 7, stream: true }, 7],
  ]
  test.each(holds)('%s', async (_, body, held) => {
    const { app, near, ask, team } = bench
    const name = `team of ${JSON.stringify(body)}`
    team({ name, budget: inTotal(1_000_000_000) })
    near.script((seen) =>
      seen.json?.response_format || 'response_format' in body ? wholeAnswer({ tokens: ['{}'] }) : scripted(seen),
    )
    const free = await ask(app.key(), body)
    await free.text()
    const sent = sentOf(near.requests.at(-1) as Seen)
    for (const key of [app.key({ budget: inTotal(1_000_000_000) }), app.key({ team: name })]) {
      const response = await ask(key, body)
      expect(response.status).toBe(200)
      await response.text()
      expect(rowOf(bench, response)?.reserved_completion_tokens).toBe(held)
      expect(response.headers.has('x-tollgate-output-cap')).toBe(false)
      expect(sentOf(near.requests.at(-1) as Seen)).toEqual(sent)
    }
    near.script(obliging)
  })

  const caps: [string, Record<string, unknown>, (cap: number) => object, choices: number][] = [
    ['a whole answer', { model: 'acme/long' }, (cap) => ({ max_tokens: cap }), 1],
    ['the older name', { model: 'acme/long', n: 2 }, (cap) => ({ max_tokens: cap }), 2],
  ]
  test.each(caps)(
    'without budget for all of it is capped, which is reported: %s',
    async (_, body, expected, choices) => {
      const { app, near, ask } = bench
      const cap = 2_000
      const key = app.key({ budget: inTotal(costOf(HELLO_COUNTED, cap * choices) + 1_999) })
      near.script(billing(10, 20))
      const response = await ask(key, body)
      expect(response.status).toBe(200)
      expect(response.headers.get('x-tollgate-output-cap')).toBe(String(cap))
      expect(sentOf(near.requests.at(-1) as Seen)).toMatchObject(expected(cap))
      expect(rowOf(bench, response)).toMatchObject({ reserved_completion_tokens: cap * choices, status: 'ok' })
      near.script(obliging)
    },
  )

  test("of a reasoning model is capped by the newer field, or the upstream's own", async () => {
    const { app, near, ask } = bench
    const most = (cap: number) => HELLO_COUNTED * 3_000 + cap * 5_000
    near.script(billing(10, 20))
    await ask(app.key({ budget: inTotal(most(3_000)) }), { model: 'acme/deep' })
    expect(sentOf(near.requests.at(-1) as Seen)).toEqual({ max_tokens: undefined, max_completion_tokens: 3_000 })
    near.script(obliging)
  })

  test('is never capped below 1,024 tokens: with less budget it is rejected', async () => {
    const { app, near, ask } = bench
    const least = costOf(HELLO_COUNTED, 1_024)
    const calls = near.requests.length
    const refusal = await toRefusal(await ask(app.key({ budget: inTotal(least - 1) }), { model: 'acme/long' }))
    expect(refusal).toMatchObject({ status: 429, code: 'insufficient_quota' })
    expect(near.requests.length).toBe(calls)
    near.script(billing(10, 20))
    const response = await ask(app.key({ budget: inTotal(least) }), { model: 'acme/long' })
    expect([response.status, response.headers.get('x-tollgate-output-cap')]).toEqual([200, '1024'])
    near.script(obliging)
  })

  test("doesn't cap a cheap route unless an expensive one may be called instead, which is then capped", async () => {
    const { app, near, far, ask } = bench
    // All of the first response, and a third of the second at ten times the price.
    const key = () => app.key({ budget: inTotal(costOf(HELLO_BOUND, 16_000) * 3) })
    near.script(billing(10, 20))
    far.script(billing(10, 20))
    const near1 = await ask(key(), { model: 'acme/dear' })
    expect([near1.headers.get('x-tollgate-output-cap'), sentOf(near.requests.at(-1) as Seen)]).toEqual([null, {}])
    near.script(errorAnswer(500))
    const response = await ask(key(), { model: 'acme/dear' })
    const cap = Number(response.headers.get('x-tollgate-output-cap'))
    expect(cap).toBeGreaterThan(4_000)
    expect(cap).toBeLessThan(5_000)
    expect(sentOf(far.requests.at(-1) as Seen)).toEqual({ max_tokens: cap })
    for (const upstream of [near, far]) upstream.script(obliging)
  })

  test('is no reason to deny a request another upstream after its calls failed', async () => {
    const { app, near, ask } = bench
    near.script({ kind: 'whole', status: 500, body: {} })
    const key = app.key({ budget: inTotal(3 * reserveOf(500)) })
    const response = await ask(key, { model: 'acme/single', max_tokens: 500, n: 2 })
    expect(response.status).toBe(200)
    expect(response.headers.get('x-tollgate-upstream')).toBe('single-far')
    near.script(obliging)
  })

  test.each(['acme/large', 'acme/single'])('covers each choice of %s', async (model) => {
    const { app, near, ask } = bench
    near.script(billing(1, 1))
    const calls = near.requests.length
    const body = { model, max_tokens: 500, n: 3 }
    // Three calls of one choice read the prompt three times.
    const most = model === 'acme/single' ? 3 * costOf(HELLO_COUNTED, 500) : costOf(HELLO_COUNTED, 1_500)
    const refusal = await toRefusal(await ask(app.key({ budget: inTotal(most - 1) }), body))
    expect(refusal.code).toBe('insufficient_quota')
    expect(near.requests.length).toBe(calls)
    expect((await ask(app.key({ budget: inTotal(most) }), body)).status).toBe(200)
    near.script(obliging)
  })
})

describe('a failed call', () => {
  // Breakers remember, so each test has its own gateway.
  let bench: Bench
  beforeEach(async () => {
    bench = await startBench({ config: { retries: 1 } })
  })
  afterEach(() => bench.stop())
  const once = () => {
    let failed = false
    return (seen: Seen) => {
      const first = !failed
      failed = true
      if (first) return errorAnswer(500)
      return seen.json?.stream ? streamAnswer() : wholeAnswer()
    }
  }

  test.each([{ stream: false }, { stream: true }])('costs nothing and releases its reservation, %j', async (body) => {
    const { app, near, far, ask } = bench
    const key = app.key({ budget: inTotal(10 * reserveOf(500)) })
    for (const upstream of [near, far]) upstream.script(errorAnswer(500))
    const dear = { model: 'acme/both', max_tokens: 500, ...body }
    for (let again = 0; again < 2; again++) expect((await ask(key, dear)).status).toBe(502)
    expect(await app.settled(2)).toMatchObject([0, 1].map(() => ({ status: 'failed', attempts: 4, cost_nano_usd: 0 })))
    expect(await standing(key, bench)).toEqual({ spent: 0, reserved: 0 })
  })

  test('needs no second reservation to be retried, on any upstream', async () => {
    const { app, near, far, ask } = bench
    near.script(once())
    const retried = await ask(app.key({ budget: inTotal(reserveOf(500)) }), { max_tokens: 500 })
    expect([retried.status, retried.headers.get('x-tollgate-attempts')]).toEqual([200, '2'])
    near.script(errorAnswer(500))
    far.script(obliging)
    const key = app.key({ budget: inTotal(10 * reserveOf(500)) })
    const elsewhere = await ask(key, { model: 'acme/both', max_tokens: 500 })
    expect([elsewhere.status, elsewhere.headers.get('x-tollgate-upstream')]).toEqual([200, 'far'])
    expect(await standing(key, bench)).toEqual({ spent: 10 * costOf(10, 5), reserved: 0 })
  })
})

describe('if the budget ends during a request', () => {
  const schema = {
    type: 'object',
    properties: { age: { type: 'integer' } },
    required: ['age'],
    additionalProperties: false,
  }
  const formatOf = (strict: boolean) => ({ type: 'json_schema', json_schema: { name: 'person', schema, strict } })
  const WRONG = '{"age":"three"}'
  const wrong = (prompt: number, completion: number) =>
    wholeAnswer({ tokens: [WRONG], usage: { prompt_tokens: prompt, completion_tokens: completion } })

  async function askPerson(nanoUsd: number, strict: boolean, stream = false) {
    const { app, near, ask } = bench
    const calls = near.requests.length
    const key = app.key({ budget: inTotal(nanoUsd) })
    const response = await ask(key, { max_tokens: 500, stream, response_format: formatOf(strict) })
    const text = await response.text()
    return {
      response,
      text,
      row: rowOf(bench, response),
      calls: near.requests.length - calls,
      standing: await standing(key),
    }
  }
  test("a retry without a client's cap gets the budget left by the first call", async () => {
    const { app, near, ask } = bench
    const calls = near.requests.length
    near.script(wrong(20, 10_000))
    const budget = costOf(1_500, 16_000)
    const response = await ask(app.key({ budget: inTotal(budget) }), {
      model: 'acme/long',
      response_format: formatOf(false),
    })
    expect(response.status).toBe(200)
    const caps = near.requests.slice(calls).map(({ json }) => json?.max_tokens)
    expect(caps.slice(0, 2)).toEqual([undefined, expect.any(Number)])
    expect(caps[1]).toBeLessThan(7_000)
    expect(response.headers.get('x-tollgate-output-cap')).toBe(String(caps.at(-1)))
    near.script(obliging)
  })

  /** Slightly more than the first call with its schema reserves. */
  const ONE = 1_100_000

  test.each([false, true])('the last JSON is delivered, if that is allowed (stream: %p)', async (stream) => {
    bench.near.script(wrong(20, 490))
    const { response, text, row, calls, standing } = await askPerson(ONE, false, stream)
    expect(response.status).toBe(200)
    expect(response.headers.get('x-tollgate-schema')).toBe('unmet')
    expect(text).toContain(JSON.stringify(WRONG))
    expect(calls).toBe(1)
    expect(row).toMatchObject({ status: 'ok', attempts: 1, cost_nano_usd: costOf(20, 490) })
    expect(standing).toEqual({ spent: costOf(20, 490), reserved: 0 })
  })

  test('for a strict schema, this is the error, and used tokens are paid for', async () => {
    bench.near.script(wrong(20, 490))
    const { response, text, row, calls, standing } = await askPerson(ONE, true)
    expect(response.status).toBe(429)
    expect(response.headers.get('x-should-retry')).toBe('false')
    expect(JSON.parse(text).error).toMatchObject({ code: 'insufficient_quota' })
    expect(calls).toBe(1)
    expect(row).toMatchObject({ status: 'failed', error_code: 'insufficient_quota', cost_nano_usd: costOf(20, 490) })
    expect(standing).toEqual({ spent: costOf(20, 490), reserved: 0 })
  })

  test('a further call can use what the previous one left', async () => {
    bench.near.script(wrong(20, 10))
    const { row, calls } = await askPerson(1_400_000, false)
    expect(calls).toBe(3)
    expect(row).toMatchObject({ status: 'ok', attempts: 3, cost_nano_usd: 3 * costOf(20, 10) })
  })

  test("parallel choices don't use the same budget twice", async () => {
    const { app, near, far, ask } = bench
    // One choice is charged, the other fails: the next target is called for both.
    let asked = 0
    near.script(() => (asked++ === 0 ? billing(HELLO_TOKENS, 500) : errorAnswer(404, 'no', {})))
    const calls = far.requests.length
    far.script(({ index }) => ({ ...billing(HELLO_TOKENS, 500), delayMs: index === calls ? 0 : 50 }))
    const key = app.key({ budget: inTotal(2 * reserveOf(500)) })
    const refusal = await toRefusal(await ask(key, { model: 'acme/single', n: 2, max_tokens: 500 }))
    expect(refusal).toMatchObject({ status: 429, code: 'insufficient_quota' })
    expect(far.requests.length).toBeLessThanOrEqual(calls + 1)
    const row = rowOf(bench, refusal)
    expect(row).toMatchObject({ status: 'failed', error_code: 'insufficient_quota' })
    expect(row?.cost_nano_usd).toBeLessThanOrEqual(2 * reserveOf(500))
    expect(await standing(key)).toEqual({ spent: row?.cost_nano_usd ?? -1, reserved: 0 })
    for (const upstream of [near, far]) upstream.script(obliging)
  })
})
