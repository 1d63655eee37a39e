/** Web searches, which Google bills: only if the catalog passes them. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createGemini } from '../support/gemini-upstream.ts'
import { type GeminiGateway, KEY, startGemini } from './gemini-gateway.ts'

const TEXT = 'Grüße: it snows in Oslo, and it rains in Bergen. It snows.'
const web = (uri: string, title: string) => ({ web: { uri, title } })
const groundingMetadata = {
  webSearchQueries: ['weather oslo', 'weather bergen'],
  groundingChunks: [web('https://a.example/', 'A'), web('https://b.example/', 'B'), { maps: {} }],
  groundingSupports: [
    { segment: { endIndex: 27, text: 'it snows in Oslo' }, groundingChunkIndices: [0, 1] },
    { segment: { startIndex: 29, endIndex: 60, text: 'it rains in Bergen' }, groundingChunkIndices: [1, 2, 9] },
    { segment: { text: 'what nobody said' }, groundingChunkIndices: [0] },
    null,
  ],
}
const PRICING = '[{ prompt: "0.000001", completion: "0.000002", input_cache_read: "0.0000001", web_search: "0.014" }]'

let gateway: GeminiGateway
beforeAll(async () => {
  const gemini = createGemini(() => ({ text: TEXT, more: { groundingMetadata } }), { key: KEY })
  gateway = await startGemini(gemini, { upstream: ', pass: [web_search_options]', pricing: PRICING })
})
afterAll(() => gateway.stop())

const ask = { messages: [{ role: 'user', content: 'How is the weather?' }] }
const at = (words: string) => ({ start_index: TEXT.indexOf(words), end_index: TEXT.indexOf(words) + words.length })
const CITED = [
  { ...at('it snows in Oslo'), url: 'https://a.example/', title: 'A' },
  { ...at('it snows in Oslo'), url: 'https://b.example/', title: 'B' },
  { ...at('it rains in Bergen'), url: 'https://b.example/', title: 'B' },
].map((url_citation) => ({ type: 'url_citation', url_citation }))

test('a whole response has its sources, and costs its searches', async () => {
  const before = await gateway.app.count()
  const { message } = await gateway.ask({ ...ask, web_search_options: {} })
  expect(message.annotations).toEqual(CITED)
  expect(gateway.upstream.requests.at(-1)?.json?.tools).toEqual([{ googleSearch: {} }])
  expect((await gateway.app.settled(before + 1)).at(-1)).toMatchObject({
    // 32 read, 8 cached and 12 written, and two searches.
    cost_nano_usd: 32_000 + 800 + 24_000 + 2 * 14_000_000,
  })
})

test.each([
  ['each query is charged once, and none that is blank', '', 2],
  ['a model before Gemini 3 is charged by the prompt', ', thinking: budget', 1],
])('%s, even if reported several times', async (_, route, searches) => {
  const webSearchQueries = ['weather oslo', '', 'weather bergen', 'weather oslo']
  const more = { groundingMetadata: { ...groundingMetadata, webSearchQueries } }
  const gemini = createGemini(() => ({ text: TEXT, more }), { key: KEY, thinks: route === '' ? 'level' : 'budget' })
  const other = await startGemini(gemini, { upstream: ', pass: [web_search_options]', pricing: PRICING, route })
  for (const stream of [false, true]) await other.ask({ ...ask, web_search_options: {}, stream })
  for (const row of await other.app.settled(2)) expect(row).toMatchObject({ web_searches: searches, unpriced: 0 })
  await other.stop()
})

test('a streamed one has the same, with an index for each citation', async () => {
  const response = await gateway.post({ ...ask, web_search_options: {}, stream: true })
  const frames = (await response.text()).split('\n\n').filter((frame) => frame.includes('"annotations"'))
  const [frame = ''] = frames
  expect(frames).toHaveLength(1)
  expect(JSON.parse(frame.slice(6)).choices[0].delta.annotations).toEqual(
    CITED.map((one, index) => ({ ...one, index })),
  )
})

test("a client that didn't request a search gets no sources", async () => {
  const { message } = await gateway.ask(ask)
  expect(message.annotations).toEqual([])
  expect(gateway.upstream.requests.at(-1)?.json).not.toHaveProperty('tools')
})

test('unless the catalog allows it, a search is rejected', async () => {
  const gemini = createGemini(() => ({ text: TEXT }), { key: KEY })
  const other = await startGemini(gemini)
  expect(await other.fail({ ...ask, web_search_options: {} })).toMatchObject({
    status: 400,
    param: 'web_search_options',
  })
  await other.stop()
})
