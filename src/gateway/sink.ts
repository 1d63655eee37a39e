/**
 * The writing end of a streamed answer: a direct stream with the back-pressure that Bun leaves to us, and with keep-alives
 * while there is nothing to write: comments, before the first token as well as between two, because proxies and clients
 * give up on a connection that says nothing. A client that has left, or does not read for too long, ends the writing; a server
 * that stops does, but for the last words.
 *
 * A direct stream takes all that is written, however slow its reader, unless the promise of a full `write` is awaited
 * (https://github.com/oven-sh/bun/issues/32469).
 */
import { type EndSignal, endReasonOf } from '../domain/end-signal.ts'
import { endedBy, endOf, GatewayError, type UpstreamError } from '../domain/error.ts'
import type { Writer } from '../formats/format.ts'

/** Looks this often, in parts of the silence: a chunk then costs an assignment instead of a look at the clock. */
const LOOKS = 10

/** All hearts of one pace share a timer: a thousand streams would otherwise have a thousand. */
const paces = new Map<number, { hearts: Set<Heartbeat>; timer: Timer }>()

/** Calls `beat` after every `ms` of silence, and up to a tenth more, until it is stopped. 0 never does. */
export class Heartbeat {
  readonly #ms: number
  readonly #beat: () => void
  #silentLooks = 0

  constructor(ms: number, beat: () => void) {
    this.#ms = ms
    this.#beat = beat
    if (ms === 0) return
    let pace = paces.get(ms)
    if (!pace) {
      const hearts = new Set<Heartbeat>()
      pace = { hearts, timer: setInterval(lookAt, ms / LOOKS, hearts) }
      paces.set(ms, pace)
    }
    pace.hearts.add(this)
  }

  touch(): void {
    this.#silentLooks = 0
  }

  /** Idempotent. */
  stopBeating(): void {
    const pace = paces.get(this.#ms)
    if (!pace?.hearts.delete(this) || pace.hearts.size > 0) return
    clearInterval(pace.timer)
    paces.delete(this.#ms)
  }

  look(): void {
    if (++this.#silentLooks <= LOOKS) return
    this.#silentLooks = 1
    this.#beat()
  }
}

function lookAt(hearts: ReadonlySet<Heartbeat>): void {
  for (const heart of hearts) heart.look()
}

export interface SinkOptions {
  /** How long a client may leave a full buffer standing. */
  slowReaderMs: number
  /** 0 = no keep-alives. */
  heartbeatMs: number
}

/** Knows what says, by now, that a stream lives. */
type Speaker = Pick<Writer, 'keepAlive'>

type Controller = Pick<ReadableStreamDirectController, 'write' | 'flush' | 'close'>

/** Its heart is part of it: each object that a chunk looks at costs it some 0.2 us. */
export class Sink extends Heartbeat {
  readonly #controller: Controller | null
  readonly #slowReaderMs: number
  readonly #speaker: Speaker
  #hasLeft: boolean
  /** Why no more of the answer is to be written, though its client is there: the server stops. Null until then. */
  stopped: UpstreamError | null = null
  #isFull = false
  #wake = () => {}

  /**
   * @param controller null for a client that was gone before the first byte.
   * @param signal aborts when the client leaves, or when the server stops.
   */
  constructor(
    controller: Controller | null,
    signal: EndSignal,
    { slowReaderMs, heartbeatMs }: SinkOptions,
    speaker: Speaker,
  ) {
    super(controller === null ? 0 : heartbeatMs, () => this.#keepAlive())
    this.#speaker = speaker
    this.#controller = controller
    this.#slowReaderMs = slowReaderMs
    this.#hasLeft = controller === null
    const end = () => {
      if (endReasonOf(signal) === 'stopped') this.stopped = endOf(signal)
      else {
        this.#hasLeft = true
        this.stopBeating()
      }
      this.#wake()
    }
    if (signal.aborted) end()
    else if (!this.#hasLeft) signal.addEventListener('abort', end, { once: true })
  }

  /**
   * Writes text at once; returns a promise only where the client must read first. Throws once the client is gone, and a
   * GatewayError where it did not read for too long, `slow_reader`, or not before the server stopped.
   */
  write(text: string): Promise<void> | undefined {
    this.touch()
    return this.#send(text)
  }

  /** Writes the last words and waits for nobody: whoever reads on some day finds them. Never throws. */
  end(text: string): void {
    this.stopBeating()
    if (this.#hasLeft) return
    try {
      this.#controller?.write(text)
      this.#controller?.flush()
    } catch {
      // It has left meanwhile.
    }
  }

  close(): void {
    this.stopBeating()
    try {
      this.#controller?.close()
    } catch {
      // Already closed with the connection.
    }
  }

  #send(text: string): Promise<void> | undefined {
    const controller = this.#controller
    if (this.#hasLeft || controller === null) throw endedBy('disconnected')
    const written = controller.write(text)
    controller.flush()
    return typeof written === 'number' ? undefined : this.#drained(written)
  }

  async #drained(pending: Promise<number>): Promise<void> {
    this.#isFull = true
    const tooLong = new Promise<'too long'>((resolve) => {
      this.#wake = () => resolve('too long')
    })
    const timer = setTimeout(this.#wake, this.stopped === null ? this.#slowReaderMs : 0)
    let isRead = false
    try {
      isRead = (await Promise.race([pending, tooLong])) !== 'too long'
    } catch {
      this.#hasLeft = true
    } finally {
      clearTimeout(timer)
      this.#isFull = false
    }
    if (this.#hasLeft) throw endedBy('disconnected')
    if (this.stopped !== null) throw this.stopped
    if (!isRead) throw tooSlow(this.#slowReaderMs)
  }

  #keepAlive(): void {
    if (this.#hasLeft || this.#isFull) return
    try {
      // What it may throw later is told to the next write.
      this.#send(this.#speaker.keepAlive)?.catch(() => {})
    } catch {
      this.#hasLeft = true
    }
  }
}

const tooSlow = (ms: number) =>
  new GatewayError('slow_reader', `The answer was broken off: its client read nothing for ${ms / 1000} s.`)
