/**
 * What cannot be sent because this process has no files or ports left: no failure of whom it wanted to reach. Told from such
 * a failure here, for calls and probes alike; and a call is given a moment for a file to become free.
 */
import { closeSync, openSync } from 'node:fs'
import { GatewayError, nameOf } from '../domain/error.ts'
import type { Transport } from './transport.ts'

/** Codes of a process that has run out of something. */
const OUR_OWN = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'EADDRNOTAVAIL'])
const REFUSED = new Set(['ECONNREFUSED', 'ConnectionRefused'])

/** Whether it failed for want of files, ports or memory of our own. Bun calls it a refusal when no file is left. */
export const isOurShortage = (error: unknown): boolean =>
  OUR_OWN.has(nameOf(error)) ||
  (REFUSED.has(nameOf(error)) && (nextFreeFile() === null || performance.now() < shortUntilMs))

/** Files are of the whole process, and so is this: what failed for want of one may be heard of when there are some again. */
let shortUntilMs = 0
const SHORT_MS = 500

/** Says that files were short just now. */
export const noteShortage = (): void => {
  shortUntilMs = performance.now() + SHORT_MS
}

/** The number that a new file would have, which is the lowest that is free; null where there can be none. */
export function nextFreeFile(): number | null {
  try {
    const file = openSync('/dev/null', 'r')
    closeSync(file)
    return file
  } catch {
    return null
  }
}

/** How often, and after how long, a call that found no file free is tried again. */
const TRIES = 10
const PAUSE_MS = 100

interface Sending<T> {
  transport: Pick<Transport, 'closeIdle'>
  send(): Promise<T>
  /** Whether nobody wants it sent any more. */
  isEnded(): boolean
}

/**
 * Makes room and sends again, where it failed for a shortage of ours: none of it was sent. Throws anything else as it is, and
 * where nothing has become free after a second, a GatewayError.
 */
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
    'Tollgate is overloaded: it has as many files open as its system lets it, and none is left for the call. Nothing was asked of the model; try again.',
    { cause },
  )
