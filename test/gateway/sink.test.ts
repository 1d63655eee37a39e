/** The writing end of a stream: it waits only for the client to read, and not forever. */

import { describe, expect, test } from 'bun:test'
import { Sink, type SinkOptions } from '../../src/gateway/stream.ts'

function open(answer: number | Promise<number>, options: Partial<SinkOptions> = {}) {
  const client = new AbortController()
  const written: unknown[] = []
  const controller = {
    write(text: unknown) {
      written.push(text)
      return answer
    },
    flush: () => 0,
    close() {
      throw new Error('closed already')
    },
  }
  return {
    client,
    written,
    sink: new Sink(
      controller,
      client.signal,
      { heartbeatMs: 0, slowReaderMs: 60_000, ...options },
      { keepAlive: ': keep-alive\n\n' },
    ),
  }
}

const never = () => new Promise<number>(() => {})

test("a write that fits doesn't wait", () => {
  const { sink, written } = open(4)
  expect(sink.write('text')).toBeUndefined()
  expect(written).toEqual(['text'])
})

test('a full buffer is waited for until it is read', async () => {
  const room = Promise.withResolvers<number>()
  const waiting = open(room.promise).sink.write('text')
  expect(waiting).toBeInstanceOf(Promise)
  room.resolve(4)
  await waiting
})

test('a client that disconnects during the wait ends the writing', async () => {
  const { sink, client } = open(never())
  const waiting = sink.write('text')
  client.abort()
  await expect(waiting ?? Promise.resolve()).rejects.toMatchObject({ kind: 'aborted' })
  expect(() => sink.write('more')).toThrow('the client disconnected')
})

test('a server that stops waits for no reader, and still writes its last frame', async () => {
  const { sink, client, written } = open(never())
  const waiting = sink.write('text')
  client.abort('stopped')
  await expect(waiting ?? Promise.resolve()).rejects.toMatchObject({ end: 'stopped' })
  // The tail of an answer already settled as whole.
  await expect(sink.write('tail') ?? Promise.resolve()).rejects.toMatchObject({ end: 'stopped' })
  sink.end('the reason')
  expect(written).toEqual(['text', 'tail', 'the reason'])
})

test("a client that doesn't read for too long ends it, too, and gets the reason if it ever reads again", async () => {
  const { sink, written } = open(never(), { slowReaderMs: 10 })
  await expect(sink.write('text') ?? Promise.resolve()).rejects.toMatchObject({ kind: 'slow_reader' })
  sink.end('the reason')
  expect(written).toEqual(['text', 'the reason'])
})

test('closing twice is no error', () => {
  expect(() => open(0).sink.close()).not.toThrow()
})

describe('heartbeats', () => {
  const BEAT = ': keep-alive\n\n'

  test('come after every silence, and none during writes', async () => {
    const { sink, written } = open(4, { heartbeatMs: 20 })
    sink.write('text')
    await until(() => written.length === 3)
    sink.close()
    expect(written).toEqual(['text', BEAT, BEAT])
  })

  test("don't pile up for a client that doesn't read", async () => {
    const { sink, written } = open(never(), { heartbeatMs: 5, slowReaderMs: 100 })
    await expect(sink.write('text') ?? Promise.resolve()).rejects.toMatchObject({ kind: 'slow_reader' })
    sink.close()
    expect(written).toEqual(['text'])
  })

  test("count silence from the client's last read, so that none comes within a large event", async () => {
    const room = Promise.withResolvers<number>()
    const { sink, written } = open(room.promise, { heartbeatMs: 60_000 })
    const waiting = sink.write('half of an event')
    for (let look = 0; look < 10; look++) sink.look()
    room.resolve(4)
    await waiting
    sink.look()
    sink.close()
    expect(written).toEqual(['half of an event'])
  })

  test('end with the stream', async () => {
    const { sink, written } = open(4, { heartbeatMs: 5 })
    sink.close()
    await Bun.sleep(20)
    expect(written).toEqual([])
  })
})

async function until(test: () => boolean): Promise<void> {
  while (!test()) await Bun.sleep(1)
}
