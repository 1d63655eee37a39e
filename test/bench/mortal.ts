/**
 * An upstream that answers well until it is told how to die, and then counts who still comes. For the failover part: what
 * is measured is a gateway that has used it, not one that never could.
 */
import { startTcpServer } from '../support/tcp-server.ts'
import { startUpstream } from '../support/upstream.ts'

/**
 * `refuses`: nothing listens on its port any more. `resets`: it accepts and resets at the first byte. `silent`: it accepts
 * and never answers.
 */
export const DEATHS = ['refuses', 'resets', 'silent'] as const
export type Death = (typeof DEATHS)[number]

/** Since its death, or since they were last taken. A closed port counts nobody. */
export interface Visits {
  connections: number
  /** Those that brought a chat request. The others only looked. */
  calls: number
}

export interface Mortal {
  origin: string
  /** Breaks what is open, and dies. */
  die(death: Death): Promise<void>
  /** Returns the visits so far and begins to count anew. */
  take(): Visits
  stop(): Promise<void>
}

/** Starts one, alive. */
export async function startMortal(): Promise<Mortal> {
  const alive = await startUpstream()
  let visits: Visits = { connections: 0, calls: 0 }
  let stop = alive.stop
  return {
    origin: new URL(alive.url).origin,
    async die(death) {
      await alive.stop()
      stop = async () => {}
      if (death === 'refuses') return
      const dead = await startTcpServer((socket) => {
        visits.connections += 1
        socket.once('data', (bytes) => {
          if (bytes.toString('latin1').startsWith('POST')) visits.calls += 1
          if (death === 'resets') socket.resetAndDestroy()
        })
      }, alive.port)
      stop = dead.stop
    },
    take() {
      const seen = visits
      visits = { connections: 0, calls: 0 }
      return seen
    },
    stop: () => stop(),
  }
}
