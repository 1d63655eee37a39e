/**
 * Turns the body of an upstream's stream into canonical events, one batch a read. Written by hand around one promise a
 * read: an async generator, or an async function more, costs a good deal per chunk (platform-notes 1).
 */

import type { AnswerEvent } from '../domain/answer.ts'
import { UpstreamError } from '../domain/error.ts'
import type { Decoder } from './backend.ts'
import { createSseReader, SseTooLarge } from './sse.ts'

export interface Reading {
  decoder: Decoder
  /** Of one event; a longer one breaks the stream off. */
  maxEventBytes: number
  /** Some bytes came, be they only a comment: the upstream lives. */
  onBytes(): void
  /** True while a batch is with the client, and nobody waits for the upstream. */
  onPause(paused: boolean): void
  /** The first event came. */
  onBegin(): void
  /** Nothing more will be read. */
  onEnd(): void
  /** Names what broke the reading off, and gives up the call. */
  fail(error: unknown): UpstreamError
}

type Batch = IteratorResult<AnswerEvent[]>

/** Iterates over a body. The last batch ends in `done` or `failure`; leaving early gives up the call. */
export function readEvents(body: ReadableStream<Uint8Array>, reading: Reading): AsyncIterable<AnswerEvent[]> {
  const { decoder, maxEventBytes } = reading
  const reader = body.getReader()
  const sse = createSseReader(maxEventBytes)
  const utf8 = new TextDecoder()
  let over = false
  let begun = false

  const close = (events: AnswerEvent[]): Batch => {
    over = true
    reading.onEnd()
    reader.cancel().catch(() => {})
    return { done: false, value: events }
  }
  const decode = (text: string): AnswerEvent[] => {
    const events: AnswerEvent[] = []
    for (const event of sse.feed(text)) for (const answer of decoder.event(event)) events.push(answer)
    return events
  }
  const decodeEnd = (): AnswerEvent[] => {
    const events = decode(utf8.decode())
    for (const event of sse.end()) events.push(...decoder.event(event))
    events.push(...decoder.end())
    return events
  }
  const take = ({ done, value }: { done: boolean; value?: Uint8Array | undefined }): Batch | Promise<Batch> => {
    if (done || !value) return close(decodeEnd())
    reading.onBytes()
    const events = decode(utf8.decode(value, { stream: true }))
    const last = events.at(-1)
    if (!last) return next()
    if (!begun) reading.onBegin()
    begun = true
    if ('done' in last || 'failure' in last) return close(events)
    reading.onPause(true)
    return { done: false, value: events }
  }
  const fail = (error: unknown): Batch => {
    const reason =
      error instanceof SseTooLarge
        ? new UpstreamError('broken', `sent an event of more than ${Math.round(maxEventBytes / 1024 ** 2)} MiB`)
        : error
    return close([{ failure: reading.fail(reason) }])
  }
  const tryTake = (read: { done: boolean; value?: Uint8Array | undefined }): Batch | Promise<Batch> => {
    try {
      return take(read)
    } catch (error) {
      return fail(error)
    }
  }
  const next = (): Promise<Batch> => {
    if (over) return Promise.resolve({ done: true, value: undefined })
    reading.onPause(false)
    return reader.read().then(tryTake, fail)
  }

  return {
    [Symbol.asyncIterator]: () => ({
      next,
      async return() {
        if (!over) {
          reading.fail(new UpstreamError('aborted', 'the answer is no longer wanted', { retryable: false }))
          close([])
        }
        return { done: true, value: undefined }
      },
    }),
  }
}
