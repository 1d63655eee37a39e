/** Texts of catalog changes. */
import { expect, test } from 'bun:test'
import {
  type Change,
  foldNames,
  foldRoutes,
  foldSame,
  toCountsText,
  toFieldChanges,
  toRowsName,
  toVersionText,
} from '../../src/dashboard/catalog/words.ts'
import { toEntryName } from '../../src/domain/changes.ts'

test.each([
  ['upstreams.openai', 'upstream openai'],
  ['models.openai/gpt-5', 'model openai/gpt-5'],
  ['models.v/m: route u (m.1)', 'route u (m.1) of v/m'],
  ['aliases.fast', 'alias fast'],
  ['something', 'something'],
])('%s is the %s', (name, said) => {
  expect(toEntryName(name)).toBe(said)
})

test('a field shows its old and new value', () => {
  const fields = toFieldChanges({
    before: { weight: 1, enabled: true, api_key: 'typed in' },
    after: { weight: 3, enabled: false, supported_features: ['tools', 'reasoning'], origin: 'admin' },
  })
  expect(fields).toEqual([
    { field: 'weight', before: '1', after: '3' },
    { field: 'enabled', before: 'yes', after: 'no' },
    { field: 'api key', before: 'typed in', after: null },
    { field: 'supported features', before: null, after: 'tools, reasoning' },
    { field: 'source', before: null, after: 'set manually' },
  ])
})

test('changed prices are listed one by one, per million and per token', () => {
  const price = { prompt: '0.00000125', completion: '0.00001', request: '0.01' }
  const longer = { prompt: '0.0000025', completion: '0.00002', min_prompt_tokens: 200_000 }
  const after = { pricing: [{ ...price, prompt: '0.000002', request: '0.02' }, longer] }
  expect(toFieldChanges({ before: { pricing: [price] }, after })).toEqual([
    {
      field: 'price: input',
      before: '$1.25 per million ($0.00000125 per token)',
      after: '$2.00 per million ($0.000002 per token)',
    },
    { field: 'price: per request', before: '$0.01 each', after: '$0.02 each' },
    { field: 'price: input above 200,000', before: null, after: '$2.50 per million ($0.0000025 per token)' },
    { field: 'price: output above 200,000', before: null, after: '$20.00 per million ($0.00002 per token)' },
  ])
})

test('three or more entries with the same change are one line, and removals are separate', () => {
  const off = { before: { enabled: true }, after: { enabled: false } }
  const price = { before: { pricing: [] }, after: { pricing: [{ prompt: '1', completion: '1' }] } }
  const named = (names: string[], fields: typeof off | typeof price): Change[] =>
    names.map((name) => ({ action: 'update', name, ...fields }))
  const routes = named(['models.a: route u (a)', 'models.b: route u (b)'], off)
  const folded = foldSame(foldRoutes([...routes, ...named(['models.a', 'models.b', 'models.c'], price)]))
  expect(folded.map(toRowsName)).toEqual(['route u (a) of a', 'route u (b) of b', '3 models'])
})

test('routes of a named model are not listed separately, others are', () => {
  const names = ['models.a', 'models.a: route u (a)', 'models.ab: route u (ab)']
  expect(foldNames(names).map(toEntryName)).toEqual(['model a', 'route u (ab) of ab'])
})

test('the number of changes', () => {
  expect(toCountsText({ created: 0, updated: 0, deleted: 0 })).toBe('no changes')
  expect(toCountsText({ created: 2, updated: 1, deleted: 0 })).toBe('1 changed, 2 new')
})

test('the cause of a version', () => {
  expect(toVersionText({ action: 'catalog.apply', subject: 'catalog.yaml' })).toBe('Applied the catalog: catalog.yaml')
  expect(toVersionText({ action: 'newer.thing', subject: 'x' })).toBe('Newer: thing: x')
})
