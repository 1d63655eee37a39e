/** Differences between two states. */
import { expect, test } from 'bun:test'
import { toDifference } from '../../src/domain/changes.ts'

test('only differences are reported, with both values, at any depth', () => {
  const before = { name: 'a', rpm: 5, models: ['a/*', 'b/c'], metadata: { owner: 'ann' } }
  const after = { name: 'a', rpm: null, models: ['b/c', 'a/*'], metadata: { owner: 'ann', room: '7' } }
  expect(toDifference(before, after)).toEqual({
    before: { rpm: 5, models: ['a/*', 'b/c'], metadata: { owner: 'ann' } },
    after: { rpm: null, models: ['b/c', 'a/*'], metadata: { owner: 'ann', room: '7' } },
  })
})

test('equal states have no difference', () => {
  expect(toDifference({ models: ['a/*'], rpm: null }, { rpm: null, models: ['a/*'] })).toBeNull()
})

test('a created object has no values before, and a removed one none after', () => {
  const made = { name: 'a', rpm: null }
  expect(toDifference({}, made)).toEqual({ before: {}, after: made })
  expect(toDifference(made, {})).toEqual({ before: made, after: {} })
})
