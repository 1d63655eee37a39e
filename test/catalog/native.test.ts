/** Passthrough formats of an upstream, only those of its dialect. */
import { expect, test } from 'bun:test'
import { parseCatalog } from '../../src/catalog/file.ts'
import { allPresets } from '../../src/store/presets.ts'

const parse = (upstream: string) =>
  parseCatalog(`version: 1\nupstreams: { it: ${upstream} }\nmodels: {}\n`, { name: 'test', environment: {} })

test.each([
  [
    '{ dialect: anthropic, base_url: "https://a.example", passthrough: [responses] }',
    "the 'anthropic' dialect has no responses endpoint: it may be 'messages'",
  ],
  [
    '{ dialect: openai, base_url: "https://a.example", passthrough: [completions, messages] }',
    "the 'openai' dialect has no messages endpoint: it may be 'responses' and 'completions'",
  ],
  ['{ dialect: gemini, base_url: "https://a.example", passthrough: [responses] }', 'passthrough'],
  ['{ dialect: openai, base_url: "https://a.example", passthrough: true }', 'passthrough'],
  ['{ dialect: openai, base_url: "https://a.example", passthrough: [chat] }', 'passthrough'],
])('%s is refused', async (upstream, words) => {
  await expect(parse(upstream)).rejects.toThrow(words)
})

test.each(['false', '[]', '[responses]', '[responses, completions]'])('native: %s is accepted', async (native) => {
  const { catalog } = await parse(`{ dialect: openai, base_url: "https://a.example", passthrough: ${native} }`)
  expect(catalog.upstreams[0]?.options.passthrough).toEqual(
    JSON.parse(native.replace(/\w+/g, (word) => (word === 'false' ? word : `"${word}"`))),
  )
})

test('an upstream may use the names of 0.1.0, each with a warning that has its line and the new name', async () => {
  const upstream =
    '{ dialect: openai, base_url: "https://a.example", native: [responses], leave: 5s, api_key: file:/x }'
  const { catalog, warnings, renamed } = await parse(upstream)
  expect(catalog.upstreams[0]?.options).toMatchObject({ passthrough: ['responses'], disconnect_grace: '5s' })
  expect(warnings.slice(0, 2)).toEqual([
    'test:2: upstreams.it.native: renamed to passthrough. The next release drops the old name.',
    'test:2: upstreams.it.leave: renamed to disconnect_grace. The next release drops the old name.',
  ])
  expect(renamed).toEqual(warnings.slice(0, 2))
  await expect(parse(upstream.replace('[responses]', '[chat]'))).rejects.toThrow('it.native: renamed to passthrough.')
  await expect(parse(upstream.replace('{', '{ passthrough: false, '))).rejects.toThrow('native')
})

test('presets pass through the Responses API only if their providers support it', () => {
  const speaking = Object.entries(allPresets()).filter(([, { settings }]) => settings.passthrough)
  expect(speaking.map(([name]) => name)).toEqual(['openai', 'azure', 'openrouter', 'xai'])
})
