/** What a change changed. */
import { expect, test } from 'bun:test'
import { toDifference } from '../../src/domain/changes.ts'

test('only what differs is told, as it was and as it is, however deep it differs', () => {
  const before = { name: 'a', rpm: 5, models: ['a/*', 'b/c'], metadata: { owner: 'ann' } }
  const after = { name: 'a', rpm: null, models: ['b/c', 'a/*'], metadata: { owner: 'ann', room: '7' } }
  expect(toDifference(before, after)).toEqual({
    before: { rpm: 5, models: ['a/*', 'b/c'], metadata: { owner: 'ann' } },
    after: { rpm: null, models: ['b/c', 'a/*'], metadata: { owner: 'ann', room: '7' } },
  })
})

test('what is the same is no change', () => {
  expect(toDifference({ models: ['a/*'], rpm: null }, { rpm: null, models: ['a/*'] })).toBeNull()
})

test('what is made had nothing before, and what is gone has nothing after', () => {
  const made = { name: 'a', rpm: null }
  expect(toDifference({}, made)).toEqual({ before: {}, after: made })
  expect(toDifference(made, {})).toEqual({ before: made, after: {} })
})
