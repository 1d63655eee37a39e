/**
 * Who follows the requests of a running server as they finish, over its control socket. A line each, gathered for a moment, so
 * that thousands a second are few writes; a reader that does not keep up loses lines and is told how many. Where nobody
 * follows, a request costs one look.
 */
import type { Finished } from '../accounting/settle.ts'
import { redact } from '../log.ts'
import { isWanted, type RequestFilter } from '../store/request-store.ts'
import type { TailLine } from './protocol.ts'

/** At a time: each holds some memory, and every finished request looks at each. */
const MAX_TAILS = 8
/** Lines of one that wait for its reader; some 700 bytes each. */
const MAX_WAITING = 1_000
const GATHER_MS = 50
/** Clients and proxies give up on a connection that says nothing for minutes. */
const ALIVE_MS = 15_000
/** Whoever reads nothing does not hold up a stop for longer. */
export const END_MS = 200

type Controller = Pick<ReadableStreamDirectController, 'write' | 'flush' | 'close'>

class Tail {
  #waiting: string[] = []
  #dropped = 0
  #isOver = false
  #wake = () => {}

  constructor(readonly filter: RequestFilter) {}

  push(line: string): void {
    if (this.#waiting.length >= MAX_WAITING) {
      this.#dropped++
      return
    }
    this.#waiting.push(line)
    this.#wake()
  }

  /** What is waiting is still written, and this line behind it. */
  end(line?: string): void {
    if (this.#dropped > 0) this.#waiting.push(this.#takeDropped())
    if (line !== undefined) this.#waiting.push(line)
    this.#isOver = true
    this.#wake()
  }

  /** Writes whatever comes until it is ended. Throws, or never returns, where its reader has left. */
  async pump(controller: Controller): Promise<void> {
    // Its reader learns from the first byte that it is followed.
    let text = '\n'
    for (;;) {
      const written = controller.write(text)
      controller.flush()
      // A direct stream takes all that is written unless this is awaited (https://github.com/oven-sh/bun/issues/32469).
      if (typeof written !== 'number') await written
      if (this.#isOver && this.#waiting.length === 0) return
      text = await this.#next()
    }
  }

  async #next(): Promise<string> {
    if (!this.#isOver) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#wake = resolve
      const timer = setTimeout(resolve, ALIVE_MS)
      if (this.#waiting.length === 0) await promise
      clearTimeout(timer)
      if (this.#waiting.length > 0 && !this.#isOver) await Bun.sleep(GATHER_MS)
    }
    const lines = this.#waiting
    this.#waiting = []
    if (this.#dropped > 0) lines.push(this.#takeDropped())
    return lines.length > 0 ? lines.join('') : '\n'
  }

  #takeDropped(): string {
    const line = toLine({ dropped: this.#dropped })
    this.#dropped = 0
    return line
  }
}

const toLine = (line: TailLine): string => redact(`${JSON.stringify(line)}\n`)

export class Tails {
  readonly #tails = new Map<Tail, Promise<void>>()

  /** A listener to finished requests. */
  finished({ row, reason }: Pick<Finished, 'row' | 'reason'>): void {
    if (this.#tails.size === 0) return
    let line: string | null = null
    for (const tail of this.#tails.keys()) {
      if (!isWanted(row, tail.filter)) continue
      line ??= toLine({ row, reason })
      tail.push(line)
    }
  }

  /**
   * The answer of lines to one that follows, which ends when its client leaves or the server stops. Null where too many follow
   * already.
   */
  follow(filter: RequestFilter, signal: AbortSignal): Response | null {
    if (this.#tails.size >= MAX_TAILS) return null
    const tail = new Tail(filter)
    const { promise, resolve } = Promise.withResolvers<void>()
    const leave = () => {
      this.#tails.delete(tail)
      tail.end()
      resolve()
    }
    this.#tails.set(tail, promise)
    signal.addEventListener('abort', leave, { once: true })
    const stream = new ReadableStream({
      type: 'direct',
      async pull(controller) {
        try {
          await tail.pump(controller)
          controller.close()
        } catch {
          // Its reader has left.
        } finally {
          leave()
        }
      },
      cancel: leave,
    })
    return new Response(stream, { headers: { 'content-type': 'application/x-ndjson', 'cache-control': 'no-store' } })
  }

  /** Tells everyone that the server stops, and lets those end who read. Resolves to whether there was anyone. */
  async end(): Promise<boolean> {
    const ended = [...this.#tails.values()]
    for (const tail of this.#tails.keys()) tail.end(toLine({ end: 'stopped' }))
    if (ended.length > 0) await Promise.race([Promise.all(ended), Bun.sleep(END_MS)])
    return ended.length > 0
  }
}
