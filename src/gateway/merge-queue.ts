/**
 * Merges several producers into one stream of events that is read at its reader's pace: `put` resolves once the batch was
 * taken, so no producer is more than one batch ahead.
 */
import type { AnswerEvent, AnswerStream, Take } from '../domain/events.ts'

interface Waiting {
  events: readonly AnswerEvent[]
  taken(yes: boolean): void
}

export class MergeQueue implements AnswerStream {
  readonly #waiting: Waiting[] = []
  #last: readonly AnswerEvent[] | null = null
  #error: unknown = null
  #wake = () => {}
  #isOver = false

  /** @param onLeave called once where the reader leaves before the end. */
  constructor(readonly onLeave: () => void) {}

  /** Resolves true once the batch was taken; false where nobody reads any more. */
  put(events: readonly AnswerEvent[]): Promise<boolean> {
    if (this.#isOver) return Promise.resolve(false)
    return new Promise((taken) => {
      this.#waiting.push({ events, taken })
      this.#wake()
    })
  }

  /** Adds the end. Nothing may be put after it. */
  end(): void {
    this.#last = [{ kind: 'done' }]
    this.#wake()
  }

  /** Ends it in an error, which the reader is thrown after what was put. Nothing may be put after it. */
  fail(error: unknown): void {
    this.#error = error
    this.end()
  }

  async pump(take: Take): Promise<void> {
    while (!this.#isOver) {
      const batch = this.#next()
      if (batch === null) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
        continue
      }
      const went = take(batch)
      if (went !== true && (went === false || !(await went))) return
    }
  }

  close(): void {
    if (!this.#isOver) this.onLeave()
    this.#isOver = true
    for (const { taken } of this.#waiting.splice(0)) taken(false)
    this.#wake()
  }

  #next(): readonly AnswerEvent[] | null {
    const first = this.#waiting.shift()
    if (first) {
      first.taken(true)
      return first.events
    }
    if (this.#last === null) return null
    this.#isOver = true
    if (this.#error !== null) throw this.#error
    return this.#last
  }
}
