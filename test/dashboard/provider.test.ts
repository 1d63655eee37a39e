/** The form that adds a provider: its request, and its warnings about names. */
import { describe, expect, test } from 'bun:test'
import {
  filterOffers,
  filterPresets,
  toChoice,
  toConflict,
  toConnection,
  toModels,
  toUpstream,
} from '../../src/dashboard/provider/picks.ts'

const groq = {
  ...{ id: 'groq', name: 'Groq', serves: 'Open models', dialect: 'openai', local: false, example: null },
  ...{ base_url: 'https://api.groq.com/openai/v1', variable: 'GROQ_API_KEY' },
}
const fieldOf = (work: () => unknown) => {
  try {
    work()
  } catch (error) {
    return (error as { field?: string }).field
  }
  return null
}

describe('a connection', () => {
  test("begins with the preset's name and URL, and keeps values typed before", () => {
    expect(toConnection(groq, new Set(['groq']), false, {})).toMatchObject({ id: 'groq-2', base_url: groq.base_url })
    const typed = { base_url: 'https://proxy.test/v1', api_key: 'sk-1', credential: 'variable' }
    expect(toConnection(groq, new Set(), false, typed)).toMatchObject({ ...typed, id: 'groq', credential: 'typed' })
    expect(toConnection(groq, new Set(), true, {}).credential).toBe('variable')
  })

  test("is sent with a URL only if it isn't the preset's, and with one credential or several", () => {
    const values = toConnection(groq, new Set(), false, { api_key: ' sk-1  sk-2 ' })
    expect(toUpstream(values, groq)).toEqual({ id: 'groq', preset: 'groq', api_key: ['sk-1', 'sk-2'], local: false })
    const other = { ...values, base_url: 'https://proxy.test/v1/', api_key: '' }
    expect(toUpstream(other, null)).toMatchObject({ dialect: 'openai', base_url: 'https://proxy.test/v1' })
    expect(fieldOf(() => toUpstream({ ...other, credential: 'variable' }, groq))).toBe('credential')
    expect(fieldOf(() => toUpstream({ ...other, base_url: ' ' }, null))).toBe('base_url')
  })
})

describe('selected models', () => {
  const names = { models: new Set(['lab/old']), aliases: new Set(['quick']) }

  test('show the effect of their names', () => {
    const picks = new Map([
      ['a', toChoice('lab/old')],
      ['b', toChoice('lab/new')],
    ])
    expect(toConflict('a', toChoice('lab/old'), picks, names)?.isWrong).toBe(false)
    expect(toConflict('c', toChoice('lab/new'), picks, names)?.isWrong).toBe(true)
    expect(toConflict('c', toChoice('quick'), picks, names)?.text).toContain('is an alias')
    expect(toConflict('b', toChoice('lab/new'), picks, names)).toBeNull()
  })

  test('are sent with typed prices only, both of them', () => {
    const typed = { ...toChoice('lab/new'), prompt: '1.25', completion: '10', context: '8,000' }
    expect(
      toModels(
        new Map([
          ['m', typed],
          ['n', toChoice('lab/old')],
        ]),
        names,
      ),
    ).toEqual([
      {
        ...{ upstream_model: 'm', slug: 'lab/new', exists: false, context_length: 8_000 },
        pricing: [{ prompt: '0.00000125', completion: '0.00001' }],
      },
      { upstream_model: 'n', slug: 'lab/old', exists: true },
    ])
    expect(fieldOf(() => toModels(new Map([['m', { ...typed, completion: '' }]]), names))).toBe('m completion')
    expect(fieldOf(() => toModels(new Map([['m', toChoice(null)]]), names))).toBe('m slug')
  })
})

test('presets whose name begins with the search come first; models without chat are shown on request', () => {
  const other = { id: 'openai', name: 'OpenAI', serves: 'GPT, not Groq' }
  expect(filterPresets([other, groq], 'gro').map(({ id }) => id)).toEqual(['groq', 'openai'])
  const offer = {
    ...{ slug: null, name: 'Whisper', context_length: null, pricing: [], is_usual: false, upstream_model: 'w' },
    ...{ input_modalities: [], output_modalities: [], supported_features: [] },
  }
  expect(filterOffers([offer], 'whis', false)).toEqual([])
  expect(filterOffers([offer], 'whis', true)).toEqual([offer])
})
