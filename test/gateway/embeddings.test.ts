/** `POST /v1/embeddings` on upstreams of each format: requests, answers, cost and refusals. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { CREDENTIAL } from '../support/app.ts'
import { fromBase64, geminiEmbeddings, openAiEmbeddings, vectorOf } from '../support/embedding-answers.ts'
import { NANO_USD_PER_TOKEN, startEmbeddings } from '../support/embedding-gateway.ts'
import { forAllTests } from '../support/lifetime.ts'
import { errorAnswer, type Whole } from '../support/upstream-answers.ts'

const gateway = forAllTests(startEmbeddings)
beforeEach(() => {
  gateway.openai.script(openAiEmbeddings())
  gateway.google.script(geminiEmbeddings)
})

// biome-ignore lint/suspicious/noExplicitAny: for a test to look into
const read = (response: Response): Promise<any> => response.json()

const sent = () => gateway.openai.requests.at(-1)
const lastRow = () => gateway.app.rows().at(-1)

async function embed(body: Record<string, unknown>) {
  const response = await gateway.post({ model: 'acme/embed', ...body })
  const json = await read(response)
  if (response.status !== 200) throw new Error(JSON.stringify(json))
  return { response, json, vectors: json.data.map(({ embedding }: { embedding: unknown }) => embedding) }
}

async function refused(body: Record<string, unknown>, path?: string) {
  const response = await gateway.post(body, path ? { path } : {})
  return { status: response.status, ...(await read(response)).error }
}

test("a text becomes a vector, charged by the upstream's count", async () => {
  const { response, json } = await embed({ input: 'Hello', user: 'u-1', dimensions: 3, made_up: 1, api_base: 'x' })
  expect(json).toEqual({
    object: 'list',
    data: [{ object: 'embedding', index: 0, embedding: vectorOf('Hello', 3) }],
    model: 'acme/embed',
    usage: { prompt_tokens: 5, total_tokens: 5, cost_nano_usd: 100, cost: 1e-7 },
  })
  expect(sent()).toMatchObject({ method: 'POST', path: '/v1/embeddings' })
  expect(sent()?.headers).toMatchObject({ authorization: `Bearer ${CREDENTIAL}` })
  expect(sent()?.json).toEqual({
    ...{ model: 'embed-v1', input: ['Hello'], encoding_format: 'float', dimensions: 3 },
    ...{ user: 'u-1', made_up: 1 },
  })
  const row = lastRow()
  expect(Object.fromEntries(response.headers)).toMatchObject({
    'x-request-id': `req_${row?.id}`,
    'x-tollgate-upstream': 'paid',
    'x-tollgate-attempts': '1',
    'x-tollgate-passthrough': 'false',
  })
  expect(row).toMatchObject({
    ...{ endpoint: 'embeddings', model: 'acme/embed', status: 'ok', http_status: 200, stream: 0, user: 'u-1' },
    ...{ prompt_tokens: 5, completion_tokens: 0, estimated: 0, cost_nano_usd: 5 * NANO_USD_PER_TOKEN },
    ...{ reserved_completion_tokens: 0 },
  })
})

const KINDS: [string, unknown, unknown[]][] = [
  ['several texts', ['a', 'b'], ['a', 'b']],
  ['the numbers of a text', [1, 2], [[1, 2]]],
  ['those of several', [[1, 2], [3]], [[1, 2], [3]]],
]
test.each(KINDS)('%s go to the upstream unchanged', async (_, input, inputs) => {
  const { vectors } = await embed({ input })
  expect(sent()?.json?.input).toEqual(inputs)
  expect(vectors).toEqual(inputs.map((each) => vectorOf(each)))
})

const WAYS = ['float', 'base64'] as const
test.each(WAYS.flatMap((asked) => WAYS.map((given) => [asked, given] as const)))(
  'a client that requests %s gets it from an upstream that returns %s, to the last bit',
  async (asked, given) => {
    gateway.openai.script(openAiEmbeddings({ always: given }))
    const { vectors } = await embed({ input: ['a', 'b'], encoding_format: asked })
    const read = asked === 'base64' ? vectors.map(fromBase64) : vectors
    expect(read).toEqual([vectorOf('a'), vectorOf('b')])
  },
)

test('vectors are matched by index, in any order', async () => {
  const [a, b] = [vectorOf('a'), vectorOf('b')]
  gateway.openai.script(() =>
    answer([
      { index: 1, embedding: b },
      { index: 0, embedding: a },
    ]),
  )
  expect((await embed({ input: ['a', 'b'] })).vectors).toEqual([a, b])
})

test('numbers keep all their digits', async () => {
  const embedding = [0.0023064255, -1.123456789012345, 1e-9]
  gateway.openai.script(() => answer([{ index: 0, embedding }]))
  expect((await embed({ input: 'a' })).vectors).toEqual([embedding])
})

const answer = (data: unknown, usage: unknown = { prompt_tokens: 1, total_tokens: 1 }): Whole => ({
  kind: 'whole',
  body: { object: 'list', data, model: 'm', usage },
})

test('an upstream that returns other vectors than requested has failed, and nothing is charged', async () => {
  gateway.openai.script(() => answer([{ index: 0, embedding: vectorOf('a') }]))
  for (const body of [{ input: ['a', 'b'] }, { input: 'a', dimensions: 3 }]) {
    expect(await refused({ model: 'acme/embed', ...body })).toMatchObject({ status: 502, code: 'upstream_failed' })
    expect(lastRow()).toMatchObject({ status: 'failed', cost_nano_usd: 0 })
  }
})

test("if an upstream doesn't count, we count each text separately, and mark the result", async () => {
  gateway.openai.script(() => answer([{ index: 0, embedding: [1] }], null))
  expect((await embed({ input: 'Hello there!' })).json.usage).toMatchObject({ prompt_tokens: 3, total_tokens: 3 })
  expect(lastRow()).toMatchObject({ estimated: 1, cost_nano_usd: 3 * NANO_USD_PER_TOKEN })
  await embed({ input: [1, 2, 3, 4] })
  expect(lastRow()).toMatchObject({ estimated: 1, prompt_tokens: 4 })
})

describe('Gemini', () => {
  test('gets all texts in one batch, and its tokens are counted here', async () => {
    const { json } = await embed({ model: 'google/embed', input: ['Hello there!', 'b'], dimensions: 3 })
    const { path, json: body } = gateway.google.requests.at(-1) ?? {}
    expect(path).toBe('/v1beta/models/embed-g:batchEmbedContents')
    const more = { model: 'models/embed-g', outputDimensionality: 3 }
    expect(body).toEqual({
      requests: ['Hello there!', 'b'].map((text) => ({ ...more, content: { parts: [{ text }] } })),
    })
    expect(json.data.map(({ embedding }: { embedding: number[] }) => embedding)).toEqual([
      vectorOf('Hello there!', 3),
      vectorOf('b', 3),
    ])
    expect(json.usage).toMatchObject({ prompt_tokens: 4, cost_nano_usd: 4 * NANO_USD_PER_TOKEN })
    expect(lastRow()).toMatchObject({ estimated: 1 })
  })

  test('on Vertex gets one text per call, and reports the tokens of each', async () => {
    const { json, vectors } = await embed({ model: 'vertex/embed', input: ['a', 'b'], encoding_format: 'base64' })
    const [first] = gateway.google.requests.slice(-2)
    expect(first?.path).toBe('/v1/projects/p/locations/global/publishers/google/models/embed-v:predict')
    expect(first?.json).toEqual({ instances: [{ content: 'a' }], parameters: { autoTruncate: false } })
    expect(vectors.map(fromBase64)).toEqual([vectorOf('a'), vectorOf('b')])
    expect(json.usage).toMatchObject({ prompt_tokens: 14, cost_nano_usd: 14 * NANO_USD_PER_TOKEN })
    expect(lastRow()).toMatchObject({ estimated: 0, attempts: 2 })
  })

  test("doesn't support token numbers, so an upstream that does is called instead", async () => {
    expect(await refused({ model: 'google/embed', input: [1, 2] })).toMatchObject({
      ...{ status: 400, code: 'unsupported_parameter', param: 'input' },
    })
    const { response } = await embed({ model: 'acme/both', input: [1, 2] })
    expect(response.headers.get('x-tollgate-upstream')).toBe('paid')
  })
})

test('if one target fails, the next is called', async () => {
  gateway.google.script(() => errorAnswer(500))
  const { response } = await embed({ model: 'acme/both', input: 'a' })
  expect(response.headers.get('x-tollgate-upstream')).toBe('paid')
  expect(lastRow()).toMatchObject({ attempts: 2, cost_nano_usd: 100 })
})

describe('it is rejected', () => {
  const long = 'word '.repeat(200)
  const rows: [string, Record<string, unknown>, Record<string, unknown>][] = [
    ['a model that chats', { model: 'demo/chat', input: 'a' }, { code: 'unsupported_endpoint', param: 'model' }],
    [
      'one that nobody can ask',
      { model: 'claude/embed', input: 'a' },
      { code: 'unsupported_endpoint', param: 'model' },
    ],
    ['an unknown one', { model: 'acme/none', input: 'a' }, { status: 404, code: 'model_not_found', param: 'model' }],
    ['a text that is too long', { input: long }, { code: 'context_length_exceeded', param: 'input' }],
    ['one among others', { input: ['a', long] }, { code: 'context_length_exceeded', param: 'input[1]' }],
    ['too many tokens', { input: [Array(101).fill(1)] }, { code: 'context_length_exceeded', param: 'input' }],
    [
      'a field that names what is stored',
      { input: 'a', file_id: 'f' },
      { code: 'unsupported_parameter', param: 'file_id' },
    ],
  ]
  test.each(rows)('%s', async (_, body, expected) => {
    const before = gateway.openai.requests.length
    expect(await refused({ model: 'acme/embed', ...body })).toMatchObject({ status: 400, ...expected })
    expect(gateway.openai.requests.length).toBe(before)
  })

  test('a chat with an embedding model, with the name of the right endpoint', async () => {
    const messages = [{ role: 'user', content: 'Hi' }]
    for (const path of ['/chat/completions', '/messages'])
      expect((await gateway.post({ model: 'acme/embed', messages, max_tokens: 5 }, { path })).status).toBe(400)
    expect(await refused({ model: 'acme/embed', messages }, '/chat/completions')).toMatchObject({
      message: 'The model `acme/embed` supports only embeddings. Use /v1/embeddings, or another model.',
      param: 'model',
    })
  })
})

test('a key pays for them from its budget, and its token rate limits them', async () => {
  const poor = gateway.app.key({ budget: { nanoUsd: 110, period: 'total' } })
  const ask = (key: string, input = 'Hello') => gateway.post({ model: 'acme/embed', input }, { key })
  expect((await ask(poor)).status).toBe(200)
  // One token was reserved and five were billed: 100 are spent, and the next may cost 20.
  const second = await ask(poor)
  expect([second.status, (await read(second)).error.code]).toEqual([429, 'insufficient_quota'])
  const slow = gateway.app.key({ tpm: 5 })
  const third = await ask(slow, 'word '.repeat(20))
  expect([third.status, (await read(third)).error.type]).toEqual([429, 'tokens'])
})
