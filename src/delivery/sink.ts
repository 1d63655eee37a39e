/**
 * The writing end of a streamed answer: a direct stream with the back-pressure that Bun leaves to us (platform-notes
 * 2.5), and with heartbeats while there is nothing to write. A client that has left, or does not read for too long, ends
 * the writing.
 */
import { clientLeft, GatewayError } from '../domain/error.ts'
import { createHeartbeat, KEEP_ALIVE } from './heartbeat.ts'

export interface Sink {
  /**
   * Writes text at once; returns a promise only where the client must read first. Throws once the client is gone, and a
   * GatewayError `slow_reader` where it did not read for too long.
   */
  write(text: string): Promise<void> | undefined
  /** Writes the last words and waits for nobody: whoever reads on some day finds them. Never throws. */
  end(text: string): void
  close(): void
}

/** The sink of a client that was gone before the first byte. */
export const CLOSED_SINK: Sink = {
  write() {
    throw clientLeft()
  },
  end() {},
  close() {},
}

export interface SinkOptions {
  /** How long a client may leave a full buffer standing. */
  slowReaderMs: number
  /** 0 = no heartbeats. */
  heartbeatMs: number
}

export function createSink(
  controller: Pick<ReadableStreamDirectController, 'write' | 'flush' | 'close'>,
  signal: AbortSignal,
  { slowReaderMs, heartbeatMs }: SinkOptions,
): Sink {
  let left = signal.aborted
  /** A write waits for its reader. */
  let full = false
  let wake = () => {}
  signal.addEventListener(
    'abort',
    () => {
      left = true
      wake()
    },
    { once: true },
  )

  const drained = async (pending: Promise<number>): Promise<void> => {
    full = true
    const givenUp = new Promise<'given up'>((resolve) => {
      wake = () => resolve('given up')
    })
    const timer = setTimeout(wake, slowReaderMs)
    let read = false
    try {
      read = (await Promise.race([pending, givenUp])) !== 'given up'
    } catch {
      left = true
    } finally {
      clearTimeout(timer)
      full = false
    }
    if (left) throw clientLeft()
    if (!read) throw tooSlow(slowReaderMs)
  }
  const send = (text: string): Promise<void> | undefined => {
    if (left) throw clientLeft()
    const written = controller.write(text)
    controller.flush()
    return typeof written === 'number' ? undefined : drained(written)
  }
  const heartbeat = createHeartbeat(heartbeatMs, () => {
    if (left || full) return
    try {
      // What it may throw later is told to the next write.
      send(KEEP_ALIVE)?.catch(() => {})
    } catch {
      left = true
    }
  })

  return {
    write(text) {
      heartbeat.touch()
      return send(text)
    },
    end(text) {
      heartbeat.stop()
      if (left) return
      try {
        controller.write(text)
        controller.flush()
      } catch {
        // It has left meanwhile.
      }
    },
    close() {
      heartbeat.stop()
      try {
        controller.close()
      } catch {
        // Already closed with the connection.
      }
    },
  }
}

const tooSlow = (ms: number) =>
  new GatewayError('slow_reader', `The answer was broken off: its client read nothing for ${ms / 1000} s.`)
