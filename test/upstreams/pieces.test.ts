/** Buffered bytes: in order, and without a reference to their source. */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { Pieces } from '../../src/upstreams/pieces.ts'

test('are returned in order, however they are taken', async () => {
  const piece = fc.tuple(fc.uint8Array({ minLength: 1, maxLength: 50 }), fc.nat(200), fc.boolean())
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { maxLength: 40 }), async (pieces) => {
      const waiting = new Pieces()
      const out: number[] = []
      for (const [bytes, around, isTaken] of pieces) {
        const whole = new Uint8Array(bytes.length + around)
        whole.set(bytes, around)
        waiting.push(whole.subarray(around))
        if (isTaken) out.push(...(waiting.shift() ?? []))
      }
      out.push(...(pieces.length % 2 === 0 ? waiting.join() : await waiting.joinOwn(async (work) => work())))
      expect(out).toEqual(pieces.flatMap(([bytes]) => [...bytes]))
      expect(waiting.bytes).toBe(0)
    }),
  )
})

test.each([1, 64])('one byte at a time from reads of %d takes hardly more memory than the bytes', (size) => {
  const waiting = new Pieces()
  for (let each = 0; each < 100_000; each++) waiting.push(new Uint8Array(size).subarray(0, 1))
  const buffers = new Set<ArrayBufferLike>()
  for (let piece = waiting.shift(); piece; piece = waiting.shift()) buffers.add(piece.buffer)
  const held = [...buffers].reduce((sum, { byteLength }) => sum + byteLength, 0)
  expect(held).toBeLessThan(300_000)
  expect(buffers.size).toBeLessThan(50)
})
