/**
 * Cost of disconnected calls: upstreams are read on for their usage; otherwise Tollgate bills what it saw, or the time.
 */
import { beforeEach, describe, expect, test } from 'bun:test'
import { startApp } from '../support/app.ts'
import { costOf, HELLO, HELLO_COUNTED } from '../support/gateway.ts'
import { forAllTests } from '../support/lifetime.ts'
import { until } from '../support/until.ts'
import { type Script, type Seen, startUpstream } from '../support/upstream.ts'
import { errorAnswer, type StreamStep, streamAnswer, toDelta, wholeAnswer } from '../support/upstream-answers.ts'
import { createGate } from './limiting.ts'

let rows = 0
let calls = 0
const upstream = forAllTests(startUpstream)
const app = forAllTests(() =>
  startApp({ catalog: toCatalogue(upstream.url), config: { disconnectGraceMs: 60_000, retries: 2 } }),
)
beforeEach(async () => {
  rows = await app.count()
  calls = upstream.requests.length
})

/** Reasoning and plain models, with a long and a short disconnect grace. */
function toCatalogue(url: string): string {
  const facts = 'context_length: 100000, max_output_length: 30000, input_modalities: [text], output_modalities: [text]'
  const pricing = 'pricing: [{ prompt: "0.000001", completion: "0.000002" }]'
  const model = (name: string, features: string, upstream: string) =>
    `acme/${name}: { name: A, ${facts}, supported_features: [${features}], ${pricing}, routes: [{ upstream: ${upstream}, model: m }] }`
  return `
version: 1
upstreams:
  paid: { dialect: openai, base_url: "${url}" }
  brief: { dialect: openai, base_url: "${url}", disconnect_grace: 100ms }
  slow: { dialect: openai, base_url: "${url}", disconnect_grace: 100ms, max_tokens_per_second: 100 }
  single: { dialect: openai, base_url: "${url}", n: false }
  here: { dialect: openai, base_url: "${url}", local: true }
models:
  ${model('thinker', 'reasoning', 'paid')}
  ${model('unheard', 'reasoning', 'brief')}
  ${model('plain', '', 'brief')}
  ${model('slow', 'reasoning', 'slow')}
  ${model('single', '', 'single')}
  ${model('here', '', 'here')}
  acme/probe: { name: A, ${facts}, supported_features: [], ${pricing}, routes: [{ upstream: paid, model: probe }] }
`
}

/** Sends a request and returns how to hang up. */
function ask(body: Record<string, unknown>, key = app.key()) {
  const client = new AbortController()
  const response = fetch(`${app.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ ...HELLO, ...body }),
    signal: client.signal,
  })
  response.catch(() => {})
  return { response, leave: () => client.abort() }
}

async function leaveAfter(words: string, body: Record<string, unknown>, key?: string): Promise<void> {
  const { response, leave } = ask({ ...body, stream: true }, key)
  const reader = (await response).body?.getReader()
  let text = ''
  while (!text.includes(words)) text += new TextDecoder().decode((await reader?.read())?.value)
  leave()
}

/** Applies the script to everything but slot probes. */
const play = (script: Script) =>
  upstream.script((seen) => {
    if (seen.json?.model === 'probe') return wholeAnswer()
    return typeof script === 'function' ? script(seen) : script
  })

/** Waits until the gateway notices the disconnect of a key with one slot. */
const noticed = (key: string) =>
  until('the free slot', async () => (await ask({ model: 'acme/probe' }, key).response).status === 200)

const settled = async (count: number) => {
  await until('the rows', async () => rowsOf().length === count && rowsOf().every(({ status }) => status !== 'open'))
  return rowsOf()
}
const rowsOf = () =>
  app
    .rows()
    .slice(rows)
    .filter(({ model }) => model !== 'acme/probe')

const isUnderWay = ({ answeredAtMs, abortedAtMs }: Seen) => answeredAtMs === null && abortedAtMs === null
const callsOf = () => upstream.requests.slice(calls).filter(({ json }) => json?.model !== 'probe')
const called = (count: number) => upstream.waitFor(() => callsOf().length === count, `${count} calls`)
const letGo = () => upstream.waitFor(() => !callsOf().some(isUnderWay), 'the end of all calls')
const lastRow = async () => (await settled(1))[0]

const WORDS = ['one ', 'two ']
const words = [...streamAnswer({ tokens: WORDS, finish: null, usage: null }).steps]
const usage = { prompt_tokens: 50, completion_tokens: 20_003, completion_tokens_details: { reasoning_tokens: 20_000 } }
const last: StreamStep[] = [toDelta({}, 'stop'), { choices: [], usage }]

describe("a disconnected client's usage at the end of a response is read", () => {
  const exact = { estimated: 0, prompt_tokens: 50, completion_tokens: 20_003, cost_nano_usd: costOf(50, 20_003) }
  const gone = { status: 'cut', error_code: 'client_closed_request' }

  test('after the text, while its slot is free', async () => {
    const gate = Promise.withResolvers<void>()
    play({ kind: 'stream', steps: [...words, { until: gate.promise }, ...last] })
    const key = app.key({ concurrency: 1 })
    await leaveAfter('two ', { model: 'acme/thinker' }, key)
    await noticed(key)
    expect(rowsOf()).toMatchObject([{ status: 'open' }])
    gate.resolve()
    expect(await lastRow()).toMatchObject({ ...gone, ...exact, http_status: 200, stream: 1 })
  })

  test('within the text, whatever text follows', async () => {
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const more = gates.flatMap(({ promise }): StreamStep[] => [{ until: promise }, toDelta({ content: 'more ' })])
    play({ kind: 'stream', steps: [...words, ...more, ...last] })
    const key = app.key({ concurrency: 1 })
    await leaveAfter('two ', { model: 'acme/thinker' }, key)
    await noticed(key)
    for (const { resolve } of gates) {
      resolve()
      await Bun.sleep(20)
    }
    expect(await lastRow()).toMatchObject({ ...gone, ...exact })
  })

  test.each([true, false])('before the first token, stream: %p', async (stream) => {
    const { held, free } = createGate()
    play(held(stream ? { kind: 'stream', steps: [...words, ...last] } : wholeAnswer({ tokens: WORDS, usage })))
    const key = app.key({ concurrency: 1 })
    const { leave } = ask({ model: 'acme/thinker', stream }, key)
    await called(1)
    leave()
    await noticed(key)
    free()
    expect(await lastRow()).toMatchObject({ ...gone, ...exact, http_status: 499 })
  })

  test('and a client that retries pays for each attempt', async () => {
    const { held, free } = createGate()
    play(held(wholeAnswer({ usage })))
    const key = app.key({ concurrency: 1 })
    for (const attempt of [1, 2, 3]) {
      const { leave } = ask({ model: 'acme/thinker' }, key)
      await called(attempt)
      leave()
      await noticed(key)
    }
    free()
    expect(await settled(3)).toMatchObject([1, 2, 3].map(() => ({ ...gone, ...exact })))
  })

  test('for each call, if choices are separate calls', async () => {
    const gate = Promise.withResolvers<void>()
    play(() => ({ kind: 'stream', steps: [...words, { until: gate.promise }, ...last] }))
    const key = app.key({ concurrency: 1 })
    await leaveAfter('two ', { model: 'acme/single', n: 3 }, key)
    await noticed(key)
    gate.resolve()
    const sum = { prompt_tokens: 150, cost_nano_usd: 3 * costOf(50, 20_003) }
    expect(await lastRow()).toMatchObject({ ...gone, attempts: 3, estimated: 0, ...sum })
  })

  test.each([
    ['no retry', errorAnswer(500), {}, 1],
    ['no further choice', wholeAnswer({ usage }), { model: 'acme/single', n: 9 }, 8],
    ['no correction', wholeAnswer({ tokens: ['no JSON'] }), { response_format: { type: 'json_object' } }, 1],
  ])('and no further call is made for it: %s', async (_, answer, body, attempts) => {
    const { held, free } = createGate()
    play(held(answer))
    const key = app.key({ concurrency: 1 })
    const { leave } = ask({ model: 'acme/thinker', ...body }, key)
    await called(attempts)
    leave()
    await noticed(key)
    free()
    expect(await lastRow()).toMatchObject({ ...gone, attempts, http_status: 499 })
    expect(callsOf()).toHaveLength(attempts)
  })
})

describe("usage that isn't reported in time", () => {
  const SECONDS = 5
  const WHOLE: StreamStep[] = []
  test.each([
    ['of an answer that was seen is what was seen', 'plain', words, {}, 3],
    ['of a model that thinks unseen is what that time allows', 'unheard', words, {}, 400 * SECONDS],
    ['of such a model is within the cap that was sent', 'unheard', words, { max_tokens: 1_500 }, 1_500],
    ['of such a model on a slow upstream is less', 'slow', words, {}, 100 * SECONDS],
    [
      'of a model that thinks aloud is what was seen',
      'unheard',
      [toDelta({ reasoning_content: 'hm ' }), ...words],
      {},
      5,
    ],
    ['of a whole answer is what that time allows', 'plain', WHOLE, {}, 400 * SECONDS],
    ['of a whole answer is within its cap', 'plain', WHOLE, { max_completion_tokens: 7 }, 7],
    ['of several choices is as much of each', 'plain', WHOLE, { n: 2 }, 2 * 400 * SECONDS],
    ['though some was said in the middle, is the larger', 'unheard', [{ choices: [], usage }, ...words], {}, 20_003],
  ] as const)('%s', async (_, model, steps, more, completion) => {
    const body = { model: `acme/${model}`, ...more }
    if (steps === WHOLE) {
      play({ kind: 'silent' })
      const { leave } = ask(body)
      await called(1)
      app.pass(SECONDS * 1_000)
      leave()
    } else {
      const gate = Promise.withResolvers<void>()
      play({ kind: 'stream', steps: [{ until: gate.promise }, ...steps], end: 'hang' })
      const leaving = leaveAfter('two ', body)
      await called(1)
      app.pass(SECONDS * 1_000)
      gate.resolve()
      await leaving
    }
    await letGo()
    const row = await lastRow()
    expect(row).toMatchObject({ status: 'cut', estimated: 1, completion_tokens: completion })
    expect(row?.cost_nano_usd).toBe(costOf(row?.prompt_tokens ?? 0, completion))
    expect([HELLO_COUNTED, 50]).toContain(row?.prompt_tokens ?? 0)
  })
})

test('a local upstream is released at once', async () => {
  play({ kind: 'silent' })
  const { leave } = ask({ model: 'acme/here' })
  await called(1)
  leave()
  await letGo()
  expect(await lastRow()).toMatchObject({ status: 'cut', cost_nano_usd: expect.any(Number) })
})

test("of more than eight calls that a key's clients disconnected from, the oldest ends", async () => {
  const gate = Promise.withResolvers<void>()
  play(() => ({ kind: 'stream', steps: [...words, { until: gate.promise }, ...last] }))
  const key = app.key({ concurrency: 1 })
  for (let call = 1; call <= 9; call++) {
    await leaveAfter('two ', { model: 'acme/thinker' }, key)
    await noticed(key)
    if (call === 8) expect(callsOf().filter(isUnderWay)).toHaveLength(8)
  }
  await upstream.waitFor(() => callsOf()[0]?.abortedAtMs !== null, 'the end of the first')
  expect(callsOf().filter(isUnderWay)).toHaveLength(8)
  gate.resolve()
  expect((await settled(9)).map(({ estimated }) => estimated)).toEqual([1, ...Array(8).fill(0)])
})
