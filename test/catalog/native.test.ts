/** Which formats of clients an upstream is said to speak: none that its dialect does not. */
import { expect, test } from 'bun:test'
import { parseCatalog } from '../../src/catalog/file.ts'
import { allPresets } from '../../src/store/presets.ts'

const parse = (upstream: string) =>
  parseCatalog(`version: 1\nupstreams: { it: ${upstream} }\nmodels: {}\n`, { name: 'test', environment: {} })

test.each([
  [
    '{ dialect: anthropic, base_url: "https://a.example", native: [responses] }',
    "the 'anthropic' dialect does not speak responses: it may be 'messages'",
  ],
  [
    '{ dialect: openai, base_url: "https://a.example", native: [completions, messages] }',
    "the 'openai' dialect does not speak messages: it may be 'responses' and 'completions'",
  ],
  ['{ dialect: gemini, base_url: "https://a.example", native: [responses] }', 'native'],
  ['{ dialect: openai, base_url: "https://a.example", native: true }', 'native'],
  ['{ dialect: openai, base_url: "https://a.example", native: [chat] }', 'native'],
])('%s is refused', async (upstream, words) => {
  await expect(parse(upstream)).rejects.toThrow(words)
})

test.each(['false', '[]', '[responses]', '[responses, completions]'])('native: %s is taken', async (native) => {
  const { catalog } = await parse(`{ dialect: openai, base_url: "https://a.example", native: ${native} }`)
  expect(catalog.upstreams[0]?.options.native).toEqual(
    JSON.parse(native.replace(/\w+/g, (word) => (word === 'false' ? word : `"${word}"`))),
  )
})

test('the presets that speak the Responses API are those whose providers say so', () => {
  const speaking = Object.entries(allPresets()).filter(([, { settings }]) => settings.native)
  expect(speaking.map(([name]) => name)).toEqual(['openai', 'azure', 'openrouter', 'xai'])
})
