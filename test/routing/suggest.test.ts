/** Suggestions for a wrong model name, as each key may see them. */
import { describe, expect, test } from 'bun:test'
import { suggestModels } from '../../src/routing/access.ts'
import { toKey, toModel, toSnapshot, toTarget } from '../support/snapshot.ts'

const NAMES = ['openai/gpt-4o-mini', 'openai/gpt-4o', 'azure/gpt-4o', 'mistral/mistral-large-2411', 'v/o3']
const models = NAMES.map((slug) => toModel(slug, [toTarget()]))
const hidden = { ...toModel('openai/hidden-one', [toTarget()]), listed: false }
const snapshot = toSnapshot([...models, hidden], { fast: 'openai/gpt-4o-mini' })
const suggest = (asked: string, models: string[] = []) => suggestModels(snapshot, toKey({ models }), asked)

describe('a suggestion', () => {
  test.each([
    ['gpt-4o-mini', ['openai/gpt-4o-mini']],
    ['anthropic/gpt-4o-mini', ['openai/gpt-4o-mini']],
    ['OpenAI/GPT-4o-Mini', ['openai/gpt-4o-mini']],
    ['openai/gpt4o_mini/', ['openai/gpt-4o-mini']],
    ['openrouter/openai/gpt-4o-mini', ['openai/gpt-4o-mini']],
    ['FAST', ['fast']],
    // Of several, the named vendor comes first.
    ['gpt-4o', ['azure/gpt-4o', 'openai/gpt-4o']],
    ['openai/GPT-4o', ['openai/gpt-4o', 'azure/gpt-4o']],
    // One letter inserted, deleted, or replaced, and two swapped.
    ['gpt-4o-minni', ['openai/gpt-4o-mini']],
    ['gpt-4o-min', ['openai/gpt-4o-mini']],
    ['gpt-4o-mine', ['openai/gpt-4o-mini']],
    ['gpt-4o-mnii', ['openai/gpt-4o-mini']],
    ['mistral-large-2412', ['mistral/mistral-large-2411']],
    ['gpt-4o-mi', []],
    ['o4', []],
    ['', []],
    ['/', []],
    ['---', []],
    ['__proto__', []],
    ['hidden-one', []],
  ])('by %j is %j', (asked, expected) => {
    expect(suggest(asked)).toEqual(expected)
  })

  test('is never a model that the key may not use', () => {
    expect(suggest('gpt-4o-mini', ['azure/*'])).toEqual([])
    expect(suggest('gpt-4o', ['azure/*'])).toEqual(['azure/gpt-4o'])
    expect(suggestModels(snapshot, toKey({ scope: 'local' }), 'gpt-4o')).toEqual([])
  })

  test('has three names at most, however many are similar', () => {
    const many = toSnapshot(['a', 'b', 'c', 'd'].map((vendor) => toModel(`${vendor}/same`, [toTarget()])))
    expect(suggestModels(many, toKey(), 'same')).toEqual(['a/same', 'b/same', 'c/same'])
  })

  test("isn't made for a name that no model can have", () => {
    expect(suggest(`${'x'.repeat(1_000_000)}/gpt-4o`)).toEqual([])
  })
})
