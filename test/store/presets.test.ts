/** The file of presets: what each must have, so that a reader can check it against the pages that it names. */
import { describe, expect, test } from 'bun:test'
import { parseCatalog } from '../../src/catalog/file.ts'
import { allPresets, findPreset } from '../../src/store/presets.ts'

test.each(Object.entries(allPresets()))('%s is a provider that a catalogue can name', async (name, preset) => {
  const address = preset.base_url === undefined ? `, base_url: "${preset.example}"` : ''
  const text = `version: 1\nupstreams:\n  it: { preset: ${name}${address}, api_key: \${${preset.env}} }\nmodels: {}\n`
  const { catalog } = await parseCatalog(text, { name: 'catalog', environment: {} })
  expect(catalog.upstreams).toMatchObject([{ dialect: preset.dialect, options: { preset: name } }])
})

test.each(Object.entries(allPresets()))('the settings of %s would be valid in a catalogue', async (_, preset) => {
  const { dialect, base_url, example, settings } = preset
  const upstreams = { it: { dialect, base_url: base_url ?? example, ...settings } }
  const text = JSON.stringify({ version: 1, upstreams, models: {} })
  const { catalog } = await parseCatalog(text, { name: 'catalog', environment: {} })
  expect(catalog.upstreams[0]?.options).toEqual(settings)
})

describe('the sources of a preset', () => {
  test.each(Object.entries(allPresets()))(
    '%s: each setting has one, with a date, and nothing else has',
    (_, preset) => {
      // What it serves, and that it is on this machine, are no settings of its provider.
      const { name, serves: _serves, dialect, sources, cautious = [], settings, local: _local, ...rest } = preset
      expect([name, dialect]).toEqual([
        expect.stringMatching(/\S/),
        expect.stringMatching(/^(openai|anthropic|gemini|ollama)$/),
      ])
      const said = new Set([...Object.values(sources).flatMap(({ says }) => says), ...cautious])
      expect([...said].toSorted()).toEqual([...Object.keys(rest), ...Object.keys(settings)].toSorted())
      for (const [page, { read }] of Object.entries(sources)) {
        expect(URL.parse(page)?.protocol).toBe('https:')
        expect(new Date(read).toISOString()).toStartWith(read)
      }
    },
  )
})

test('a name that objects have by themselves is no preset', () => {
  for (const name of ['constructor', '__proto__', 'toString', '']) expect(findPreset(name)).toBeUndefined()
})
