/** Made-up answers: whole ones, and streams of batches. */
import type { Answer, AnswerEvent, AnswerStream, Take } from '../../src/domain/events.ts'

export const text = (said: string, choice = 0): AnswerEvent => ({ kind: 'text', choice, text: said })
export const stop = (choice = 0): AnswerEvent => ({ kind: 'finish', choice, reason: 'stop' })
export const DONE: AnswerEvent = { kind: 'done' }

export const toWhole = (...events: AnswerEvent[]): Answer => ({
  events: [...events, stop(), DONE],
  rest: null,
  upstreamRequestId: null,
})

/** A stream of batches; it throws an error given as a batch. */
export const toStreamed = (...batches: (AnswerEvent[] | Error)[]): Answer => ({
  events: [],
  rest: new ScriptedStream(batches),
  upstreamRequestId: null,
})

class ScriptedStream implements AnswerStream {
  readonly #left: (AnswerEvent[] | Error)[]

  constructor(batches: readonly (AnswerEvent[] | Error)[]) {
    this.#left = [...batches]
  }

  async pump(take: Take): Promise<void> {
    for (let batch = this.#left.shift(); batch; batch = this.#left.shift()) {
      if (batch instanceof Error) throw batch
      await Promise.resolve()
      if (!(await take(batch))) return
    }
  }

  close(): void {
    this.#left.length = 0
  }
}
