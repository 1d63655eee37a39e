/** An upstream that works until told how to fail, and then counts visits. */
import { startTcpServer } from '../support/tcp-server.ts'
import { startUpstream } from '../support/upstream.ts'

/** `refuses`: closed port. `resets`: accepts and resets at the first byte. `silent`: accepts and never responds. */
export const DEATHS = ['refuses', 'resets', 'silent'] as const
export type Death = (typeof DEATHS)[number]

/** Since its failure, or since the last reset. A closed port counts nothing. */
export interface Visits {
  connections: number
  /** Visits with a chat request; the others are health checks. */
  calls: number
}

export interface Mortal {
  origin: string
  /** Breaks open connections, too. */
  die(death: Death): Promise<void>
  /** Returns the counters and resets them. */
  take(): Visits
  stop(): Promise<void>
}

/** Starts one, which works. */
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
