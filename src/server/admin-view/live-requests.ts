/**
 * Finished requests as server-sent events. Batched, so that thousands per second take few writes. Slow readers get the
 * newest requests and a count of dropped ones. Costs nothing without followers.
 */
import type { Finished } from '../../accounting/settle.ts'
import type { LastingAsker } from '../../admin/deps.ts'
import { type Names, toFinishedDocument } from '../../documents/request.ts'
import type { Snapshot } from '../../domain/snapshot.ts'
import { redact } from '../../log.ts'
import type { SettledRow } from '../../store/ledger-rows.ts'
import { isWanted, type RequestFilter } from '../../store/report-store.ts'

/** Clients and proxies close connections that are silent for minutes. */
const ALIVE_MS = 15_000
const ALIVE = ':\n\n'
/** How long a reader that stopped reading may delay a stop. */
export const END_MS = 200
/** Maximum followers: of all members together, so that they can't block others, and per user or token. */
const MAX = { members: 16, each: 6 }
const CHECK_MS = 15_000

interface Form {
  /** Maximum followers. Each uses memory, and time per finished request. */
  most: number
  /** Buffered requests per follower, about 700 bytes each. */
  mostWaiting: number
  gatherMs: number
}

/** A page shows the newest hundred. Its effect on other requests isn't measurable. */
const PAGES: Form = { most: 32, mostWaiting: 50, gatherMs: 250 }
const COMMANDS: Form = { most: 8, mostWaiting: 1_000, gatherMs: 50 }

const HEADERS = {
  ...{ 'content-type': 'text/event-stream', 'cache-control': 'no-store' },
  // Disables buffering in proxies.
  'x-accel-buffering': 'no',
}

type Controller = Pick<ReadableStreamDirectController, 'write' | 'flush' | 'close'>
type Named = Pick<Snapshot, 'secrets' | 'teams'>

type LazyText = () => string

class Tail {
  #waiting: LazyText[] = []
  #dropped = 0
  #last = ''
  #isOver = false
  #wake = () => {}

  constructor(
    readonly filter: RequestFilter,
    readonly form: Form,
  ) {}

  dropped(count: number): void {
    this.#dropped += count
    this.#wake()
  }

  push(line: LazyText): void {
    if (this.#waiting.length >= this.form.mostWaiting) {
      this.#waiting.shift()
      this.#dropped++
    }
    this.#waiting.push(line)
    this.#wake()
  }

  /** Pending events are still sent, followed by `last`. */
  end(last = ''): void {
    this.#last += last
    this.#isOver = true
    this.#wake()
  }

  /** Writes until ended. Throws, or never returns, if its reader disconnects. */
  async pump(controller: Controller): Promise<void> {
    // The first byte confirms the subscription.
    let text = ALIVE
    for (;;) {
      const written = controller.write(text)
      controller.flush()
      // A direct stream buffers without limit unless this is awaited (https://github.com/oven-sh/bun/issues/32469).
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
    return this.#take() || ALIVE
  }

  #take(): string {
    const dropped = this.#dropped > 0 ? toEvent('dropped', { dropped: this.#dropped }) : ''
    const lines = this.#waiting.map((toText) => toText()).join('')
    const last = this.#last
    this.#dropped = 0
    this.#waiting = []
    this.#last = ''
    return dropped + lines + last
  }
}

class Tails {
  readonly #tails = new Map<Tail, Promise<void>>()
  readonly #form: Form
  readonly #toText: (row: SettledRow, reason: string | null) => string
  readonly #onChange: () => void | Promise<void>
  #isOver = false

  constructor(
    form: Form,
    toText: (row: SettledRow, reason: string | null) => string,
    onChange: () => void | Promise<void>,
  ) {
    this.#form = form
    this.#toText = toText
    this.#onChange = onChange
  }

  get size(): number {
    return this.#tails.size
  }

  dropped(count: number): void {
    for (const tail of this.#tails.keys()) tail.dropped(count)
  }

  finished({ row, reason }: Pick<Finished, 'row' | 'reason'>): void {
    if (this.#tails.size === 0) return
    let text: string | null = null
    const toText = () => {
      text ??= redact(this.#toText(row, reason))
      return text
    }
    for (const tail of this.#tails.keys()) if (isWanted(row, tail.filter)) tail.push(toText)
  }

  /**
   * Null if there are too many followers, or the tail has stopped.
   * @param onLeft called once at the end.
   */
  follow(filter: RequestFilter, signal: AbortSignal, onLeft = () => {}): Response | null {
    if (this.#isOver || this.#tails.size >= this.#form.most) return null
    const tail = new Tail(filter, this.#form)
    const { promise, resolve } = Promise.withResolvers<void>()
    const leave = () => {
      if (this.#tails.delete(tail)) {
        onLeft()
        void this.#onChange()
      }
      tail.end()
      resolve()
    }
    this.#tails.set(tail, promise)
    const ready = this.#onChange()
    signal.addEventListener('abort', leave, { once: true })
    // An aborted signal fires no event.
    if (signal.aborted) leave()
    const stream = new ReadableStream({
      type: 'direct',
      async pull(controller) {
        try {
          await ready
          await tail.pump(controller)
          controller.close()
        } catch {
          // The reader has disconnected.
        } finally {
          leave()
        }
      },
      cancel: leave,
    })
    return new Response(stream, { headers: HEADERS })
  }

  /** Waits for readers. Resolves to whether there were any. */
  async end(): Promise<boolean> {
    this.#isOver = true
    const ended = [...this.#tails.values()]
    for (const tail of this.#tails.keys()) tail.end(toEvent('end', { end: 'stopped' }))
    if (ended.length > 0) await Promise.race([Promise.all(ended), Bun.sleep(END_MS)])
    return ended.length > 0
  }
}

export interface LiveRequestsDeps {
  snapshot(): Named
  /** For tests: interval of permission checks, ms. */
  checkMs?: number
}

export function createLiveRequests({ snapshot, checkMs = CHECK_MS }: LiveRequestsDeps) {
  const namesOf = createNames()
  // Requests use the default event name; others are named.
  const toText = (row: SettledRow, reason: string | null) =>
    `data: ${JSON.stringify(toFinishedDocument(row, reason, namesOf(snapshot())))}\n\n`
  /** With an observer, a follower gets its first byte once other processes know the follower. */
  let observe: (isFollowed: boolean) => void | Promise<void> = () => {}
  const isFollowed = () => pages.size + commands.size > 0
  const onChange = () => observe(isFollowed())
  const pages = new Tails(PAGES, toText, onChange)
  const commands = new Tails(COMMANDS, toText, onChange)
  const counts = new Map<string, number>()
  let members = 0

  return {
    finished(finished: Pick<Finished, 'row' | 'reason'>): void {
      pages.finished(finished)
      commands.finished(finished)
    },
    /** Counts requests of other processes that never arrived here. */
    dropped(count: number): void {
      pages.dropped(count)
      commands.dropped(count)
    },
    isFollowed,
    /** Sets a function to call whenever following starts or stops. */
    observe(by: (isFollowed: boolean) => void | Promise<void>): void {
      observe = by
    },
    followByCommand: (filter: RequestFilter, signal: AbortSignal): Response | null => commands.follow(filter, signal),
    /**
     * Null if there are too many followers.
     * @param isLetIn whether the follower still has permission; checked regularly.
     */
    follow(
      { id, signal, ownerId }: LastingAsker,
      filter: RequestFilter,
      isLetIn: () => Promise<boolean>,
    ): Response | null {
      const count = counts.get(id) ?? 0
      const isMember = ownerId !== undefined
      if (count >= MAX.each || (isMember && members >= MAX.members)) return null
      const over = new AbortController()
      const look = async () => {
        if (!(await isLetIn().catch(() => false))) over.abort()
      }
      const timer = setInterval(look, checkMs).unref()
      counts.set(id, count + 1)
      if (isMember) members++
      const leave = () => {
        clearInterval(timer)
        if (isMember) members--
        const left = (counts.get(id) ?? 1) - 1
        if (left === 0) counts.delete(id)
        else counts.set(id, left)
      }
      const response = pages.follow(filter, AbortSignal.any([signal, over.signal]), leave)
      if (response === null) leave()
      return response
    },
    end: () => pages.end(),
    /** Ends followers in commands, which still get all finished requests. Resolves to whether there were any. */
    endCommands: () => commands.end(),
  }
}

export type LiveRequests = ReturnType<typeof createLiveRequests>

const toEvent = (name: string, data: object) => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`

/** Cached per snapshot. */
function createNames(): (snapshot: Named) => Names {
  let latest: { of: Named; names: Names } | null = null
  return (snapshot) => {
    if (latest?.of === snapshot) return latest.names
    const keys = new Map([...snapshot.secrets.values()].map(({ key: { id, name } }) => [id, name]))
    const teams = new Map([...snapshot.teams.values()].map(({ id, name }) => [id, name]))
    latest = { of: snapshot, names: { keys, teams } }
    return latest.names
  }
}
