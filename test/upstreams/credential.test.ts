/** A credential in an upstream's messages: whole, partial, in other case and encodings. */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { maskCredential, toPublic, toPublicCode, toPublicRequestId } from '../../src/upstreams/credential-scrubbing.ts'

const KEY = 'k9Zx2QpLm4vBt7RyWc1sNf8HdGj3'
const base64 = (text: string) => Buffer.from(text).toString('base64')

describe("an upstream's message that contains our credential is masked", () => {
  test.each([
    ['whole', `Incorrect key: ${KEY}`, 'Incorrect key: …'],
    ['among other words', `The key ${KEY} is wrong`, 'The key … is wrong'],
    ['twice', `${KEY}, ${KEY}`, '…, …'],
    ['with a character more', `Incorrect key: ${KEY}x`, 'Incorrect key: …'],
    ['with a character before it', `Incorrect key: x${KEY}`, 'Incorrect key: …'],
    ['with a character in the middle', `Incorrect key: ${KEY.slice(0, 14)}-${KEY.slice(14)}`, 'Incorrect key: …'],
    ['without its last characters', `Incorrect key: ${KEY.slice(0, -5)}`, 'Incorrect key: …'],
    ['cut in the middle', `Incorrect key: ${KEY.slice(0, 15)}***`, 'Incorrect key: …***'],
    ['in capitals', `Incorrect key: ${KEY.toUpperCase()}`, 'Incorrect key: …'],
    ['in a query', `https://host.example/v1?key=${KEY}&alt=sse`, 'https://host.example/v1?…&alt=sse'],
    ['in base64', `authorization: ${base64(KEY)}`, 'authorization: …'],
    ['in base64 of user and password', `authorization: Basic ${base64(`user:${KEY}`)}`, 'authorization: Basic …'],
    ['in base64 of a JSON', base64(`{"key":"${KEY}"}`), '…'],
    ['in hexadecimal', Buffer.from(KEY).toString('hex'), '…'],
    [
      'not where there is only a little of it',
      `Incorrect key: ****${KEY.slice(-4)}`,
      `Incorrect key: ****${KEY.slice(-4)}`,
    ],
    ['not at all', 'The model is overloaded. Try again.', 'The model is overloaded. Try again.'],
  ])('%s', (_, said, masked) => {
    expect(maskCredential(said, KEY)).toBe(masked)
  })

  test('if it has spaces and punctuation, raw and percent-encoded', () => {
    const odd = 'correct horse/battery+staple 42'
    expect(maskCredential(`(${odd})`, odd)).toBe('(…)')
    expect(maskCredential(`?k=${encodeURIComponent(odd)}`, odd)).toBe('?…')
  })

  test('if it is short', () => {
    expect(maskCredential('The key abc is wrong', 'abc')).toBe('The key … is wrong')
    expect(maskCredential('The key abcdefghi is wrong', 'abcdefghi')).toBe('The key … is wrong')
  })

  test('in base64 at any offset, whatever text surrounds it', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (before, after) => {
        expect(maskCredential(base64(before + KEY + after), KEY)).toStartWith('…')
        expect(maskCredential(before + KEY + after, KEY)).not.toContain(KEY.slice(2, -2))
      }),
    )
  })
})

test('text that looks like another credential is masked as well, before truncation', () => {
  const other = `sk-proj-${'0123456789'.repeat(4)}`
  expect(toPublic(`Incorrect API key provided: ${other}.`, { secrets: [KEY] })).toBe(
    'Incorrect API key provided: sk-…6789.',
  )
  const cut = toPublic(`${'x '.repeat(495)}${KEY} ${other} ${'y'.repeat(5_000)}`, { secrets: [KEY] })
  expect(cut).toHaveLength(1_000)
  expect(cut).not.toContain(KEY.slice(0, 8))
  expect(cut).not.toContain('01234')
})

test.each([
  ['context_length_exceeded', 'context_length_exceeded'],
  ['429', '429'],
  ['resource:exhausted-1.0', 'resource:exhausted-1.0'],
  ['', null],
  ['a code with blanks', null],
  ['line\nbreak', null],
  ['x'.repeat(65), null],
  [KEY, null],
  [`error_${KEY.slice(0, 20)}`, null],
  ['AIzaSyA0123456789abcdefghijABCDEFGHIJKLMN', null],
])('a code of %j is kept as %j', (code, kept) => {
  expect(toPublicCode(code, { secrets: [KEY] })).toBe(kept)
})

test.each([
  ['req_0123456789abcdef', 'req_0123456789abcdef'],
  ['5e0c9c70-6d5b-4b8e:1/2', '5e0c9c70-6d5b-4b8e:1/2'],
  ['two words', null],
  ['x'.repeat(129), 'x'.repeat(128)],
  [`req_${KEY}`, null],
  [null, null],
])('an upstream’s request id of %j is kept as %j', (id, kept) => {
  expect(toPublicRequestId(id, { secrets: [KEY] })).toBe(kept)
})
