/** The cache of compiled schemas: per key, the most recently used, and never at the expense of a key with fewer. */
import { beforeEach, expect, test } from 'bun:test'
import { KeptSchemas } from '../../src/gateway/json-check.ts'

let kept: KeptSchemas<string>
let compiled: string[]
beforeEach(() => {
  kept = new KeptSchemas()
  compiled = []
})

const get = (owner: string, schema: string) =>
  kept.get(owner, schema, (text) => {
    compiled.push(text)
    return text
  })

test("a key's recent schema is not compiled again", () => {
  for (let n = 0; n < 65; n++) {
    get('a', `${n}`)
    get('a', '0')
  }
  compiled = []
  get('a', '0')
  get('a', '64')
  expect(compiled).toEqual([])
  get('a', '1')
  expect(compiled).toEqual(['1'])
})

test.each([
  ['many', (n: number) => `{"n":${n}}`],
  ['large', (n: number) => `${n}`.padEnd(150_000, ' ')],
])('%s schemas of one key push out its own, not those of others', (_, toSchema) => {
  for (const owner of ['b', 'c']) get(owner, owner)
  for (let n = 0; n < 100; n++) get('a', toSchema(n))
  compiled = []
  for (const owner of ['b', 'c']) get(owner, owner)
  get('a', toSchema(99))
  expect(compiled).toEqual([])
  get('a', toSchema(0))
  expect(compiled).toHaveLength(1)
})

test('one that is larger than the cache is not cached', () => {
  const huge = ' '.repeat(400_001)
  get('b', 'b')
  get('a', huge)
  get('a', huge)
  get('b', 'b')
  expect(compiled).toEqual(['b', huge, huge])
})
