/** Tells a shortage of our own files or ports from failures of the upstream, and waits briefly for a free file. */
import { closeSync, openSync } from 'node:fs'
import { GatewayError, nameOf } from '../domain/error.ts'
import type { Transport } from './transport.ts'

const OUR_OWN = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'EADDRNOTAVAIL'])
const UNCONNECTED = new Set([
  ...[
    'ECONNREFUSED',
    'ConnectionRefused',
    'ENOTFOUND',
    'EAI_AGAIN',
    'EHOSTUNREACH',
    'ENETUNREACH',
    'FailedToOpenSocket',
  ],
])
const REFUSED = new Set(['ECONNREFUSED', 'ConnectionRefused'])

/** True if our own files, ports or memory ran out. Bun reports a refused connection when no file is left. */
export const isOurShortage = (error: unknown): boolean =>
  OUR_OWN.has(nameOf(error)) ||
  (REFUSED.has(nameOf(error)) && (nextFreeFile() === null || performance.now() < shortUntilMs))

/** True if no connection was made, so nothing was sent. */
export const isRefused = (error: unknown): boolean => UNCONNECTED.has(nameOf(error)) || isOurShortage(error)

/** Process-wide, as files are: an error may arrive after files are available again. */
let shortUntilMs = 0
const SHORT_MS = 500

export const noteShortage = (): void => {
  shortUntilMs = performance.now() + SHORT_MS
}

/** The lowest free file descriptor, which the next file will get; null if there is none. */
export function nextFreeFile(): number | null {
  try {
    const file = openSync('/dev/null', 'r')
    closeSync(file)
    return file
  } catch {
    return null
  }
}

/** Retries for a call that found no free file, and their interval. */
const TRIES = 10
const PAUSE_MS = 100

interface Sending<T> {
  transport: Pick<Transport, 'closeIdle'>
  send(): Promise<T>
  isEnded(): boolean
}

/** Sends again after a shortage, since nothing was sent. Throws a GatewayError if the shortage lasts a second. */
export async function sendAgain<T>(cause: unknown, { transport, send, isEnded }: Sending<T>): Promise<T> {
  let error = cause
  for (let tries = 0; isOurShortage(error) && !isEnded(); tries++) {
    if (tries === TRIES) throw outOfFiles(error)
    transport.closeIdle()
    await Bun.sleep(PAUSE_MS)
    try {
      return await send()
    } catch (next) {
      error = next
    }
  }
  throw error
}

const outOfFiles = (cause: unknown) =>
  new GatewayError(
    'overloaded',
    'Tollgate is overloaded: no file descriptors left for the call to the model. The request was not sent. Try again.',
    { cause },
  )
