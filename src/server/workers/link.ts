/**
 * Links over a unix socket, readable by this user only. A line is a JSON array of all messages of one event loop turn:
 * `[topic, body]`, `[topic, body, number]` for a question, and `[number, reply]` or `[number, null, error]` for its reply.
 */
import { rmSync } from 'node:fs'
import type { Socket } from 'bun'
import { type Link, LinkError, LinkLost, type Topic } from '../../domain/link.ts'

type Message = [about: string, body: unknown, question?: number] | [question: number, reply: unknown, error?: string]

type Handle = (body: unknown) => unknown

interface Question {
  resolve(reply: unknown): void
  reject(error: Error): void
  timer: Timer | undefined
}

const NEWLINE = 10
/** Maximum unread messages, bytes. Above this, the other process counts as lost. */
const MAX_UNREAD = 256 * 2 ** 20

class SocketLink implements Link {
  readonly #socket: Socket<SocketLink>
  readonly #handlers = new Map<string, Handle>()
  /** Messages of topics that have no handler yet. */
  readonly #kept = new Map<string, [body: unknown, question: number | undefined][]>()
  readonly #questions = new Map<number, Question>()
  #lastQuestion = 0
  /** Messages of this turn, without the closing bracket. */
  #batch = ''
  /** Data that the socket hasn't accepted yet. */
  #unwritten: Buffer[] = []
  #unwrittenBytes = 0
  /** The beginning of a line. */
  #unread: Buffer[] = []
  #isEnded = false
  readonly #end = Promise.withResolvers<void>()
  readonly ended = this.#end.promise

  constructor(socket: Socket<SocketLink>) {
    this.#socket = socket
  }

  tell<Body>({ name }: Topic<Body>, body: Body): void {
    this.#send([name, body])
  }

  ask<Body, Reply>({ name }: Topic<Body, Reply>, body: Body, patienceMs?: number): Promise<Reply> {
    if (this.#isEnded) return Promise.reject(new LinkLost('the other process has ended'))
    const question = ++this.#lastQuestion
    this.#send([name, body, question])
    return new Promise<unknown>((resolve, reject) => {
      const late = () => this.#questions.delete(question) && reject(new LinkLost('the other process does not respond'))
      const timer = patienceMs === undefined ? undefined : setTimeout(late, patienceMs)
      this.#questions.set(question, { resolve, reject, timer })
    }) as Promise<Reply>
  }

  on<Body, Reply>({ name }: Topic<Body, Reply>, handle: (body: Body) => Reply | Promise<Reply>): void {
    this.#handlers.set(name, handle as Handle)
    const kept = this.#kept.get(name) ?? []
    this.#kept.delete(name)
    for (const [body, question] of kept) this.#handle(handle as Handle, body, question)
  }

  close(): void {
    if (this.#isEnded) return
    this.#flush()
    this.#lose()
    if (this.#unwritten.length === 0) this.#socket.end()
  }

  /** Call once the socket is closed. */
  closed(): void {
    this.#unwritten = []
    this.#lose()
  }

  #lose(): void {
    if (this.#isEnded) return
    this.#isEnded = true
    this.#batch = ''
    const error = new LinkLost('the other process has ended')
    for (const { reject, timer } of this.#questions.values()) {
      clearTimeout(timer)
      reject(error)
    }
    this.#questions.clear()
    this.#end.resolve()
  }

  #send(message: Message): void {
    if (this.#isEnded) return
    const text = JSON.stringify(message)
    if (this.#batch === '') {
      setImmediate(() => this.#flush())
      this.#batch = `[${text}`
    } else this.#batch += `,${text}`
  }

  #flush(): void {
    if (this.#batch === '') return
    const line = `${this.#batch}]\n`
    this.#batch = ''
    const written = this.#unwritten.length > 0 ? 0 : this.#socket.write(line)
    // Most lines are ASCII.
    if (written === line.length && Buffer.byteLength(line) === written) return
    const bytes = Buffer.from(line)
    // Negative if the socket is closed.
    if (written >= 0 && written < bytes.length) this.#keep(bytes.subarray(written))
  }

  #keep(bytes: Buffer): void {
    this.#unwritten.push(bytes)
    this.#unwrittenBytes += bytes.length
    if (this.#unwrittenBytes > MAX_UNREAD) this.#socket.terminate()
  }

  /** Call once the socket accepts more data. */
  drained(): void {
    for (;;) {
      const [bytes] = this.#unwritten
      if (bytes === undefined) break
      const written = Math.max(0, this.#socket.write(bytes))
      this.#unwrittenBytes -= written
      if (written < bytes.length) {
        this.#unwritten[0] = bytes.subarray(written)
        return
      }
      this.#unwritten.shift()
    }
    if (this.#isEnded) this.#socket.end()
  }

  received(chunk: Buffer): void {
    if (this.#isEnded) return
    let rest = chunk
    for (;;) {
      const end = rest.indexOf(NEWLINE)
      if (end === -1) break
      this.#unread.push(rest.subarray(0, end))
      rest = rest.subarray(end + 1)
      const [first] = this.#unread
      const line = this.#unread.length === 1 && first ? first : Buffer.concat(this.#unread)
      this.#unread = []
      if (!this.#take(line.toString())) return
    }
    // The socket reuses a chunk's memory.
    if (rest.length > 0) this.#unread.push(Buffer.from(rest))
  }

  #take(line: string): boolean {
    let messages: Message[]
    try {
      messages = JSON.parse(line)
    } catch {
      this.#socket.terminate()
      return false
    }
    for (const [about, body, last] of messages) {
      if (this.#isEnded) return false
      if (typeof about === 'number') this.#answered(about, body, last as string | undefined)
      else this.#asked(about, body, last as number | undefined)
    }
    return true
  }

  #answered(number: number, reply: unknown, error: string | undefined): void {
    const question = this.#questions.get(number)
    this.#questions.delete(number)
    clearTimeout(question?.timer)
    if (error === undefined) question?.resolve(reply)
    else question?.reject(new LinkError(error))
  }

  #asked(about: string, body: unknown, question: number | undefined): void {
    const handle = this.#handlers.get(about)
    const kept = this.#kept.get(about)
    if (handle) this.#handle(handle, body, question)
    else if (kept) kept.push([body, question])
    else this.#kept.set(about, [[body, question]])
  }

  #handle(handle: Handle, body: unknown, question: number | undefined): void {
    try {
      const reply = handle(body)
      if (question === undefined) return
      if (reply instanceof Promise) void this.#answerLater(question, reply)
      else this.#send([question, reply])
    } catch (error) {
      // Rejected, so that the process logs it. Later messages are still handled.
      if (question === undefined) void Promise.reject(error)
      else this.#send([question, null, toMessage(error)])
    }
  }

  async #answerLater(question: number, reply: Promise<unknown>): Promise<void> {
    try {
      this.#send([question, await reply])
    } catch (error) {
      this.#send([question, null, toMessage(error)])
    }
  }
}

const toMessage = (error: unknown) => (error instanceof Error ? error.message : String(error))

const handlers = {
  data: ({ data }: Socket<SocketLink>, chunk: Buffer) => data.received(chunk),
  drain: ({ data }: Socket<SocketLink>) => data.drained(),
  close: ({ data }: Socket<SocketLink>) => data.closed(),
}

export interface LinkListener {
  /** Stops listening; links stay open. */
  stop(): void
}

/** Replaces a stale socket at `path`. */
export function listenForLinks(path: string, onLink: (link: Link) => void): LinkListener {
  rmSync(path, { force: true })
  // The socket exists once bound: the mask protects it from that moment.
  const mask = process.umask(0o077)
  try {
    const open = (socket: Socket<SocketLink>) => {
      socket.data = new SocketLink(socket)
      onLink(socket.data)
    }
    return Bun.listen<SocketLink>({ unix: path, socket: { ...handlers, open } })
  } finally {
    process.umask(mask)
  }
}

/** Rejects if no process listens at `path`. */
export async function connectLink(path: string): Promise<Link> {
  const open = (socket: Socket<SocketLink>) => {
    socket.data = new SocketLink(socket)
  }
  const { data } = await Bun.connect<SocketLink>({ unix: path, socket: { ...handlers, open } })
  return data
}
