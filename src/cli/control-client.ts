/**
 * The control socket of the server that runs on a data folder, as commands ask it: how it is, and what only a running server can do.
 * What is in the database is asked of the admin API (`admin-client.ts`), which the same socket leads to. Every wait has a limit.
 */
import { codeOf, messageOf } from '../domain/error.ts'
import { asObject, asText } from '../domain/json.ts'
import type { ServerStatus } from '../domain/model-server.ts'
import { type FlushResult, type Status, socketPath } from '../server/protocol.ts'
import { isServed } from '../store/data-folder.ts'
import type { VaultState } from '../store/vault.ts'
import { CommandError, toRefused, usageError } from './command-error.ts'
import { type Io, version } from './io.ts'

/** Its name is nobody's: requests go over the socket, or nowhere. */
export const ORIGIN = 'http://localhost'

/** A server answers from memory; one whose event loop is busy is not a silent one. */
const STATUS_MS = 15_000
/** A server that is starting has the lock of the data folder before it has a socket. */
const STARTING_MS = 5_000
const AGAIN_MS = 20
/** The server takes 2 s for this at most. */
const FLUSH_MS = 5_000
/** A large model from a slow disk, before which answers that go on have to end. */
const DRIVE_MS = 3_600_000

/**
 * `silent`: there is a server that cannot be asked, for the reason given; where it is not seen to hold the folder's lock,
 * there only seems to be one. It is `absent` as long as nobody listens on the socket.
 */
export type ServerLookup =
  | { kind: 'server'; status: Status }
  | { kind: 'none' }
  | { kind: 'silent'; why: string; holdsLock: boolean; isAbsent: boolean }

/** A name or an ID as a part of a path. Throws for what a URL would leave out (RFC 3986, section 5.2.4): the path would be another one. */
export function toPart(which: string): string {
  if (/^\.{0,2}$/.test(which)) throw usageError(`'${which}' can't be a name or an ID.`)
  return encodeURIComponent(which)
}

/** Sends a request over the socket. Rejects where nobody answers; `whyUnasked` says why. */
export const askSocket = (dataFolder: string, path: string, init: RequestInit = {}): Promise<Response> =>
  fetch(`${ORIGIN}${path}`, { ...init, unix: socketPath(dataFolder) })

export function whyUnasked(error: unknown): { why: string; isForbidden: boolean; isAbsent: boolean } {
  const code = codeOf(error)
  const absent = ABSENT[code]
  if (absent !== undefined) return { why: absent, isForbidden: false, isAbsent: true }
  if (code === 'EACCES' || code === 'EPERM') return { why: FORBIDDEN, isForbidden: true, isAbsent: false }
  const isLate = error instanceof Error && error.name === 'TimeoutError'
  return { why: isLate ? 'control.sock did not answer in time' : messageOf(error), isForbidden: false, isAbsent: false }
}

const FORBIDDEN = 'only the user that it runs as may ask it'
const ABSENT: Readonly<Record<string, string>> = {
  ENOENT: 'there is no control.sock; it may be starting, or its log says why it has none',
  ECONNREFUSED: 'nobody listens on control.sock',
}

/** Looks for the server of a data folder and asks for its status. Never throws. */
export async function findServer(dataFolder: string, patienceMs = STATUS_MS): Promise<ServerLookup> {
  try {
    const response = await askSocket(dataFolder, '/status', { signal: AbortSignal.timeout(patienceMs) })
    const body: unknown = await response.json()
    if (response.ok && isStatus(body)) return { kind: 'server', status: body }
    const other = asText(asObject(body)?.version) || 'another version'
    const why = `it runs ${other}, and this command is of ${version()}; restart it with this version`
    return { kind: 'silent', why, holdsLock: isServed(dataFolder), isAbsent: false }
  } catch (error) {
    const { why, isForbidden, isAbsent } = whyUnasked(error)
    const holdsLock = isServed(dataFolder)
    // Without the right to open the socket there is no telling whether a server is behind it.
    return holdsLock || isForbidden ? { kind: 'silent', why, holdsLock, isAbsent } : { kind: 'none' }
  }
}

/** The same, and waits for one that is starting. */
export async function awaitServer(dataFolder: string): Promise<ServerLookup> {
  const endMs = performance.now() + STARTING_MS
  for (;;) {
    const found = await findServer(dataFolder)
    const mayStart = found.kind === 'silent' && found.isAbsent && found.holdsLock
    if (!mayStart || performance.now() > endMs) return found
    await Bun.sleep(AGAIN_MS)
  }
}

/** A server of another version may say more. */
const isStatus = (body: unknown): body is Status =>
  Object.keys(FIELDS).every((field) => asObject(body)?.[field] !== undefined)

const FIELDS: Record<keyof Status, true> = {
  ...{ version: true, instance: true, pid: true, url: true, started_ms: true, readiness: true, ledger: true },
  ...{ lost: true, disk: true, config_revision: true, backups: true, reasons: true, in_flight: true },
  ...{ buffered_bytes: true, files: true, untrusted_proxy: true, upstreams: true },
}

/** Says on standard error that no server was asked, and why; `instead`: what is gone by. */
export function noteServer(found: ServerLookup, io: Pick<Io, 'stderr'>, instead: string): void {
  if (found.kind === 'none') io.stderr(`No server runs on this data folder. ${instead}\n`)
  if (found.kind === 'silent') io.stderr(`The server cannot be asked: ${found.why}. ${instead}\n`)
}

/**
 * Has the running server do something. Throws a CommandError where no server runs, it cannot be asked, or it refuses: then in its own
 * words.
 */
async function order<T>(dataFolder: string, path: string, init: RequestInit, patienceMs: number): Promise<T> {
  const signal = AbortSignal.timeout(patienceMs)
  const response = await askSocket(dataFolder, path, { ...init, signal }).catch((error) => {
    const { why, isForbidden } = whyUnasked(error)
    if (isForbidden || isServed(dataFolder))
      throw new CommandError('server_silent', `The server cannot be asked: ${why}.`)
    throw new CommandError('no_server', 'No server runs on this data folder. Start it first: tollgate serve')
  })
  const body: unknown = await response.json()
  if (!response.ok) throw toRefusal(body)
  return body as T
}

/** From the body of an answer that is not 2xx. */
export function toRefusal(body: unknown): CommandError {
  const said = asObject(asObject(body)?.error)
  if (said && typeof said.message === 'string')
    return toRefused({ ...said, kind: asText(said.kind), message: said.message })
  return new CommandError('server_silent', 'The server did not answer as Tollgate does. Is it of another version?')
}

const POST = { method: 'POST' }

/** `stop now`: without waiting for its answers. */
export type Drive = 'start' | 'stop' | 'stop now'

/** Has the running server start or stop the model server of an upstream, and waits until it has. */
export const driveServer = (dataFolder: string, id: string, what: Drive) =>
  order<ServerStatus>(
    dataFolder,
    `/upstreams/${toPart(id)}/${what === 'stop now' ? 'stop?now=true' : what}`,
    POST,
    DRIVE_MS,
  )

/** How what was typed in stands before the server that runs. */
export const askVault = (dataFolder: string) => order<VaultState>(dataFolder, '/secret', {}, STATUS_MS)

/** Has the running server make the code by which the first owner signs in. */
export const askSetupCode = async (dataFolder: string) =>
  (await order<{ code: string }>(dataFolder, '/admin/code', POST, STATUS_MS)).code

/** Has the running server apply what its journal holds; null where none runs, or it cannot be asked. */
export const flushServer = (dataFolder: string): Promise<FlushResult | null> =>
  order<FlushResult>(dataFolder, '/ledger/flush', POST, FLUSH_MS).catch(() => null)
