/** Field names: another gateway's, misspelled contract names, and the effect of `pass`. */
import { expect, test } from 'bun:test'
import { isMiswritten, isPassed, isRouting, reasonToRefuseTool } from '../../src/domain/fields.ts'
import { RequestSchema } from '../../src/domain/request.ts'

test('no field of the contract counts as another gateway’s, or as misspelled', () => {
  for (const name of Object.keys(RequestSchema.properties)) {
    expect(`${name}: ${isRouting(name)} ${isMiswritten(name)}`).toBe(`${name}: false false`)
  }
})

test.each(['Fallbacks', 'context-window-fallbacks', 'fallbac\u212as', 'cu\u017ftom_host', 'MOCK_anything', 'n_cmpl'])(
  'a receiver may read %s as a known name',
  (name) => {
    expect(isRouting(name)).toBe(true)
  },
)

test.each([
  ['Model', true],
  ['maxTokens', true],
  ['response-format', true],
  ['max_tokens', false],
  // No receiver confuses it with `max_tokens`.
  ['maxtokens', false],
  ['topK', false],
  ['__proto__', false],
  ['', false],
])('%j is a contract name in another spelling: %p', (name, expected) => {
  expect(isMiswritten(name)).toBe(expected)
})

test.each([
  [[], 'provider', false],
  [['provider'], 'provider', true],
  [['provider'], 'providers', false],
  [['provider'], 'PROVIDER', true],
  [['mock_*'], 'mock_response', true],
  [['mock_*'], 'mock', true],
  [['vertex_*', 'api_base'], 'apiBase', true],
  [['vertex_*'], 'aws_region', false],
])('pass: %j, and %s passes: %p', (pass, name, expected) => {
  expect(isPassed(pass, name)).toBe(expected)
})

test.each([
  ['openrouter:web_search', 'web_search'],
  ['openrouter:experimental__fusion', 'openrouter'],
  ['openrouter:datetime', undefined],
  ['web_fetch_20250910', undefined],
])('a tool of type %s passes if `pass` has %p', (type, name) => {
  expect(reasonToRefuseTool(type)?.name).toBe(name)
})
