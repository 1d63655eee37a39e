/** Web search: done if model and upstream support it, otherwise dropped. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startApp, type TestApp } from '../support/app.ts'
import { type ScriptedUpstream, startUpstream } from '../support/upstream.ts'
import { type Asker, createAsker } from './responses.ts'

let app: TestApp
let upstream: ScriptedUpstream
let asker: Asker
beforeAll(async () => {
  upstream = await startUpstream()
  const facts = 'context_length: 8192, max_output_length: 1000, input_modalities: [text], output_modalities: [text]'
  app = await startApp({
    catalog: `
version: 1
upstreams:
  here: { dialect: openai, base_url: "${upstream.url}", local: true }
  paid: { dialect: openai, base_url: "${upstream.url}", api_key: \${UPSTREAM_KEY} }
models:
  acme/searching: { name: S, ${facts}, supported_features: [web_search], routes: [{ upstream: here, model: s }] }
  acme/plain: { name: P, ${facts}, supported_features: [], routes: [{ upstream: here, model: p }] }
  acme/dear: { name: D, ${facts}, supported_features: [web_search], pricing: [{ prompt: "0.000001", completion: "0.000002" }], routes: [{ upstream: paid, model: d }] }
`,
  })
  asker = createAsker(app.baseUrl, app.key())
})
afterAll(async () => {
  await upstream.stop()
  await app.stop()
})

const SEARCH = {
  type: 'web_search_preview',
  search_context_size: 'low',
  user_location: { type: 'approximate', country: 'NO', city: null },
}
const asked = {
  search_context_size: 'low',
  user_location: { type: 'approximate', approximate: { country: 'NO' } },
}

test.each([
  ['a model that searches', 'acme/searching', SEARCH, asked],
  ['one that does not', 'acme/plain', SEARCH, undefined],
  ['one whose upstream charges for it', 'acme/dear', SEARCH, undefined],
  [
    'one that searches, where it is to stay offline',
    'acme/searching',
    { ...SEARCH, external_web_access: false },
    undefined,
  ],
])('%s', async (_, model, tool, options) => {
  const response = await asker.ask({ model, tools: [tool] })
  expect(upstream.requests.at(-1)?.json?.web_search_options).toEqual(options)
  expect(response.tools).toEqual([])
})
