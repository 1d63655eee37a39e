/** Text from bytes: the same as TextDecoder gives for all at once, wherever they are split. */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { Utf8Reader } from '../../src/upstreams/framing.ts'

const AT_ONCE = new TextDecoder('utf-8', { ignoreBOM: true })

/** Characters of every length, halves of them, and invalid bytes. */
const bytes = fc
  .array(
    fc.oneof(
      fc.string({ unit: 'binary', maxLength: 4 }).map((text) => Buffer.from(text)),
      fc.uint8Array({ maxLength: 4 }),
      fc.constantFrom([0xef, 0xbb, 0xbf], [0xf0, 0x9f], [0xe2, 0x82], [0xed, 0xa0, 0x80], [0xc0, 0x80], [0x0a]),
    ),
    { maxLength: 20 },
  )
  .map((all) => Buffer.concat(all.map((each) => Uint8Array.from(each))))

test('arbitrary bytes, wherever they are split', () => {
  fc.assert(
    fc.property(bytes, fc.array(fc.nat(80)), fc.boolean(), (all, cuts, isBuffer) => {
      const whole = isBuffer ? all : new Uint8Array(all)
      const reader = new Utf8Reader()
      let text = ''
      let from = 0
      for (const to of [...cuts.map((at) => Math.min(at, whole.length)).sort((a, b) => a - b), whole.length]) {
        text += reader.read(whole, from, to)
        from = to
      }
      expect(text + reader.end()).toBe(AT_ONCE.decode(whole))
    }),
    { numRuns: 3_000 },
  )
})
