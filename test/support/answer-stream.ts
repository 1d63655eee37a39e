/** Shared tests of every kind of answer stream. */
import { describe, expect, test } from 'bun:test'
import type { AnswerEvent, AnswerStream } from '../../src/domain/events.ts'

/** Each text is its own batch unless the reader is slow. */
export type OpenStream = (texts: readonly string[]) => Promise<AnswerStream> | AnswerStream

const WORDS = Array.from({ length: 12 }, (_, at) => `word ${at} `)
const ALL = WORDS.join('')

const textOf = (events: readonly AnswerEvent[]) =>
  events.map((event) => (event.kind === 'text' ? event.text : '')).join('')

export function testAnswerStream(open: OpenStream): void {
  describe('every stream of a response', () => {
    test('hands over all batches, ends in `done`, and then has no more', async () => {
      const stream = await open(WORDS)
      const events: AnswerEvent[] = []
      const take = (batch: readonly AnswerEvent[]) => {
        expect(batch.length).toBeGreaterThan(0)
        return events.push(...batch) > 0
      }
      await stream.pump(take)
      expect(textOf(events)).toBe(ALL)
      expect(events.at(-1)).toEqual({ kind: 'done' })
      expect(events.filter(({ kind }) => kind === 'done')).toHaveLength(1)
      const count = events.length
      await stream.pump(take)
      expect(events).toHaveLength(count)
    })

    test.each([
      ['a plain no', () => false],
      ['a no that takes time', () => Bun.sleep(1).then(() => false)],
    ])('stops after %s, and goes on where it was', async (_, answer) => {
      const stream = await open(WORDS)
      const events: AnswerEvent[] = []
      let pumps = 0
      while (events.at(-1)?.kind !== 'done') {
        let batches = 0
        await stream.pump((batch) => {
          events.push(...batch)
          batches++
          return answer()
        })
        pumps++
        expect(batches).toBe(1)
      }
      expect(textOf(events)).toBe(ALL)
      expect(pumps).toBeGreaterThan(1)
    })

    test('hands over no batch until the reader has taken the one before', async () => {
      const stream = await open(WORDS)
      let busy = false
      let text = ''
      await stream.pump(async (batch) => {
        expect(busy).toBe(false)
        busy = true
        await Bun.sleep(2)
        text += textOf(batch)
        busy = false
        return true
      })
      expect(text).toBe(ALL)
    })

    test.each([
      [
        'throws',
        () => {
          throw new TypeError('a bug')
        },
      ],
      ['rejects with', () => Promise.reject(new TypeError('a bug'))],
    ])('passes on what its reader %s', async (_, take) => {
      const stream = await open(WORDS)
      await expect(stream.pump(take)).rejects.toThrow(new TypeError('a bug'))
      stream.close()
    })

    test('may be closed before it is read, and repeatedly', async () => {
      const stream = await open(WORDS)
      stream.close()
      stream.close()
      let text = ''
      await stream.pump((batch) => {
        text += textOf(batch)
        return true
      })
      expect(text).toBe('')
      stream.close()
    })

    test('hands over nothing more if it is closed during a read', async () => {
      const stream = await open(WORDS)
      let batches = 0
      await stream.pump(() => {
        batches++
        stream.close()
        return true
      })
      expect(batches).toBe(1)
    })

    test('hands over nothing more if it is closed while its reader waits', async () => {
      const stream = await open(WORDS)
      const batches: string[] = []
      let wait = () => {}
      const waiting = new Promise<void>((resolve) => {
        wait = resolve
      })
      const pumping = stream.pump((batch) => {
        batches.push(batch.map(({ kind }) => kind).join())
        wait()
        return true
      })
      await waiting
      const count = batches.length
      stream.close()
      await pumping
      expect(batches.slice(count)).toEqual([])
    })
  })
}
