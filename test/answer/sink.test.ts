/** The writing end of a stream: it waits only where the client must read first, and not for ever. */
import { expect, test } from 'bun:test'
import { createSink } from '../../src/answer/sink.ts'

function open(answer: number | Promise<number>, slowReaderMs = 60_000) {
  const client = new AbortController()
  const written: unknown[] = []
  const controller: ReadableStreamDirectController = {
    write(text) {
      written.push(text)
      return answer
    },
    flush: () => 0,
    end: () => 0,
    close() {
      throw new Error('closed already')
    },
    start() {},
  }
  return { client, written, sink: createSink(controller, client.signal, slowReaderMs) }
}

const never = () => new Promise<number>(() => {})

test('a write that fits is not waited for', () => {
  const { sink, written } = open(4)
  expect(sink.write('text')).toBeUndefined()
  expect(written).toEqual(['text'])
})

test('a full buffer is waited for until it has room', async () => {
  const room = Promise.withResolvers<number>()
  const waiting = open(room.promise).sink.write('text')
  expect(waiting).toBeInstanceOf(Promise)
  room.resolve(4)
  await waiting
})

test('a client that leaves while it is waited for ends the writing', async () => {
  const { sink, client } = open(never())
  const waiting = sink.write('text')
  client.abort()
  await expect(waiting ?? Promise.resolve()).rejects.toMatchObject({ kind: 'aborted' })
  expect(() => sink.write('more')).toThrow('the client left')
})

test('a client that does not read for too long ends it too', async () => {
  const { sink } = open(never(), 10)
  await expect(sink.write('text') ?? Promise.resolve()).rejects.toMatchObject({ kind: 'aborted' })
})

test('closing twice is no error', () => {
  expect(() => open(0).sink.close()).not.toThrow()
})
