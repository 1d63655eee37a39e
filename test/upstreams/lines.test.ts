/** JSON lines, however they are split. */
import { expect, test } from 'bun:test'
import { LineReader } from '../../src/upstreams/framing.ts'

test('lines are the same wherever they are split, and the last one needs no line end', () => {
  const text = '{"a":1}\r\n\n{"b":"ü"}\n{"c":3}'
  for (let cut = 0; cut <= text.length; cut++) {
    const reader = new LineReader(100)
    const found = [...reader.feed(text.slice(0, cut)), ...reader.feed(text.slice(cut)), ...reader.end()]
    expect(found.map(({ data }) => JSON.parse(data))).toEqual([{ a: 1 }, { b: 'ü' }, { c: 3 }])
  }
})

test('an endless line fails at its limit', () => {
  const reader = new LineReader(10)
  expect(reader.feed('{"a":1}\n12345678')).toEqual([{ name: null, data: '{"a":1}' }])
  expect(reader.isTooLarge).toBeFalse()
  expect(reader.feed('9012')).toEqual([])
  expect(reader.isTooLarge).toBeTrue()
})
