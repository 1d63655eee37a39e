/** `POST /v1/rerank`, `/v2/rerank`, and `/v1/moderations` on upstreams of each kind: requests, responses, cost, and rejections. */
import { describe, expect, test } from 'bun:test'
import { startApp } from '../support/app.ts'
import { forAllTests } from '../support/lifetime.ts'
import { type Seen, startUpstream } from '../support/upstream.ts'
import { errorAnswer, type Whole } from '../support/upstream-answers.ts'

const FACTS = 'context_length: 4096, input_modalities: [text]'
const RANKS = `${FACTS}, output_modalities: [rerank]`
const PER_TOKEN = 'pricing: [{ prompt: "0.00000002", completion: "0" }]'
const PER_UNIT = 'pricing: [{ prompt: "0", completion: "0", search_unit: "0.002" }]'
const FREE = 'pricing: [{ prompt: "0", completion: "0" }]'
const UNIT_NANO_USD = 2_000_000

const gateway = forAllTests(async () => {
  const [near, far] = await Promise.all([startUpstream(), startUpstream()])
  const app = await startApp({
    catalog: `
version: 1
upstreams:
  near: { dialect: openai, base_url: "${near.url}", api_key: \${UPSTREAM_KEY} }
  far: { dialect: openai, base_url: "${far.url}", api_key: \${UPSTREAM_KEY} }
  tei: { dialect: openai, base_url: "${near.url}", rerank: texts }
  few: { dialect: openai, base_url: "${near.url}", rerank: texts, embedding_inputs: 32, rpm: 3 }
  infra: { dialect: openai, base_url: "${near.url}", rerank: queries }
  claude: { dialect: anthropic, base_url: "${near.url}", api_key: \${UPSTREAM_KEY} }
  demo: { dialect: demo, local: true }
models:
  r/units: { name: U, ${RANKS}, ${PER_UNIT}, routes: [{ upstream: near, model: rank-1 }, { upstream: far, model: rank-2, priority: 1 }] }
  r/tokens: { name: T, ${RANKS}, ${PER_TOKEN}, routes: [{ upstream: near, model: rank-1 }] }
  r/tei: { name: T, ${RANKS}, ${PER_UNIT}, routes: [{ upstream: tei, model: rank-1 }] }
  r/few: { name: F, ${RANKS}, ${PER_UNIT}, routes: [{ upstream: few, model: rank-1 }] }
  r/infra: { name: T, ${RANKS}, ${PER_TOKEN}, routes: [{ upstream: infra, model: org/rank-1 }] }
  r/claude: { name: C, ${RANKS}, ${PER_TOKEN}, routes: [{ upstream: claude, model: none }] }
  r/omni: { name: M, ${FACTS}, output_modalities: [moderation], ${FREE}, routes: [{ upstream: near, model: omni }] }
  r/chat: { name: Demo, ${FACTS}, max_output_length: 50, output_modalities: [text], supported_features: [], routes: [{ upstream: demo, model: d }] }
aliases: { omni-moderation-latest: r/omni }
`,
  })
  const key = app.key()
  return {
    ...{ app, near, far },
    post: (path: string, body: unknown) =>
      fetch(new URL(path, app.baseUrl), {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      }),
    async stop() {
      await Promise.all([near.stop(), far.stop()])
      await app.stop()
    },
  }
})

const whole = (json: unknown): Whole => ({ kind: 'whole', body: json as object })
const DOCUMENTS = ['a first', 'a second', 'a third']
const SCORES = [0.25, 0.75, 0.5]
const lastRow = () => gateway.app.rows().at(-1)
const sent = () => gateway.near.requests.at(-1)

async function rank(model: string, answer: unknown, more: object = {}, path = '/v1/rerank') {
  gateway.near.script(whole(answer))
  const response = await gateway.post(path, { model: `r/${model}`, query: 'which?', documents: DOCUMENTS, ...more })
  // biome-ignore lint/suspicious/noExplicitAny: for a test to look into
  return { status: response.status, headers: response.headers, json: (await response.json()) as any }
}

const cohere = { id: 'x', results: SCORES.map((relevance_score, index) => ({ index, relevance_score })).reverse() }
const RANKED = [
  { index: 1, relevance_score: 0.75 },
  { index: 2, relevance_score: 0.5 },
  { index: 0, relevance_score: 0.25 },
]

describe('a ranking', () => {
  test.each([
    ['Cohere', 'units', { ...cohere, meta: { billed_units: { search_units: 3 } } }, 3 * UNIT_NANO_USD, 'upstream'],
    ['OpenRouter', 'units', { ...cohere, usage: { search_units: 2, total_tokens: 9 } }, 2 * UNIT_NANO_USD, 'upstream'],
    ['Jina', 'tokens', { ...cohere, usage: { total_tokens: 30 } }, 600, 'upstream'],
    ['Voyage', 'tokens', { object: 'list', data: cohere.results, usage: { total_tokens: 30 } }, 600, 'upstream'],
    ['llama.cpp', 'tokens', { ...cohere, usage: { prompt_tokens: 30, total_tokens: 30 } }, 600, 'upstream'],
    ['TEI', 'tei', SCORES.map((score, index) => ({ index, score })), UNIT_NANO_USD, 'text'],
    ['DeepInfra', 'infra', { scores: SCORES, input_tokens: 30 }, 600, 'upstream'],
  ])('of %s gives the same', async (_, model, answer, nanoUsd, countedBy) => {
    const { status, json } = await rank(model, answer)
    expect([status, json.results]).toEqual([200, RANKED])
    expect(json.usage.cost_nano_usd).toBe(nanoUsd)
    expect(lastRow()).toMatchObject({ endpoint: 'rerank', status: 'ok', cost_nano_usd: nanoUsd, counted_by: countedBy })
  })

  test('of more documents than TEI accepts takes several calls, or is rejected if they are too many', async () => {
    const before = gateway.near.requests.length
    const textsOf = ({ json }: Seen) => json?.texts as string[]
    gateway.near.script((seen) => whole(textsOf(seen).map((text, index) => ({ index, score: Number(text) % 70 }))))
    const ask = (count: number) => {
      const documents = Array.from({ length: count }, (_, at) => String(at + 35))
      return gateway.post('/v1/rerank', {
        model: 'r/few',
        query: 'which?',
        documents,
        top_n: 2,
        return_documents: true,
      })
    }
    expect(await (await ask(70)).json()).toMatchObject({
      results: [
        { index: 34, relevance_score: 69, document: { text: '69' } },
        { index: 33, relevance_score: 68 },
      ],
    })
    const asked = gateway.near.requests.slice(before).map((seen) => textsOf(seen).length)
    expect(asked.sort()).toEqual([32, 32, 6])
    expect(lastRow()).toMatchObject({ attempts: 3, cost_nano_usd: 3 * UNIT_NANO_USD })
    const refused = await ask(100)
    expect([refused.status, await refused.text()]).toEqual([400, expect.stringContaining('100 documents need 4 calls')])
  })

  test('requests all documents in the upstream’s format, and leaves out only unwanted ones', async () => {
    const more = {
      top_n: 2,
      return_documents: true,
      max_tokens_per_doc: 9,
      api_key: 'k',
      documents: [{ text: 'a' }, 'b', 'c'],
    }
    const { json } = await rank('units', cohere, more, '/v2/rerank')
    expect(json.results).toEqual([
      { index: 1, relevance_score: 0.75, document: { text: 'b' } },
      { index: 2, relevance_score: 0.5, document: { text: 'c' } },
    ])
    expect(sent()).toMatchObject({ path: '/v1/rerank' })
    expect(sent()?.json).toEqual({
      model: 'rank-1',
      query: 'which?',
      documents: ['a', 'b', 'c'],
      max_tokens_per_doc: 9,
    })
    await rank(
      'tei',
      SCORES.map((score, index) => ({ index, score })),
    )
    expect(sent()?.json).toEqual({ query: 'which?', texts: DOCUMENTS })
    await rank('infra', { scores: SCORES })
    expect(sent()).toMatchObject({ path: '/v1/org/rank-1', json: { queries: ['which?', 'which?', 'which?'] } })
  })

  test.each([
    ['101 documents are two search units', 101, 'short', 2],
    ['60 documents of over 500 tokens count twice', 60, 'word '.repeat(600), 2],
  ])('whose upstream reports no counts: %s', async (_, count, text, units) => {
    const answer = Array.from({ length: count }, (_, index) => ({ index, score: 1 }))
    const { json } = await rank('tei', answer, { documents: answer.map(() => text) })
    expect(json.usage).toMatchObject({ search_units: units, cost_nano_usd: units * UNIT_NANO_USD })
    expect(json.results.map(({ index }: { index: number }) => index)).toEqual(answer.map(({ index }) => index))
    expect(lastRow()).toMatchObject({ estimated: 1, search_units: units, counted_by: 'text' })
  })

  test('with a report of zero units, or no tokens although they have a price, is counted', async () => {
    const zero = await rank('units', { ...cohere, meta: { billed_units: { search_units: 0 } } })
    expect(zero.json.usage).toMatchObject({ search_units: 1, cost_nano_usd: UNIT_NANO_USD })
    const { json } = await rank('tokens', { ...cohere, meta: { billed_units: { search_units: 1 } } })
    expect(json.usage.prompt_tokens).toBeGreaterThanOrEqual(6)
    expect(lastRow()).toMatchObject({ estimated: 1, search_units: 1, cost_nano_usd: json.usage.prompt_tokens * 20 })
  })

  test.each([
    [
      'an index out of range',
      [
        { index: 3, score: 1 },
        { index: 0, score: 1 },
        { index: 1, score: 1 },
      ],
    ],
    [
      'a repeated index',
      [
        { index: 0, score: 1 },
        { index: 0, score: 1 },
        { index: 1, score: 1 },
      ],
    ],
    [
      'a score that is no number',
      [
        { index: 0, score: null },
        { index: 1, score: 1 },
        { index: 2, score: 1 },
      ],
    ],
    ['fewer results than documents', [{ index: 0, score: 1 }]],
  ])('with %s counts as broken, and another upstream is called', async (_, results) => {
    gateway.far.script(whole(cohere))
    const { json, headers } = await rank('units', { results })
    expect([json.results, headers.get('x-tollgate-upstream')]).toEqual([RANKED, 'far'])
  })
})

describe('a rerank request is rejected', () => {
  test.each([
    ['without documents', { documents: [] }, 'documents'],
    ['with too many documents', { documents: Array(10_001).fill('') }, 'documents'],
    ['with a document that has no text', { documents: [{ text: [[[[]]]] }] }, 'documents[0]'],
    ['without a query', { query: '' }, 'query'],
  ])('%s', async (_, more, param) => {
    const { status, json } = await rank('units', cohere, more)
    expect([status, json.message]).toEqual([400, json.error.message])
    expect(json.error.param).toContain(param)
  })

  test.each([
    [
      '/v1/rerank',
      'chat',
      "doesn't support reranking. Use /v1/chat/completions, or a model whose output_modalities include `rerank`.",
    ],
    ['/v1/chat/completions', 'units', 'supports only reranking. Use /v1/rerank, or another model.'],
    ['/v1/moderations', 'units', "doesn't support moderation. Use /v1/rerank, or a model"],
    [
      '/v1/rerank',
      'claude',
      "can't be called at /v1/rerank: upstream `claude` has no such endpoint. Use another model.",
    ],
  ])('at %s of the model %s, with the right endpoint', async (path, model, why) => {
    const response = await gateway.post(path, {
      ...{ model: `r/${model}`, query: 'q', documents: ['a'], input: 'a', messages: [{ role: 'user', content: 'Hi' }] },
    })
    const { error } = (await response.json()) as { error: { message: string } }
    expect([response.status, error.message]).toEqual([400, expect.stringContaining(why)])
  })
})

describe('a moderation', () => {
  const moderate = async (input: unknown, answer: unknown, more: object = {}) => {
    gateway.near.script(answer instanceof Response ? errorAnswer(500, 'x') : whole(answer))
    const response = await gateway.post('/v1/moderations', { input, ...more })
    // biome-ignore lint/suspicious/noExplicitAny: for a test to look into
    return { status: response.status, json: (await response.json()) as any }
  }

  test('of OpenAI passes, and is free', async () => {
    const result = {
      flagged: true,
      categories: { hate: false, violence: true },
      category_scores: { hate: 0.1, violence: 0.9 },
    }
    const applied = { category_applied_input_types: { hate: ['text'], violence: ['image'] } }
    const parts = [
      { type: 'text', text: 'a' },
      { type: 'image_url', image_url: { url: 'https://example.com/a.png' } },
    ]
    const { json } = await moderate(parts, { id: 'modr-1', model: 'omni', results: [{ ...result, ...applied }] })
    expect(json).toMatchObject({ id: `modr-${lastRow()?.id}`, model: 'r/omni', results: [{ ...result, ...applied }] })
    expect(sent()).toMatchObject({ path: '/v1/moderations', json: { model: 'omni', input: parts } })
    expect(lastRow()).toMatchObject({
      endpoint: 'moderations',
      status: 'ok',
      prompt_tokens: 0,
      estimated: 0,
      cost_nano_usd: 0,
    })
  })

  test('of Mistral is flagged if any category is', async () => {
    const of = (hate: boolean) => ({
      categories: { hate, pii: false },
      category_scores: { hate: 0.5, pii: Number.NaN },
    })
    const { json } = await moderate(['a', 'b'], { id: 'm', results: [of(true), of(false)] })
    expect(json.results.map(({ flagged }: { flagged: boolean }) => flagged)).toEqual([true, false])
    expect(json.results[0].category_scores).toEqual({ hate: 0.5 })
  })

  test('with fewer results than inputs is an error', async () => {
    const { status, json } = await moderate(['a', 'b'], { results: [{ categories: {} }] })
    expect([status, json.error.code]).toEqual([502, 'upstream_failed'])
  })
})
