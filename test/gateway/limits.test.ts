/** Rates and concurrency of keys and upstreams, as clients and upstreams see them. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { costOf, HELLO_TOKENS } from '../support/gateway.ts'
import { obliging } from '../support/upstream.ts'
import { type Behaviour, errorAnswer, streamAnswer, toDelta, wholeAnswer } from '../support/upstream-answers.ts'
import { type Bench, billing, createGate, headersFrom, rowOf, startBench, toRefusal } from './limiting.ts'

const RATE = 'x-ratelimit-'
const RETRY = ['retry-after', 'x-should-retry']

describe('the rates of a key', () => {
  let bench: Bench
  beforeAll(async () => {
    bench = await startBench()
  })
  afterAll(() => bench.stop())

  test("an excess request is rejected with a retry time; it doesn't count, has no row, and calls nothing", async () => {
    const { app, near, ask } = bench
    const key = app.key({ name: 'ann', rpm: 2 })
    expect((await ask(key)).status).toBe(200)
    app.pass(10_000)
    expect((await ask(key)).status).toBe(200)
    const [rows, calls] = [await app.count(), near.requests.length]
    for (let again = 0; again < 3; again++) {
      const refusal = await toRefusal(await ask(key))
      expect(refusal).toMatchObject({ status: 429, type: 'requests', code: 'rate_limit_exceeded', param: null })
      expect(refusal.message).toBe(
        'Rate limit reached for key `ann` on requests per min (RPM): Limit 2, Used 2, Requested 1. Please try again in 50s. Send requests more slowly, or ask your administrator for a larger limit.',
      )
      expect(headersFrom(refusal, RATE, ...RETRY)).toEqual({
        'retry-after': '50',
        'retry-after-ms': '50000',
        'x-ratelimit-limit-requests': '2',
        'x-ratelimit-remaining-requests': '0',
        'x-ratelimit-reset-requests': '1m0s',
      })
    }
    expect([await app.count(), near.requests.length]).toEqual([rows, calls])
    expect((await ask(app.key({ rpm: 2 }))).status).toBe(200)
    app.pass(49_999)
    expect((await toRefusal(await ask(key))).headers.get('retry-after-ms')).toBe('1')
    app.pass(1)
    expect((await ask(key)).status).toBe(200)
    expect((await toRefusal(await ask(key))).headers.get('retry-after')).toBe('10')
  })

  test('tokens are reserved with the maximum output, and corrected after the response', async () => {
    const { app, near, ask } = bench
    const key = app.key({ name: 'ann', tpm: 600 })
    const gate = createGate()
    const body = { max_tokens: 500 }
    near.script(gate.held(billing(20, 30)))
    const first = ask(key, body)
    await near.waitFor((seen) => seen.at(-1)?.answeredAtMs === null, 'the call')
    const refusal = await toRefusal(await ask(key, body))
    expect(refusal).toMatchObject({ status: 429, type: 'tokens', code: 'rate_limit_exceeded' })
    expect(refusal.message).toContain(
      'on tokens per min (TPM): Limit 600, Used 511, Requested 511. Please try again in 1m0s.',
    )
    expect(headersFrom(refusal, RATE)).toEqual({
      'x-ratelimit-limit-tokens': '600',
      'x-ratelimit-remaining-tokens': '89',
      'x-ratelimit-reset-tokens': '1m0s',
    })
    gate.free()
    await (await first).text()
    near.script(errorAnswer(500))
    // 50 are used; failures use none.
    for (let again = 0; again < 2; again++) {
      expect((await ask(key, body)).headers.get('x-ratelimit-remaining-tokens')).toBe(String(600 - 50 - 511))
    }
    near.script(obliging)
  })

  test('a request larger than its limit gets an error that says not to retry', async () => {
    const { app, ask } = bench
    const key = app.key({ tpm: 100, rpm: 1 })
    const refusal = await toRefusal(await ask(key, { max_tokens: 90 }))
    expect(refusal.message).toStartWith('Request too large')
    expect(headersFrom(refusal, ...RETRY)).toEqual({ 'x-should-retry': 'false' })
    expect((await ask(key, { max_tokens: 89 })).status).toBe(200)
  })

  const answers: [string, Behaviour, object, number][] = [
    ['a whole answer', wholeAnswer(), {}, 200],
    ['a stream', streamAnswer(), { stream: true }, 200],
    ['a refusal of the upstream', errorAnswer(400), {}, 400],
    ['a failed stream', errorAnswer(500), { stream: true }, 502],
  ]
  test.each(answers)('%s has the current rates', async (_, script, body, status) => {
    const { app, near, ask } = bench
    near.script(script)
    const key = app.key({ rpm: 5, tpm: 1_000 })
    const response = await ask(key, { max_tokens: 100, ...body })
    expect(response.status).toBe(status)
    expect(headersFrom(response, RATE, ...RETRY)).toEqual({
      'x-ratelimit-limit-requests': '5',
      'x-ratelimit-remaining-requests': '4',
      'x-ratelimit-reset-requests': '1m0s',
      'x-ratelimit-limit-tokens': '1000',
      'x-ratelimit-remaining-tokens': String(1_000 - HELLO_TOKENS - 100),
      'x-ratelimit-reset-tokens': '1m0s',
    })
    await response.text()
    near.script(obliging)
  })

  test('a request counts once its body is read, whatever its result, and every response says so', async () => {
    const { app, ask } = bench
    const key = app.key({ rpm: 4, tpm: 200 })
    const post = (body: string, type = 'application/json') =>
      fetch(`${app.baseUrl}/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': type },
        body,
      })
    const heard = async (asked: Promise<Response>) => {
      const { status, headers } = await asked
      return [status, headers.get('x-ratelimit-remaining-requests'), headers.get('x-ratelimit-remaining-tokens')]
    }
    // Bodies that need no reading may be retried unchanged.
    expect(await heard(post('hello', 'text/plain'))).toEqual([400, '4', '200'])
    expect(await heard(post(' '.repeat(33 * 1024 ** 2)))).toEqual([413, '4', '200'])
    expect(await heard(ask(key, { max_tokens: 500 }))).toEqual([429, '4', '200'])
    expect(await heard(post('{"model":'))).toEqual([400, '3', '200'])
    expect(await heard(ask(key, { messages: [] }))).toEqual([400, '2', '200'])
    expect(await heard(ask(key, { model: 'acme/none' }))).toEqual([404, '1', '200'])
    expect(await heard(ask(key, { tools: [{ type: 'function', function: { name: 'f' } }] }))).toEqual([400, '0', '200'])
    const refusal = await toRefusal(await ask(key))
    expect(refusal).toMatchObject({ status: 429, type: 'requests' })
    expect(refusal.headers.get('retry-after')).toBe('60')
  })

  test('a key without rates gets no rate headers', async () => {
    const { app, ask } = bench
    expect(headersFrom(await ask(app.key({ concurrency: 1 })), RATE)).toEqual({})
  })
})

interface Ending {
  name: string
  stream: boolean
  script: (held: ReturnType<typeof createGate>['held']) => Behaviour
  /** The text the client waits for before it leaves; null = only for its request to arrive. */
  leaves?: { after: string | null }
}

const words = [...streamAnswer({ tokens: ['one ', 'two '], finish: null, usage: null }).steps]
const ENDINGS: Ending[] = [
  { name: 'a whole answer', stream: false, script: (held) => held(wholeAnswer()) },
  { name: 'a stream', stream: true, script: (held) => held(streamAnswer()) },
  { name: 'a refusal of the upstream', stream: false, script: (held) => held(errorAnswer(400)) },
  { name: 'a failure of the upstream', stream: true, script: (held) => held(errorAnswer(500)) },
  {
    name: 'nothing that could be read',
    stream: false,
    script: (held) => held({ kind: 'whole', body: { choices: [] } }),
  },
  {
    name: 'a stream that breaks',
    stream: true,
    script: (held) => held({ kind: 'stream', steps: words, end: 'reset' }),
  },
  { name: 'a client that leaves', stream: false, script: () => ({ kind: 'silent' }), leaves: { after: null } },
  { name: 'a client that leaves a stream', stream: true, script: () => ({ kind: 'silent' }), leaves: { after: null } },
  {
    name: 'a client that leaves before the first word',
    stream: true,
    script: () => ({ kind: 'stream', steps: [toDelta({ role: 'assistant', content: '' })], end: 'hang' }),
    leaves: { after: null },
  },
  {
    name: 'a client that leaves in the middle',
    stream: true,
    script: () => ({ kind: 'stream', steps: words, end: 'hang' }),
    leaves: { after: 'two ' },
  },
]

async function readUntil(response: Response, text: string): Promise<void> {
  let read = ''
  const reader = response.body?.getReader()
  while (!read.includes(text)) read += new TextDecoder().decode((await reader?.read())?.value)
}

describe.each(['key', 'upstream'] as const)('the one slot of a %s', (whose) => {
  let bench: Bench
  beforeAll(async () => {
    bench = await startBench({ tight: 'concurrency: 1' })
  })
  afterAll(() => bench.stop())

  test.each(ENDINGS)('is free again after $name', async ({ stream, script, leaves }) => {
    const { app, near, ask } = bench
    const isKey = whose === 'key'
    const key = app.key(isKey ? { name: 'ann', concurrency: 1 } : {})
    const model = isKey ? 'acme/large' : 'acme/tight'
    const [rows, calls] = [await app.count(), near.requests.length]
    const gate = createGate()
    near.script(script(gate.held))
    const leaving = new AbortController()
    const first = ask(key, { model, stream }, leaving.signal)
    await near.waitFor((seen) => seen.length === calls + 1, 'the call')
    near.script(obliging)

    const refusal = await toRefusal(await ask(key, { model }))
    const code = isKey ? 'rate_limit_exceeded' : 'upstream_rate_limited'
    expect(refusal).toMatchObject({ status: 429, type: 'requests', code })
    expect(refusal.message).toContain('Limit 1, Used 1, Requested 1')
    expect(refusal.headers.get('retry-after')).toBe('1')
    expect(near.requests.length).toBe(calls + 1)
    // Another key has its own slot; the upstream has one for all.
    expect((await ask(app.key({ concurrency: 1 }), { model })).status).toBe(isKey ? 200 : 429)

    if (leaves) {
      if (leaves.after !== null) await readUntil(await first, leaves.after)
      leaving.abort()
      await first.then((response) => response.text()).catch(() => {})
      await app.settled(rows + (isKey ? 2 : 3))
    } else {
      gate.free()
      await (await first).text().catch(() => {})
    }
    expect((await ask(key, { model })).status).toBe(200)
  })
})

describe('an upstream at its limit', () => {
  const limits: [string, string, string][] = [
    ['rpm: 2', 'requests per min (RPM)', 'Limit 2, Used 2, Requested 1; retry in 1m0s'],
    ['tpm: 700', 'tokens per min (TPM)', 'Limit 700, Used 400, Requested 411; retry in 1m0s'],
  ]
  test.each(limits)(
    "%s isn't called: another is, and if there is none, the error says so",
    async (tight, on, figures) => {
      const bench = await startBench({ tight })
      const { app, near, far, ask, stop } = bench
      const key = app.key()
      near.script(billing(100, 100))
      const body = { model: 'acme/spare', max_tokens: 400 }
      for (let call = 0; call < 2; call++) {
        expect((await ask(key, body)).headers.get('x-tollgate-upstream')).toBe('tight')
      }
      const spared = await ask(key, body)
      expect(spared.status).toBe(200)
      expect(headersFrom(spared, 'x-tollgate-')).toEqual({
        'x-tollgate-upstream': 'far',
        'x-tollgate-attempts': '1',
        'x-tollgate-passthrough': 'false',
      })
      await spared.text()
      expect([near.requests.length, far.requests.length]).toEqual([2, 1])

      const refusal = await toRefusal(await ask(key, { ...body, model: 'acme/tight' }))
      expect(refusal).toMatchObject({ status: 429, type: 'requests', code: 'upstream_rate_limited', param: null })
      expect(refusal.message).toBe(
        `Upstream \`tight\` is rate limited: the Tollgate catalog, not the provider, limits ${on} of upstream \`tight\`: ${figures}`,
      )
      expect(refusal.headers.get('retry-after')).toBe('60')
      expect(near.requests.length).toBe(2)
      expect(rowOf(bench, spared)).toMatchObject({ status: 'ok', upstream: 'far', attempts: 1 })
      expect(rowOf(bench, refusal)).toMatchObject({
        status: 'failed',
        upstream: 'tight',
        http_status: 429,
        error_code: 'upstream_rate_limited',
        prompt_tokens: 0,
        completion_tokens: 0,
        cost_nano_usd: 0,
      })
      app.pass(60_000)
      expect((await ask(key, body)).headers.get('x-tollgate-upstream')).toBe('tight')
      await stop()
    },
  )

  test('of concurrency gives way to the next while at its limit, for streams, too', async () => {
    const { app, near, far, ask, stop } = await startBench({ tight: 'concurrency: 1' })
    const key = app.key()
    const gate = createGate()
    near.script(gate.held(streamAnswer()))
    const first = ask(key, { model: 'acme/spare', stream: true })
    await near.waitFor((seen) => seen.length === 1, 'the call')
    const second = await ask(key, { model: 'acme/spare' })
    expect(second.headers.get('x-tollgate-upstream')).toBe('far')
    gate.free()
    await (await first).text()
    near.script(obliging)
    const third = await ask(key, { model: 'acme/spare' })
    expect(third.headers.get('x-tollgate-upstream')).toBe('tight')
    expect(far.requests.length).toBe(1)
    await stop()
  })

  test('ends a request that has already paid for a call, if there is no capacity elsewhere', async () => {
    const { app, near, far, ask, stop } = await startBench({ tight: 'rpm: 2, n: false' })
    near.script(billing(HELLO_TOKENS, 500))
    const body = { model: 'acme/spare', max_tokens: 500 }
    await ask(app.key(), body)
    // The first choice takes the minute's last call; both on the expensive route use the whole budget.
    const most = 10 * costOf(HELLO_TOKENS, 2 * 500)
    const key = app.key({ budget: { nanoUsd: most, period: 'total' } })
    const refusal = await toRefusal(await ask(key, { ...body, n: 2 }))
    expect(refusal).toMatchObject({ status: 429, code: 'insufficient_quota' })
    expect([near.requests.length, far.requests.length]).toEqual([2, 0])
    expect(rowOf({ app } as Bench, refusal)).toMatchObject({
      status: 'failed',
      cost_nano_usd: costOf(HELLO_TOKENS, 500),
    })
    await stop()
  })

  test("doesn't use up a breaker's probe", async () => {
    const { app, near, ask, stop } = await startBench({ tight: 'rpm: 5' })
    const key = app.key()
    near.script(errorAnswer(500))
    for (let call = 0; call < 5; call++) expect((await ask(key, { model: 'acme/tight' })).status).toBe(502)
    near.script(obliging)
    app.pass(10_000)
    for (let again = 0; again < 3; again++) {
      expect((await toRefusal(await ask(key, { model: 'acme/tight' }))).code).toBe('upstream_rate_limited')
    }
    app.pass(50_000)
    expect((await ask(key, { model: 'acme/tight' })).status).toBe(200)
    await stop()
  })

  test('counts every call of a request for several choices', async () => {
    const { app, near, ask, stop } = await startBench({ tight: 'rpm: 3, n: false' })
    const key = app.key()
    expect((await ask(key, { model: 'acme/tight', n: 3 })).status).toBe(200)
    expect((await toRefusal(await ask(key, { model: 'acme/tight' }))).message).toContain('Limit 3, Used 3')
    // More choices than calls per minute can never all be made, so none is.
    app.pass(60_000)
    expect(await toRefusal(await ask(key, { model: 'acme/tight', n: 4 }))).toMatchObject({ status: 400, param: 'n' })
    expect(near.requests.length).toBe(3)
    await stop()
  })
})
