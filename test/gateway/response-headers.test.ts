/** Headers of whole responses, which are set on those of the response before. */
import { expect, test } from 'bun:test'
import { toResponse } from '../../src/gateway/delivery.ts'

const headersOf = (headers: Record<string, string>) => [...toResponse('{}', headers).headers]

test('a response has its own headers only, whatever came before it', () => {
  const first = toResponse('{}', { 'x-a': '1', 'x-b': '2' })
  first.headers.append('x-added', 'later')
  expect(headersOf({ 'x-a': '3', 'x-b': '2' })).toEqual([
    ['x-a', '3'],
    ['x-b', '2'],
  ])
  expect(headersOf({ 'x-a': '3' })).toEqual([['x-a', '3']])
  expect(headersOf({ 'x-c': '4' })).toEqual([['x-c', '4']])
  expect(() => toResponse('{}', { 'x-c': 'two\nlines' })).toThrow()
  expect(headersOf({ 'x-c': '4' })).toEqual([['x-c', '4']])
  expect([...first.headers].map(([name]) => name)).toEqual(['x-a', 'x-added', 'x-b'])
})
