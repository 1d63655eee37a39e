/**
 * Keeps a silent stream alive: a comment after every so much silence, before the first token as well as
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

interface Beating {
  silentLooks: number
  beat(): void
}

/** All hearts of one pace share a timer: a thousand streams would otherwise have a thousand. */
const paces = new Map<number, { hearts: Set<Beating>; timer: Timer }>()

/** Calls `beat` after every `ms` of silence, and up to a tenth more. 0 never does. */
export function createHeartbeat(ms: number, beat: () => void): Heartbeat {
  const heart: Beating = { silentLooks: 0, beat }
  if (ms > 0) begin(ms, heart)
  return {
    touch() {
      heart.silentLooks = 0
    },
    stop() {
      if (ms > 0) end(ms, heart)
    },
  }
}

function begin(ms: number, heart: Beating): void {
  const known = paces.get(ms)
  if (known) {
    known.hearts.add(heart)
    return
  }
  const hearts = new Set([heart])
  paces.set(ms, { hearts, timer: setInterval(look, ms / LOOKS, hearts) })
}

function end(ms: number, heart: Beating): void {
  const pace = paces.get(ms)
  if (!pace?.hearts.delete(heart) || pace.hearts.size > 0) return
  clearInterval(pace.timer)
  paces.delete(ms)
}

function look(hearts: ReadonlySet<Beating>): void {
  for (const heart of hearts) {
    heart.silentLooks++
    if (heart.silentLooks <= LOOKS) continue
    heart.silentLooks = 1
    heart.beat()
  }
}
