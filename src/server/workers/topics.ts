/** Messages between keeper and workers about listening and ending. */
import { join } from 'node:path'
import { topic } from '../../domain/link.ts'
import type { Settings } from '../../store/config-store.ts'
import type { ListenerRange, ServedCertificates } from '../listener.ts'

/** Set for a worker: the instance of its keeper. */
export const WORKER = 'TOLLGATE_WORKER'

const pathIn = (dataFolder: string, name: string) => join(dataFolder, 'run', `${name}.sock`)
export const toLinkPath = (dataFolder: string, keeper: string) => pathIn(dataFolder, `${keeper}.link`)
export const toForwardPath = (dataFolder: string, keeper: string) => pathIn(dataFolder, `${keeper}.forward`)

export interface Welcome {
  hostname: string
  port: number
  /** Number of processes that share the port. */
  processes: number
  /** Null for plain HTTP. */
  certificates: ServedCertificates | null
  /** Rows of the database. */
  settings: Settings
}

/** To the keeper: the first message. */
export const HELLO = topic<{ pid: number }, Welcome>('hello')
/** To the keeper, once it holds the lock of its journal: its instance. */
export const JOIN = topic<string, null>('join')
/** To the keeper. */
export const LISTENING = topic<{ port: number; origin: string }>('listening')
/** See `Listener.prefer`. */
export const PREFER = topic<ListenerRange, boolean>('prefer')
/** See `Gate`. */
export const HOLD = topic<null, null>('hold')
export const DECIDE = topic<'here' | 'there', null>('decide')
/** To a worker, which replies at once unless it hangs. */
export const ALIVE = topic<null, null>('alive')
/** To a replaced worker: answer each request as the last of its connection, until `LEAVE`. */
export const RETIRE = topic<null>('retire')
/** Stop listening, finish running requests, and exit. The worker replies once it no longer listens. */
export const LEAVE = topic<{ drainMs: number }, null>('leave')
/** Reject new requests, finish running ones, and exit: with 1 if a request was interrupted. */
export const CLOSE = topic<{ drainMs: number }>('close')
