/** Fields that prevent passthrough: found in one pass, and reported briefly. */
import { expect, test } from 'bun:test'
import { findPassthroughRestricted } from '../../src/routing/restricted-fields.ts'

const doubtsOf = (message: object) => {
  const json = { model: 'm', max_tokens: 1, messages: [{ role: 'user', content: 'Hi', ...message }] }
  return findPassthroughRestricted({ endpoint: 'messages', text: '', headers: {}, json })
}

test('a value under many unknown names is checked a few times, not once per name', () => {
  let looks = 0
  let value: object = {
    get leaf() {
      looks++
      return 1
    },
  }
  for (let depth = 0; depth < 200; depth++) value = { unheard_of: value }
  expect(doubtsOf(value)).toEqual([])
  expect(looks).toBeLessThanOrEqual(3)
})

test('a field that passed by its value adds no tool or type', () => {
  const kept = { unheard_of: { deeper: { tools: [{ type: 'mcp_toolset' }], said: { type: 'summarize' } } } }
  expect(doubtsOf(kept).map(({ name }) => name)).toEqual(['summarize', 'mcp_servers'])
})

test("the path of a field is shortened if a parent's name is long", () => {
  const held = { ['n'.repeat(100_000)]: { tools: [{ session: 'x' }], said: { type: 'x' } } }
  const found = doubtsOf(held)
  expect(found.map(({ name }) => name)).toEqual(['x', 'session'])
  for (const { param } of found) expect(param.length).toBeLessThan(300)
})
