/**
 * The requests of a server as they finish, for pages of the dashboard and for `requests tail`: server-sent events, a document each. What
 * comes is gathered for a moment, so that thousands a second are few writes; of more than are kept for that moment, or for a reader that
 * is slower, the newest stay, and how many were left out is told before them. Where nobody follows, a request costs two looks; where
 * somebody does, it costs its text only if that is written. `server.ts` makes it.
 */
import type { Finished } from '../../accounting/settle.ts'
import type { LastingAsker } from '../../admin/deps.ts'
import { type Names, toFinishedDocument } from '../../documents/request.ts'
import type { Snapshot } from '../../domain/snapshot.ts'
import { redact } from '../../log.ts'
import type { SettledRow } from '../../store/ledger-rows.ts'
import { isWanted, type RequestFilter } from '../../store/report-store.ts'

/** Clients and proxies give up on a connection that says nothing for minutes. */
const ALIVE_MS = 15_000
/** What says nothing but that there is somebody: first of all, and then now and then. */
const ALIVE = ':\n\n'
/** Whoever reads nothing does not hold up a stop for longer. */
export const END_MS = 200
/** Pages of all members together, who keep out nobody that sees more than they do, and of one person or token. */
const MAX = { members: 16, each: 6 }
/** How often it is looked whether whoever follows may still do so. */
const CHECK_MS = 15_000

/** How followers are told. */
interface Form {
  /** How many may follow at a time: each holds some memory, and every finished request looks at each. */
  most: number
  /** Requests that are kept for a reader; some 700 bytes each. */
  mostWaiting: number
  gatherMs: number
}

/** A page shows the newest hundred, and costs those who ask nothing that can be measured. */
const PAGES: Form = { most: 32, mostWaiting: 50, gatherMs: 250 }
const COMMANDS: Form = { most: 8, mostWaiting: 1_000, gatherMs: 50 }

const HEADERS = {
  ...{ 'content-type': 'text/event-stream', 'cache-control': 'no-store' },
  // A proxy that holds back what it has would show nothing for minutes.
  'x-accel-buffering': 'no',
}

type Controller = Pick<ReadableStreamDirectController, 'write' | 'flush' | 'close'>
type Named = Pick<Snapshot, 'secrets' | 'teams'>

/** A finished request, as text once somebody reads it. */
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

  push(line: LazyText): void {
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
    let text = ALIVE
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
    return this.#take() || ALIVE
  }

  /** All that is to be written, which then waits no more. */
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
  #isOver = false

  constructor(form: Form, toText: (row: SettledRow, reason: string | null) => string) {
    this.#form = form
    this.#toText = toText
  }

  /** A listener to finished requests. */
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
    return new Response(stream, { headers: HEADERS })
  }

  /** Tells everyone that the server stops, and lets those end who read. Resolves to whether there was anyone. */
  async end(): Promise<boolean> {
    this.#isOver = true
    const ended = [...this.#tails.values()]
    for (const tail of this.#tails.keys()) tail.end(toEvent('end', { end: 'stopped' }))
    if (ended.length > 0) await Promise.race([Promise.all(ended), Bun.sleep(END_MS)])
    return ended.length > 0
  }
}

export interface LiveRequestsDeps {
  /** In force now: what keys and teams are called. */
  snapshot(): Named
  /** For tests: how often is looked, ms. */
  checkMs?: number
}

export function createLiveRequests({ snapshot, checkMs = CHECK_MS }: LiveRequestsDeps) {
  const namesOf = createNames()
  // A request has the name that pages listen for by default; the others are told apart.
  const toText = (row: SettledRow, reason: string | null) =>
    `data: ${JSON.stringify(toFinishedDocument(row, reason, namesOf(snapshot())))}\n\n`
  const pages = new Tails(PAGES, toText)
  const commands = new Tails(COMMANDS, toText)
  const counts = new Map<string, number>()
  let members = 0

  return {
    /** A listener to finished requests. */
    finished(finished: Pick<Finished, 'row' | 'reason'>): void {
      pages.finished(finished)
      commands.finished(finished)
    },
    /** The same for a command, until it leaves or the server stops. */
    followByCommand: (filter: RequestFilter, signal: AbortSignal): Response | null => commands.follow(filter, signal),
    /**
     * The answer to one that follows, until they leave, may no more, or the server stops. Null where too many follow already.
     *
     * @param isLetIn whether they still may; looked at every so often.
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
    /** Tells all pages that the server stops; from then on nobody follows there. */
    end: () => pages.end(),
    /** The same of commands, which are told of all that finishes until then. Resolves to whether there was any. */
    endCommands: () => commands.end(),
  }
}

export type LiveRequests = ReturnType<typeof createLiveRequests>

const toEvent = (name: string, data: object) => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`

/** Gathered once for each snapshot that is in force when something is told. */
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
