import { describe, expect, test } from 'bun:test'
import { decodeState, encodeState } from '../../src/upstreams/dialects/reasoning-state.ts'

const THOUGHT = { type: 'reasoning.text', format: 'anthropic-claude-v1', signer: 'claude', index: 0 }

describe('sealed reasoning', () => {
  test('is unsealed unchanged', () => {
    const details = [
      { ...THOUGHT, text: 'Sixteen, ☃.', signature: 'c2ln' },
      { type: 'reasoning.encrypted', data: 'b3BhcXVl', id: 'call_1', format: 'google-gemini-v1', index: 1 },
    ]
    expect(decodeState(encodeState(details))).toEqual(details)
    expect(decodeState(encodeState([]))).toEqual([])
  })

  test('is a prefix and base64 without padding', () => {
    expect(encodeState([{ ...THOUGHT, text: 'a?>' }])).toMatch(/^tg1\.[A-Za-z0-9_-]+$/)
  })

  test('in pieces of a stream is joined, each up to its signature', () => {
    const { index: _, ...named } = THOUGHT
    const pieces = [
      { ...THOUGHT, text: 'Six' },
      { type: 'reasoning.text', text: 'teen.', index: 0 },
      { type: 'reasoning.text', signature: 'one', index: 0 },
      { ...named, index: 0, text: 'Again.' },
      { type: 'reasoning.text', signature: 'two', index: 0 },
    ]
    expect(decodeState(encodeState(pieces))).toEqual([
      { ...THOUGHT, text: 'Sixteen.', signature: 'one' },
      { ...THOUGHT, text: 'Again.', signature: 'two' },
    ])
  })

  test("doesn't repeat the text next to it, and gets it back from there", () => {
    const details = [
      { ...THOUGHT, text: 'Sixteen ☃. ', signature: 'one' },
      { type: 'reasoning.encrypted', data: 'b3BhcXVl', index: 1 },
      { type: 'reasoning.summary', summary: 'It is sixteen.', index: 2 },
    ]
    const beside = 'Sixteen ☃. It is sixteen.'
    const sealed = encodeState(details, beside)
    expect(Buffer.from(sealed.slice(4), 'base64url').toString()).not.toContain('Sixteen')
    expect(decodeState(sealed, beside)).toEqual(details)
    // If the text differs from the text next to it, all is sealed.
    expect(decodeState(encodeState(details, 'Fifteen.'), 'Fifteen.')).toEqual(details)
  })

  test.each([
    ['nothing', ''],
    ['a signature of somebody else', 'EqQBCkYIBxgCKkA='],
    ['no JSON', `tg1.${Buffer.from('[{').toString('base64url')}`],
    ['no base64', 'tg1.%%%'],
    ['no list', `tg1.${Buffer.from('{"type":"reasoning.text"}').toString('base64url')}`],
    ['a list of something else', `tg1.${Buffer.from('[1]').toString('base64url')}`],
    ['lengths that are none', `tg1.${Buffer.from('[{"type":"reasoning.text","units":"1"}]').toString('base64url')}`],
    ['more values than its length allows', `tg1.${Buffer.from(`[${'{},'.repeat(2_000)}{}]`).toString('base64url')}`],
    [
      'more values than any thought has',
      `tg1.${Buffer.from(`[${'{},'.repeat(700_000)}{"a":"${'x'.repeat(17_000_000)}"}]`).toString('base64url')}`,
    ],
    [
      'what is nested too deeply',
      `tg1.${Buffer.from(`[{"a":${'['.repeat(20)}${']'.repeat(20)}}]`).toString('base64url')}`,
    ],
  ])("isn't read from %s", (_, sealed) => {
    expect(decodeState(sealed)).toBeNull()
  })

  test('that is longer than the text next to it gets the text there is', () => {
    const sealed = `tg1.${Buffer.from('[{"type":"reasoning.text","units":1e9},{"type":"reasoning.text","units":-5}]').toString('base64url')}`
    expect(decodeState(sealed, 'abc')).toEqual([
      { type: 'reasoning.text', text: 'abc' },
      { type: 'reasoning.text', text: '' },
    ])
  })
})
