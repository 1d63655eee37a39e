/**
 * Keeps a silent stream alive (design 4): a comment after every so much silence, before the first token as well as
 * between two. Proxies and clients give up on a connection that says nothing; parsers pass over comments.
 */

/** After this much silence, ms. Clients of the field take one comment in ten seconds and not much more. */
export const HEARTBEAT_MS = 10_000

export const KEEP_ALIVE = ': keep-alive\n\n'

export interface Heartbeat {
  /** Something was written: the silence begins anew. */
  touch(): void
  stop(): void
}

/** Calls `beat` after every `ms` of silence. 0 never does. */
export function createHeartbeat(ms: number, beat: () => void): Heartbeat {
  let touchedAt = performance.now()
  const wait = (restMs: number): Timer =>
    setTimeout(() => {
      const silentMs = performance.now() - touchedAt
      if (silentMs + 1 < ms) {
        timer = wait(ms - silentMs)
        return
      }
      beat()
      touchedAt = performance.now()
      timer = wait(ms)
    }, restMs)
  let timer = ms > 0 ? wait(ms) : undefined
  return {
    touch() {
      touchedAt = performance.now()
    },
    stop: () => clearTimeout(timer),
  }
}
