/** URLs of pages: the page of each, and changes of a query. */
import { expect, test } from 'bun:test'
import { withQuery } from '../../src/dashboard/address/match.ts'
import { matchPath } from '../../src/domain/path-pattern.ts'

test.each([
  ['/', '/', {}],
  ['/keys', '/keys/', {}],
  ['/requests/:id', '/requests/4f9a', { id: '4f9a' }],
  ['/models/:slug', '/models/openai%2Fgpt-5', { slug: 'openai/gpt-5' }],
  ['/models/:slug', '/models/%', { slug: '%' }],
  ['/keys', '/keys/new', null],
  ['/requests/:id', '/requests', null],
  ['/keys', '/', null],
])('%s and %s: %p', (pattern, path, found) => {
  expect(matchPath(pattern, path)).toEqual(found)
})

test('a query keeps unchanged parameters, and has no empty ones', () => {
  expect(withQuery('?state=all&key=1', { key: null })).toBe('?state=all')
  expect(withQuery('?state=all', { state: '' })).toBe('')
  expect(withQuery('', { search: 'a&b', team: 'x' })).toBe('?search=a%26b&team=x')
})
