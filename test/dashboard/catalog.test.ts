/** What changes in the catalogue, as pages tell of it. */
import { expect, test } from 'bun:test'
import { toCountsText, toFieldChanges, toRowName, toVersionText } from '../../src/dashboard/catalog/words.ts'

test.each([
  ['upstreams.openai', 'upstream openai'],
  ['models.openai/gpt-5', 'model openai/gpt-5'],
  ['models.v/m: route u (m.1)', 'route u (m.1) of v/m'],
  ['aliases.fast', 'alias fast'],
  ['something', 'something'],
])('%s is the %s', (name, said) => {
  expect(toRowName(name)).toBe(said)
})

test('a field is told as it was and as it will be', () => {
  const fields = toFieldChanges({
    before: { weight: 1, enabled: true, api_key: 'typed in' },
    after: { weight: 3, enabled: false, supported_features: ['tools', 'reasoning'], origin: 'admin' },
  })
  expect(fields).toEqual([
    { field: 'weight', before: '1', after: '3' },
    { field: 'enabled', before: 'yes', after: 'no' },
    { field: 'api key', before: 'typed in', after: null },
    { field: 'supported features', before: null, after: 'tools, reasoning' },
    { field: 'origin', before: null, after: 'set by hand' },
  ])
})

test('a price is told for a million, and in full where it has more than two', () => {
  const after = (...pricing: object[]) => toFieldChanges({ before: {}, after: { pricing } })[0]?.after
  expect(after({ prompt: '0.00000125', completion: '0.00001' })).toBe('$1.25 in, $10.00 out per million')
  expect(after({ prompt: '0.000001', completion: '0.000002', input_cache_read: '0.0000001' })).toBe(
    '$1.00 in, $2.00 out per million (prompt 0.000001, completion 0.000002, input cache read 0.0000001)',
  )
})

test('how much changed', () => {
  expect(toCountsText({ created: 0, updated: 0, deleted: 0, adopted: 0 })).toBe('nothing')
  expect(toCountsText({ created: 2, updated: 1, deleted: 0, adopted: 3 })).toBe(
    '2 new, 1 changed, 3 with another owner',
  )
})

test('why there is a version', () => {
  expect(toVersionText({ action: 'catalog.apply', subject: 'catalog.yaml' })).toBe('Applied: catalog.yaml')
  expect(toVersionText({ action: 'newer.thing', subject: 'x' })).toBe('newer: thing: x')
})
