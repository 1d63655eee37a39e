/**
 * The official client and LangChain create embeddings through the built binary: with the built-in model, and with
 * upstreams of the OpenAI format and Google's. Clients are unmodified; costs are exact to the nano-dollar.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { OpenAIEmbeddings } from '@langchain/openai'
import OpenAI, { BadRequestError } from 'openai'
import { createWorkplace, type RunningBinary, type Workplace } from '../support/binary.ts'
import { geminiEmbeddings, openAiEmbeddings, vectorOf } from '../support/embedding-answers.ts'
import { type ScriptedUpstream, startUpstream } from '../support/upstream.ts'

const FACTS = 'context_length: 2048, input_modalities: [text], output_modalities: [embeddings]'
const PRICE = 'pricing: [{ prompt: "0.00000002", completion: "0" }]'
const toCatalogue = (openai: string, google: string) => `
version: 1
upstreams:
  paid: { dialect: openai, base_url: "${openai}", api_key: \${UPSTREAM_KEY}, embedding_inputs: 2 }
  google: { dialect: gemini, base_url: "${google}", api_key: \${UPSTREAM_KEY} }
  demo: { dialect: demo, local: true }
models:
  acme/embed: { name: Embed, ${FACTS}, ${PRICE}, routes: [{ upstream: paid, model: e }] }
  google/embed: { name: Google, ${FACTS}, ${PRICE}, routes: [{ upstream: google, model: e }] }
  tollgate/demo-embeddings: { name: Demo, ${FACTS}, routes: [{ upstream: demo, model: e }] }
  tollgate/demo: { name: Demo, context_length: 2048, max_output_length: 100, input_modalities: [text], output_modalities: [text], supported_features: [], routes: [{ upstream: demo, model: d }] }
`

let place: Workplace
let openai: ScriptedUpstream
let google: ScriptedUpstream
let server: RunningBinary
let client: OpenAI

beforeAll(async () => {
  place = createWorkplace()
  openai = await startUpstream(openAiEmbeddings())
  google = await startUpstream(geminiEmbeddings)
  const catalog = await place.write('catalog.yaml', toCatalogue(openai.url, `http://127.0.0.1:${google.port}/v1beta`))
  server = await place.serve(['--first-key', '--retries', '0', '--catalog', catalog], {
    environment: { UPSTREAM_KEY: 'x' },
  })
  client = new OpenAI({ baseURL: server.baseUrl, apiKey: String(server.key), maxRetries: 0 })
})
afterAll(async () => {
  await place.close()
  await Promise.all([openai.stop(), google.stop()])
})

const TEXTS = ['Hello there!', 'b', 'c']
/** Known facts of each model: its vectors, and the texts' cost in nano-dollars. */
const MODELS: [string, number][] = [
  ['acme/embed', 15 * 20],
  // Counted by Tollgate: three tokens, one, and one.
  ['google/embed', 5 * 20],
]

describe.each(MODELS)('%s', (model, costNanoUsd) => {
  const right = TEXTS.map((text) => vectorOf(text))

  test('gives the official client its vectors, which it requests in base64, and their cost', async () => {
    const answer = await client.embeddings.create({ model, input: TEXTS })
    expect(answer.data.map(({ embedding }) => embedding)).toEqual(right)
    expect(answer.data.map(({ index }) => index)).toEqual([0, 1, 2])
    expect(answer).toMatchObject({ object: 'list', model, usage: { cost_nano_usd: costNanoUsd } })
  })

  test('and as numbers, if it requests those', async () => {
    const answer = await client.embeddings.create({ model, input: TEXTS, encoding_format: 'float', dimensions: 3 })
    expect(answer.data.map(({ embedding }) => embedding)).toEqual(TEXTS.map((text) => vectorOf(text, 3)))
  })

  test('gives LangChain its vectors', async () => {
    const langchain = new OpenAIEmbeddings({
      ...{ model, apiKey: String(server.key), maxRetries: 0 },
      configuration: { baseURL: server.baseUrl },
    })
    expect(await langchain.embedDocuments(TEXTS)).toEqual(right)
    expect(await langchain.embedQuery('b')).toEqual(vectorOf('b'))
  })
})

test('token numbers, which LangChain sends from Python, go only to models with that vocabulary', async () => {
  const input = [[9906, 1070], [65]]
  const answer = await client.embeddings.create({ model: 'acme/embed', input })
  expect(answer.data.map(({ embedding }) => embedding)).toEqual(input.map((tokens) => vectorOf(tokens)))
  const refused = await client.embeddings.create({ model: 'google/embed', input }).catch((error) => error)
  expect(refused).toBeInstanceOf(BadRequestError)
  expect(refused).toMatchObject({ code: 'unsupported_parameter', param: 'input' })
})

test('the built-in model finds the most similar text', async () => {
  const documents = ['The cat sleeps on the mat.', 'Interest rates rose again.', 'Water boils at 100 degrees.']
  const langchain = new OpenAIEmbeddings({
    ...{ model: 'tollgate/demo-embeddings', apiKey: String(server.key) },
    configuration: { baseURL: server.baseUrl },
  })
  const vectors = await langchain.embedDocuments(documents)
  const query = await langchain.embedQuery('Where does the cat sleep?')
  const scores = vectors.map((vector) => vector.reduce((sum, number, at) => sum + number * (query[at] ?? 0), 0))
  expect(scores.indexOf(Math.max(...scores))).toBe(0)
})

test("a model for another task is refused with its endpoint's name", async () => {
  const messageOf = (asked: Promise<unknown>) =>
    asked.then(
      () => '',
      (error: Error) => error.message,
    )
  const model = 'tollgate/demo-embeddings'
  const chat = client.chat.completions.create({ model, messages: [{ role: 'user', content: 'Hi' }] })
  expect(await messageOf(chat)).toContain('/v1/embeddings')
  expect(await messageOf(client.responses.create({ model, input: 'Hi' }))).toContain('/v1/embeddings')
  const embedding = client.embeddings.create({ model: 'tollgate/demo', input: 'Hi' })
  expect(await messageOf(embedding)).toContain('/v1/chat/completions')
})
