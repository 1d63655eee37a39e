/** Bursts on a budget: any prompts end within one call of the budget, and ordinary text still uses most of it. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { startApp, type TestApp } from '../support/app.ts'
import { obliging, type ScriptedUpstream, startUpstream } from '../support/upstream.ts'
import { billing, createGate } from './limiting.ts'

// Counting is slow under load.
setDefaultTimeout(60_000)

const FACTS = 'context_length: 1000000, max_output_length: 100, input_modalities: [text], output_modalities: [text]'
const PRICE = 'pricing: [{ prompt: "0.000001", completion: "0.000002" }]'

let upstream: ScriptedUpstream
let app: TestApp
beforeAll(async () => {
  upstream = await startUpstream()
  const model = (name: string) =>
    `{ name: A, ${FACTS}, supported_features: [], ${PRICE}, routes: [{ upstream: one, model: ${name} }] }`
  app = await startApp({
    catalog: `
version: 1
upstreams:
  one: { dialect: openai, base_url: "${upstream.url}" }
models:
  acme/known: ${model('gpt-5-mini')}
  acme/other: ${model('large-v1')}
  acme/mini: ${model('gpt-4o-mini').replace('[text]', '[text, image]')}
`,
  })
})
afterAll(async () => {
  await upstream.stop()
  await app.stop()
})

const CROWD = 40
const BYTES = 12_000
const CAP = 10
/** In nano-dollars. */
const costOf = (promptTokens: number) => promptTokens * 1_000 + CAP * 2_000

const ask = async (key: string, model: string, content: unknown): Promise<number> => {
  const response = await fetch(`${app.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, max_tokens: CAP, messages: [{ role: 'user', content }] }),
  })
  await response.text()
  return response.status
}

/** Sends the crowd's requests at once; returns nano-dollars billed by the upstream. */
async function burst(model: string, content: unknown, promptTokens: number, budgetNanoUsd: number, crowd = CROWD) {
  const key = app.key({ budget: { nanoUsd: budgetNanoUsd, period: 'total' } })
  const gate = createGate()
  const before = upstream.requests.length
  upstream.script(gate.held(billing(promptTokens, CAP)))
  let refused = 0
  const all = Array.from({ length: crowd }, async () => {
    const status = await ask(key, model, content)
    if (status !== 200) refused++
    return status
  })
  while (refused + upstream.requests.length - before < crowd) await Bun.sleep(2)
  gate.free()
  const served = (await Promise.all(all)).filter((status) => status === 200).length
  expect(served).toBe(upstream.requests.length - before)
  upstream.script(obliging)
  return served * costOf(promptTokens)
}

const characters = (count: number, of: (index: number) => number) =>
  Array.from({ length: count }, (_, index) => String.fromCodePoint(of(index))).join('')
/** Reproducible, and without a pattern that a vocabulary could have. */
const noise = (index: number, below: number) => Number(Bun.hash.xxHash32(String(index)) % below)

const RARE: [string, string][] = [
  ['characters that no vocabulary has', characters(BYTES / 4, (at) => 0x20000 + noise(at, 40_000))],
  ['emoji', characters(BYTES / 4, (at) => 0x1f300 + noise(at, 0x400))],
  ['random bytes', characters(BYTES, (at) => 1 + noise(at, 0x7e))],
  ['blanks, which one vocabulary has by the hundred', ' '.repeat(BYTES)],
]

describe('a burst of requests charged per byte', () => {
  test.each(RARE)('of %s ends within one call of the budget', async (_, content) => {
    const call = costOf(Buffer.byteLength(content) + 8)
    const budget = Math.round(10.5 * call)
    const spent = await burst('acme/other', content, Buffer.byteLength(content) + 8, budget)
    expect(spent).toBeLessThanOrEqual(budget + call)
    expect(spent).toBeGreaterThan(budget - 2 * call)
  })
})

test('a burst of images ends within one call of the budget, even on a model that counts them 33 times', async () => {
  const content = [{ type: 'image_url', image_url: { url: 'https://a.example/a.png' } }]
  const tokens = 2_833 + 6 * 5_667
  const call = costOf(tokens)
  expect(await burst('acme/mini', content, tokens, 3 * call)).toBeLessThanOrEqual(4 * call)
})

const ORDINARY = 'The brown fox runs over the field, and then it is gone; nobody knows where it went. '.repeat(
  BYTES / 84,
)
/** With any of OpenAI's tokenizers. */
const ORDINARY_TOKENS = 2_848

describe('a burst of ordinary requests', () => {
  test.each([
    ['acme/known', 0.9],
    ['acme/other', 0.6],
  ])('to %s uses at least %d of the budget at once', async (model, part) => {
    const budget = 20 * costOf(ORDINARY_TOKENS)
    const spent = await burst(model, ORDINARY, ORDINARY_TOKENS, budget)
    expect(spent).toBeLessThanOrEqual(budget)
    expect(spent).toBeGreaterThanOrEqual(part * budget)
  })

  test('of one or two that fit has no rejections', async () => {
    const fits = Math.round(1.02 * costOf(ORDINARY_TOKENS))
    for (const model of ['acme/known', 'acme/other'])
      expect(await burst(model, ORDINARY, ORDINARY_TOKENS, fits, 1)).toBe(costOf(ORDINARY_TOKENS))
    expect(await burst('acme/known', ORDINARY, ORDINARY_TOKENS, 2 * fits, 2)).toBe(2 * costOf(ORDINARY_TOKENS))
  })
})

test('a spent budget rejects without counting', async () => {
  const key = app.key({ budget: { nanoUsd: costOf(100), period: 'total' } })
  upstream.script(billing(100, CAP))
  expect(await ask(key, 'acme/other', 'Hello')).toBe(200)
  expect(await ask(key, 'acme/other', ORDINARY)).toBe(429)
  upstream.script(obliging)
})
