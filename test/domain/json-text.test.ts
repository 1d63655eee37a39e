/** Fields edited within the text of a JSON object: all other bytes stay. */
import { describe, expect, test } from 'bun:test'
import { findMembers, splice, spliceWithin } from '../../src/domain/json-text.ts'
import { createPicker } from '../support/random.ts'

type Pick = ReturnType<typeof createPicker>

describe('a field', () => {
  test.each([
    [
      'is set where it stands',
      '{ "a" : 1 , "model":"x", "z":[1,{"model":"y"}] }',
      '{ "a" : 1 , "model":"M", "z":[1,{"model":"y"}] }',
    ],
    ['is set wherever it stands', '{"model":1,"a":2,"model":{"b":3}}', '{"model":"M","a":2,"model":"M"}'],
    ['is added at the end', '{"a":1e400\n}', '{"a":1e400\n,"model":"M"}'],
    ['is added to an object without any', ' { } ', ' {"model":"M"} '],
    ['is found by its name in escapes', '{"mod\\u0065l":"x"}', '{"mod\\u0065l":"M"}'],
    [
      'is told from the words of others',
      '{"a":"\\"model\\":\\\\","model":null}',
      '{"a":"\\"model\\":\\\\","model":"M"}',
    ],
    ['is set in no list', '[{"model":1}]', '[{"model":1}]'],
  ])('%s', (_, text, expected) => {
    expect(splice(text, { model: '"M"' })).toBe(expected)
  })

  test.each([
    ['the first', '{ "x":1, "a":2}', '{ "a":2}'],
    ['the last', '{"a":2, "x":[1,"}"] }', '{"a":2}'],
    ['every one', '{"x":{},"a":2,"x":"","x":-0.0}', '{"a":2}'],
    ['the only one', '{"x":{"x":1}}', '{}'],
  ])('that is removed leaves an object: %s', (_, text, expected) => {
    expect(splice(text, { x: null })).toBe(expected)
  })

  test('is set only within its object', () => {
    const text = '{"type":"message_start","id":"a","message":{"id":"a","usage":{"id":9007199254740993}}  }'
    expect(spliceWithin(text, 'message', { id: '"b"' })).toBe(
      '{"type":"message_start","id":"a","message":{"id":"b","usage":{"id":9007199254740993}}  }',
    )
    expect(spliceWithin(text, 'response', { id: '"b"' })).toBe(text)
    expect(spliceWithin('{"message":[]}', 'message', { id: '"b"' })).toBe('{"message":[]}')
  })
})

test('no other field is lost or changed, however an object is written', () => {
  const below = createPicker(11)
  for (let round = 0; round < 3_000; round++) {
    const members = Array.from({ length: below(6) }, () => anyMember(below))
    const text = `${space(below)}{${members.join(',') || space(below)}}${space(below)}`
    const found = findMembers(text)
    expect(found?.map(({ name, from, to }) => [name, text.slice(from, to)])).toEqual(
      members.map((member) => {
        const [only] = findMembers(`{${member}}`) ?? []
        return [only?.name ?? '', `{${member}}`.slice(only?.from, only?.to)]
      }),
    )
    const names = found?.map(({ name }) => name) ?? []
    expect(new Set(names)).toEqual(new Set(Object.keys(JSON.parse(text))))
    const spliced = splice(text, { model: '"M"', dropped: null })
    expect(JSON.parse(spliced)).toEqual(expected(JSON.parse(text)))
    const untouched = members.filter((member) => !/model|dropped/.test(member))
    for (const member of untouched) expect(spliced).toContain(member)
    expect(splice(text, {})).toBe(text)
  }
})

function expected({ dropped: _, ...rest }: Record<string, unknown>) {
  return { ...rest, model: 'M' }
}

const anyMember = (below: Pick) =>
  `${space(below)}${one(below, NAMES)}${space(below)}:${space(below)}${anyValue(below, 3)}${space(below)}`

const NAMES = ['"model"', '"dropped"', '"a"', '"a"', '"\\u0061"', '"ключ"', '"{"', '"\\""', '"\\\\"', '""', '"1"']
const VALUES = [
  '1e400',
  '-0.0',
  '12345678901234567890',
  '0.1E+7',
  'null',
  'true',
  '""',
  '"\\\\"',
  '"\\"}"',
  '"\u2028😀\\ud83d"',
  '[]',
  '{}',
]

function anyValue(below: Pick, depth: number): string {
  if (depth === 0 || below(2) === 0) return one(below, VALUES)
  const held = Array.from({ length: below(4) }, () => anyValue(below, depth - 1))
  if (below(2) === 0) return `[${space(below)}${held.join(` ,${space(below)}`)}]`
  return `{${held.map((value) => `${one(below, NAMES)}:${value}`).join(',')}${space(below)}}`
}

const one = (below: Pick, among: readonly string[]) => among[below(among.length)] ?? ''

const space = (below: Pick) => one(below, ['', '', ' ', '\n\t', '\r\n'])

test('a hundred thousand quotes and backslashes are scanned once', () => {
  const text = JSON.stringify({ a: '\\"'.repeat(200_000), b: ['"\\'.repeat(100_000)], model: 'x' })
  expect(splice(text, { model: '"M"' })).toBe(text.replace('"model":"x"', '"model":"M"'))
})
