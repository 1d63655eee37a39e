/** Token counts, by every name and in every place in which servers of the OpenAI format report them. */
import { expect, test } from 'bun:test'
import { findUsage } from '../../../src/upstreams/dialects/openai/usage.ts'

const plain = { prompt_tokens: 10, completion_tokens: 5 }

const TABLE: [name: string, usage: unknown, expected: number[] | null][] = [
  ['plain', plain, [10, 0, 0, 5, 0]],
  ['cached', { ...plain, prompt_tokens_details: { cached_tokens: 8 } }, [10, 8, 0, 5, 0]],
  [
    'cached, as DeepSeek says it',
    { ...plain, prompt_cache_hit_tokens: 8, prompt_cache_miss_tokens: 2 },
    [10, 8, 0, 5, 0],
  ],
  ['cached, as Moonshot says it', { ...plain, cached_tokens: 8 }, [10, 8, 0, 5, 0]],
  ['cached, as Mistral says it', { ...plain, num_cached_tokens: 8 }, [10, 8, 0, 5, 0]],
  ['cached, as Mistral said it', { ...plain, prompt_token_details: { cached_tokens: 8 } }, [10, 8, 0, 5, 0]],
  ['cached null', { ...plain, prompt_tokens_details: { cached_tokens: null } }, [10, 0, 0, 5, 0]],
  ['written', { ...plain, prompt_tokens_details: { cached_tokens: 6, cache_write_tokens: 3 } }, [10, 6, 3, 5, 0]],
  [
    'read and written again',
    { ...plain, prompt_tokens_details: { cached_tokens: 6, cache_write_tokens: 9 } },
    [10, 6, 9, 5, 0],
  ],
  ['cached beside it', { ...plain, cached_tokens: 90 }, [100, 90, 0, 5, 0]],
  ['cached more than its total has', { ...plain, total_tokens: 15, cached_tokens: 90 }, [10, 10, 0, 5, 0]],
  ['reasoned', { ...plain, completion_tokens_details: { reasoning_tokens: 3 } }, [10, 0, 0, 5, 3]],
  ['reasoned, at the top', { ...plain, completion_tokens_details: null, reasoning_tokens: 3 }, [10, 0, 0, 5, 3]],
  ['reasoned beside it', { ...plain, total_tokens: 18, reasoning_tokens: 3 }, [10, 0, 0, 8, 3]],
  ['reasoned in it', { ...plain, total_tokens: 15, reasoning_tokens: 3 }, [10, 0, 0, 5, 3]],
  ['with a total that fits nothing', { ...plain, total_tokens: 99, reasoning_tokens: 3 }, [10, 0, 0, 5, 3]],
  ['overstated', { ...plain, completion_tokens_details: { reasoning_tokens: 99 } }, [10, 0, 0, 5, 5]],
  ['with nulls', { ...plain, prompt_tokens_details: null, completion_tokens_details: null }, [10, 0, 0, 5, 0]],
  [
    'under the newer names',
    { input_tokens: 10, output_tokens: 5, input_tokens_details: { cached_tokens: 8 } },
    [10, 8, 0, 5, 0],
  ],
  ['fractional', { prompt_tokens: 9.6, completion_tokens: 5 }, [10, 0, 0, 5, 0]],
  ['text', { prompt_tokens: '10', completion_tokens: '5' }, [10, 0, 0, 5, 0]],
  ['a part and a total', { prompt_tokens: 10, completion_tokens: null, total_tokens: 15 }, [10, 0, 0, 5, 0]],
  ['the other part and a total', { completion_tokens: 5, total_tokens: 15 }, [10, 0, 0, 5, 0]],
  ['negative parts', { ...plain, prompt_tokens_details: { cached_tokens: -1 } }, [10, 0, 0, 5, 0]],
  ['a total alone', { total_tokens: 15 }, null],
  ['half', { prompt_tokens: 10 }, null],
  ['zeros', { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }, null],
  ['beyond all sense', { prompt_tokens: 1e300, completion_tokens: 5 }, null],
  ['not a number', { prompt_tokens: Number.NaN, completion_tokens: 5 }, null],
  ['negative', { prompt_tokens: -1, completion_tokens: 5 }, null],
  ['words', { prompt_tokens: 'many', completion_tokens: '' }, null],
  ['null', null, null],
  ['a list', [], null],
]

const PLACES: [string, (usage: unknown) => Record<string, unknown>][] = [
  ['at the top', (usage) => ({ choices: [], usage })],
  ['where Groq puts it', (usage) => ({ choices: [{}], usage: null, x_groq: { id: 'x', usage } })],
  ['where Moonshot puts it', (usage) => ({ choices: [{ index: 0, usage }] })],
]

test.each(TABLE)('usage that is %s', (_, usage, expected) => {
  for (const [, place] of PLACES) {
    const found = findUsage(place(usage))
    const read = found && [found.prompt, found.cacheRead, found.cacheWrite, found.completion, found.reasoning]
    expect(read).toEqual(expected)
  }
})

const kept = { ephemeral_5m_input_tokens: 1, ephemeral_1h_input_tokens: 3 }
test.each([
  ['as Anthropic says it', { cache_creation_input_tokens: 4, cache_creation: kept }, [1, 3]],
  [
    'as LiteLLM does',
    { cache_creation_input_tokens: 4, prompt_tokens_details: { cache_creation_token_details: kept } },
    [1, 3],
  ],
  ['without a sum', { cache_creation: { ephemeral_1h_input_tokens: 3 } }, [0, 3]],
  ['overstated', { cache_creation_input_tokens: 99, cache_creation: { ephemeral_1h_input_tokens: 99 } }, [0, 10]],
  ['as null', { cache_creation_input_tokens: 4, cache_creation: null }, [4, 0]],
])('what was written to a cache for an hour is told apart, %s', (_, more, expected) => {
  const found = findUsage({ usage: { ...plain, ...more } })
  expect(found && [found.cacheWrite, found.cacheWrite1h]).toEqual(expected)
})

test.each([{}, { choices: null }, { choices: [null] }, { choices: [{}] }])('%j has none', (chunk) => {
  expect(findUsage(chunk)).toBeNull()
})

test.each([
  ['told', { audio_tokens: 4, image_tokens: 3 }, { audio_tokens: 2 }, [4, 3, 2, 0]],
  ['that are null', { audio_tokens: null }, { audio_tokens: null }, [0, 0, 0, 0]],
  ['overstated', { audio_tokens: 8, image_tokens: 8 }, { audio_tokens: 9, image_tokens: 9 }, [8, 2, 5, 0]],
  ['beside cached ones', { cached_tokens: 7, audio_tokens: 5 }, { reasoning_tokens: 4, image_tokens: 5 }, [3, 0, 0, 1]],
])('audio and images %s', (_, read, written, expected) => {
  const found = findUsage({ usage: { ...plain, prompt_tokens_details: read, completion_tokens_details: written } })
  expect(found && [found.audioPrompt, found.imagePrompt, found.audioCompletion, found.imageCompletion]).toEqual(
    expected,
  )
})
