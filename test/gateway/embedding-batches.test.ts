/** Embeddings with more inputs than an upstream accepts per call: split, joined, recorded, and billed. */
import { beforeEach, expect, test } from 'bun:test'
import { EmbeddingsRequest } from '../../src/domain/task.ts'
import { toBatches } from '../../src/gateway/input-batches.ts'
import { fromBase64, openAiEmbeddings, vectorOf } from '../support/embedding-answers.ts'
import { NANO_USD_PER_TOKEN, startEmbeddings } from '../support/embedding-gateway.ts'
import { forAllTests } from '../support/lifetime.ts'
import { toTarget } from '../support/snapshot.ts'
import type { Seen } from '../support/upstream.ts'
import { errorAnswer, wholeAnswer } from '../support/upstream-answers.ts'

const gateway = forAllTests(() => startEmbeddings(', embedding_inputs: 3, embedding_tokens: 40'))
beforeEach(() => {
  gateway.openai.script(openAiEmbeddings())
})

const inputsOf = ({ json }: Seen) => json?.input as string[]
const lastRow = () => gateway.app.rows().at(-1)
const ask = (body: Record<string, unknown>, key?: string) =>
  gateway.post({ model: 'acme/embed', ...body }, key === undefined ? {} : { key })
// biome-ignore lint/suspicious/noExplicitAny: for a test to look into
const read = (response: Response): Promise<any> => response.json()

const SEVEN = ['a', 'b', 'c', 'd', 'e', 'f', 'g']

test('a long list becomes several calls, and one response in input order', async () => {
  const before = gateway.openai.requests.length
  const response = await ask({ input: SEVEN, encoding_format: 'base64' })
  const { data, usage } = await read(response)
  expect(data.map(({ index }: { index: number }) => index)).toEqual([0, 1, 2, 3, 4, 5, 6])
  expect(data.map(({ embedding }: { embedding: string }) => fromBase64(embedding))).toEqual(
    SEVEN.map((input) => vectorOf(input)),
  )
  const asked = gateway.openai.requests.slice(before).map(inputsOf)
  expect(asked.sort()).toEqual([['a', 'b', 'c'], ['d', 'e', 'f'], ['g']])
  expect(usage).toMatchObject({ prompt_tokens: 35, total_tokens: 35, cost_nano_usd: 35 * NANO_USD_PER_TOKEN })
  expect(response.headers.get('x-tollgate-attempts')).toBe('3')
  const row = lastRow()
  expect(row).toMatchObject({ attempts: 3, prompt_tokens: 35, cost_nano_usd: 35 * NANO_USD_PER_TOKEN })
  // The first call: three bytes, and two special tokens per input.
  expect(row?.reserved_prompt_tokens).toBe(1 + 6)
})

test('long texts are split by their maximum tokens', async () => {
  const before = gateway.openai.requests.length
  expect((await ask({ input: ['x'.repeat(60), 'y'.repeat(30), 'z'] })).status).toBe(200)
  expect(
    gateway.openai.requests
      .slice(before)
      .map((seen) => inputsOf(seen).map((input) => input[0]))
      .sort(),
  ).toEqual([['x'], ['y', 'z']])
})

test('a failed call fails all, and finished ones are paid for', async () => {
  const answer = openAiEmbeddings()
  gateway.openai.script((seen) => {
    if (inputsOf(seen).includes('d')) return { ...errorAnswer(500), delayMs: 200 }
    return typeof answer === 'function' ? answer(seen) : answer
  })
  expect((await ask({ input: SEVEN })).status).toBe(502)
  expect(lastRow()).toMatchObject({ status: 'failed', cost_nano_usd: 20 * NANO_USD_PER_TOKEN })
})

test('calls with vectors of different lengths give no response', async () => {
  gateway.openai.script((seen) => {
    const data = inputsOf(seen).map((input, index) => ({ index, embedding: vectorOf(input, input === 'g' ? 3 : 4) }))
    return { ...wholeAnswer(), body: { data, usage: { prompt_tokens: 1, total_tokens: 1 } } }
  })
  const response = await ask({ input: SEVEN })
  expect([response.status, (await read(response)).error.message]).toEqual([
    502,
    'Upstream `paid` returned vectors of different lengths.',
  ])
})

test('a budget that covers the request covers all its calls', async () => {
  // At most seven bytes and fourteen marks.
  const key = gateway.app.key({ budget: { nanoUsd: 21 * NANO_USD_PER_TOKEN, period: 'total' } })
  gateway.openai.script(openAiEmbeddings({ tokensPerInput: 1 }))
  expect((await ask({ input: SEVEN }, key)).status).toBe(200)
})

test('a request that needs too many calls is rejected', async () => {
  const before = gateway.google.requests.length
  const response = await gateway.post({ model: 'vertex/embed', input: Array(257).fill('a') })
  expect([response.status, (await read(response)).error]).toMatchObject([400, { param: 'input' }])
  expect(gateway.google.requests.length).toBe(before)
})

test('no call has more vectors than can be read quickly, and fewer if they are decimals', () => {
  const toCount = (encoding: 'float' | 'base64', dimensions: number | null, count = 150) => {
    const inputs = Array.from({ length: count }, () => 'a')
    const body = new EmbeddingsRequest('m', inputs, dimensions, encoding, null, {})
    return toBatches(body, toTarget()).map((part) => (part instanceof EmbeddingsRequest ? part.inputs.length : 0))
  }
  expect(toCount('float', null)).toEqual([65, 65, 20])
  expect(toCount('float', 2_000)).toEqual([100, 50])
  expect(toCount('float', 256)).toEqual([150])
  expect(toCount('base64', null)).toEqual([150])
  expect(toCount('base64', null, 1_000)).toEqual([488, 488, 24])
})
