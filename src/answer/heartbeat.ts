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

/** Looks this often, in parts of the silence: a chunk then costs an assignment instead of a look at the clock. */
const LOOKS = 10

/** Calls `beat` after every `ms` of silence, give or take a look. 0 never does. */
export function createHeartbeat(ms: number, beat: () => void): Heartbeat {
  let silentLooks = 0
  const look = () => {
    silentLooks++
    if (silentLooks <= LOOKS) return
    beat()
    silentLooks = 1
  }
  const timer = ms > 0 ? setInterval(look, ms / LOOKS) : undefined
  return {
    touch() {
      silentLooks = 0
    },
    stop: () => clearInterval(timer),
  }
}
