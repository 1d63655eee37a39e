/**
 * Who follows the requests of a running server as they finish: over its control socket, a line each, and in the dashboard
 * (`live-requests.ts`). What comes is gathered for a moment, so that thousands a second are few writes; of more than are kept for
 * that moment, or for a reader that is slower, the newest stay, and how many were left out is told before them. Where nobody follows, a
 * request costs one look; where somebody does, it costs its text only if that is written.
 */
import type { Finished } from '../accounting/settle.ts'
import { redact } from '../log.ts'
import { isWanted, type RequestFilter } from '../store/report-store.ts'
import type { TailLine } from './protocol.ts'

/** Clients and proxies give up on a connection that says nothing for minutes. */
const ALIVE_MS = 15_000
/** Whoever reads nothing does not hold up a stop for longer. */
export const END_MS = 200

type Controller = Pick<ReadableStreamDirectController, 'write' | 'flush' | 'close'>

/** How followers are told. */
export interface TailForm {
  /** How many may follow at a time: each holds some memory, and every finished request looks at each. */
  most: number
  /** The content type, and what other headers the answer has. */
  type: string
  headers?: Record<string, string>
  /** What says nothing but that there is somebody: first of all, and then now and then. */
  alive: string
  /** Requests that are kept for a reader; some 700 bytes each. */
  mostWaiting: number
  gatherMs: number
  toText(line: TailLine): string
}

/** A JSON object a line, as `protocol.ts` has it. */
const LINES: TailForm = {
  most: 8,
  type: 'application/x-ndjson',
  alive: '\n',
  mostWaiting: 1_000,
  gatherMs: 50,
  toText: (line) => `${JSON.stringify(line)}\n`,
}

/** A finished request, as text once somebody reads it. */
type Line = () => string

class Tail {
  #waiting: Line[] = []
  #dropped = 0
  #last = ''
  #isOver = false
  #wake = () => {}

  constructor(
    readonly filter: RequestFilter,
    readonly form: TailForm,
  ) {}

  push(line: Line): void {
    if (this.#waiting.length >= this.form.mostWaiting) {
      this.#waiting.shift()
      this.#dropped++
    }
    this.#waiting.push(line)
    this.#wake()
  }

  /** What is waiting is still written, and this text behind it. */
  end(last = ''): void {
    this.#last += last
    this.#isOver = true
    this.#wake()
  }

  /** Writes whatever comes until it is ended. Throws, or never returns, where its reader has left. */
  async pump(controller: Controller): Promise<void> {
    // Its reader learns from the first byte that it is followed.
    let text = this.form.alive
    for (;;) {
      const written = controller.write(text)
      controller.flush()
      // A direct stream takes all that is written unless this is awaited (https://github.com/oven-sh/bun/issues/32469).
      if (typeof written !== 'number') await written
      if (this.#isOver && this.#waiting.length === 0 && this.#last === '') return
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
      if (this.#waiting.length > 0 && !this.#isOver) await Bun.sleep(this.form.gatherMs)
    }
    return this.#take() || this.form.alive
  }

  /** All that is to be written, which then waits no more. */
  #take(): string {
    const dropped = this.#dropped > 0 ? this.form.toText({ dropped: this.#dropped }) : ''
    const lines = this.#waiting.map((toText) => toText()).join('')
    const last = this.#last
    this.#dropped = 0
    this.#waiting = []
    this.#last = ''
    return dropped + lines + last
  }
}

export class Tails {
  readonly #tails = new Map<Tail, Promise<void>>()
  readonly #form: TailForm
  #isOver = false

  constructor(form: TailForm = LINES) {
    this.#form = form
  }

  /** A listener to finished requests. */
  finished({ row, reason }: Pick<Finished, 'row' | 'reason'>): void {
    if (this.#tails.size === 0) return
    let text: string | null = null
    const toText = () => {
      text ??= redact(this.#form.toText({ row, reason }))
      return text
    }
    for (const tail of this.#tails.keys()) if (isWanted(row, tail.filter)) tail.push(toText)
  }

  /**
   * The answer to one that follows, which ends when its client leaves or the server stops. Null where too many follow already, or
   * it has stopped.
   *
   * @param onLeft called once, when it has ended.
   */
  follow(filter: RequestFilter, signal: AbortSignal, onLeft = () => {}): Response | null {
    if (this.#isOver || this.#tails.size >= this.#form.most) return null
    const tail = new Tail(filter, this.#form)
    const { promise, resolve } = Promise.withResolvers<void>()
    const leave = () => {
      if (this.#tails.delete(tail)) onLeft()
      tail.end()
      resolve()
    }
    this.#tails.set(tail, promise)
    signal.addEventListener('abort', leave, { once: true })
    // Of one that is over already nobody is told.
    if (signal.aborted) leave()
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
    const { type, headers } = this.#form
    return new Response(stream, { headers: { 'content-type': type, 'cache-control': 'no-store', ...headers } })
  }

  /** Tells everyone that the server stops, and lets those end who read. Resolves to whether there was anyone. */
  async end(): Promise<boolean> {
    this.#isOver = true
    const ended = [...this.#tails.values()]
    for (const tail of this.#tails.keys()) tail.end(this.#form.toText({ end: 'stopped' }))
    if (ended.length > 0) await Promise.race([Promise.all(ended), Bun.sleep(END_MS)])
    return ended.length > 0
  }
}
