import { describe, expect, test } from 'bun:test'
import type { Message } from '../../../src/domain/request.ts'
import { ANTHROPIC_IDS, ID_RULES, ToolIds } from '../../../src/upstreams/dialects/tool-calls.ts'

const calling = (...ids: string[]): Message => ({
  role: 'assistant',
  tool_calls: ids.map((id) => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } })),
})
const RULES = Object.entries({ ...ID_RULES, anthropic: ANTHROPIC_IDS })

describe.each(RULES)('IDs for %s', (_, rule) => {
  const own = 'abcDEF123'

  test('stay if they are valid', () => {
    const ids = new ToolIds(rule, [calling(own)])
    expect([ids.call(own), ids.result(own)]).toEqual([own, own])
  })

  test('are replaced if not, the same for a call and its result, and in each later request', () => {
    const long = `call:${'ü'.repeat(60)}`
    const made = new ToolIds(rule, [calling(long)]).call(long)
    expect(made).toMatch(rule.fits)
    const later = new ToolIds(rule, [calling(long), calling(own)])
    expect([later.call(long), later.result(long), later.call(own)]).toEqual([made, made, own])
  })

  test("that would collide are made unique: with another's, and with an existing one", () => {
    const long = `call:${'x'.repeat(60)}`
    const made = rule.make(long, 0)
    const ids = new ToolIds(rule, [calling(made), calling(long), calling(made)])
    const given = [ids.call(made), ids.result(made), ids.call(long), ids.result(long), ids.call(made), ids.result(made)]
    expect(given[1]).toBe(given[0] as string)
    expect(given[3]).toBe(given[2] as string)
    expect(given[5]).toBe(given[4] as string)
    expect(new Set(given).size).toBe(3)
    for (const id of given) expect(id).toMatch(rule.fits)
  })

  test('of a thousand calls with one ID are found in as many tries', () => {
    let tries = 0
    const counting = {
      ...rule,
      fits: /^$/,
      make: (id: string, seed: number) => `${++tries}${rule.make(id, seed)}`.slice(-9),
    }
    const ids = new ToolIds(counting, [])
    const given = Array.from({ length: 1_000 }, () => ids.call('a'))
    expect([new Set(given).size, tries]).toEqual([1_000, 1_000])
  })

  test('of ten thousand calls are unique', () => {
    const names = Array.from({ length: 10_000 }, (_, at) => `functions.weather:${at}/${'y'.repeat(40)}`)
    const ids = new ToolIds(rule, [calling(...names)])
    expect(new Set(names.map((name) => ids.call(name))).size).toBe(10_000)
  })
})
