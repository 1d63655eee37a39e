/** Client of a running server's control socket: its status, and what only it can do. Every wait is bounded. */
import { codeOf, messageOf } from '../domain/error.ts'
import { asObject, asText } from '../domain/json.ts'
import type { ServerStatus } from '../domain/model-server.ts'
import type { NeedsRestart } from '../server/owner-socket.ts'
import {
  type FlushResult,
  type Restarted,
  type RestartOptions,
  type SetupLink,
  type Status,
  socketPath,
} from '../server/protocol.ts'
import { isServed } from '../store/data-folder.ts'
import type { VaultState } from '../store/vault.ts'
import { CommandError, toRefused, usageError } from './command-error.ts'
import { type Io, version } from './io.ts'

/** A placeholder; requests use the socket. */
export const ORIGIN = 'http://localhost'

/** The event loop may be busy. */
const STATUS_MS = 15_000
/** A starting server locks the data folder before it opens its socket. */
const STARTING_MS = 5_000
const AGAIN_MS = 20
/** The server takes at most 2 s. */
const FLUSH_MS = 5_000
/** Loading a large model from a slow disk, after running responses. */
const DRIVE_MS = 3_600_000

/**
 * `silent`: a server that can't be reached; without `holdsLock` there only seems to be one. `isAbsent`: nothing listens
 * on the socket.
 */
export type ServerLookup =
  | { kind: 'server'; status: Status }
  | { kind: 'none' }
  | { kind: 'silent'; why: string; holdsLock: boolean; isAbsent: boolean }

/** Escapes a name or ID for a path. Throws for dot segments, which a URL would drop (RFC 3986, section 5.2.4). */
export function toPart(which: string): string {
  if (/^\.{0,2}$/.test(which)) throw usageError(`'${which}' can't be a name or an ID.`)
  return encodeURIComponent(which)
}

/** Rejects if nothing listens; `whyUnasked` explains the error. */
export const askSocket = (dataFolder: string, path: string, init: RequestInit = {}): Promise<Response> =>
  fetch(`${ORIGIN}${path}`, { ...init, unix: socketPath(dataFolder) })

export function whyUnasked(error: unknown): { why: string; isForbidden: boolean; isAbsent: boolean } {
  const code = codeOf(error)
  const absent = ABSENT[code]
  if (absent !== undefined) return { why: absent, isForbidden: false, isAbsent: true }
  if (code === 'EACCES' || code === 'EPERM') return { why: FORBIDDEN, isForbidden: true, isAbsent: false }
  const isLate = error instanceof Error && error.name === 'TimeoutError'
  return { why: isLate ? 'control.sock timed out' : messageOf(error), isForbidden: false, isAbsent: false }
}

const FORBIDDEN = 'only the user running the server has access'
const ABSENT: Readonly<Record<string, string>> = {
  ENOENT: 'control.sock is missing (the server may be starting; else see its log)',
  ECONNREFUSED: 'nothing is listening on control.sock',
}

/** Finds the server of a data folder and its status. Never throws. */
export async function findServer(dataFolder: string, patienceMs = STATUS_MS): Promise<ServerLookup> {
  try {
    const response = await askSocket(dataFolder, '/status', { signal: AbortSignal.timeout(patienceMs) })
    const body: unknown = await response.json()
    if (response.ok && isStatus(body)) return { kind: 'server', status: body }
    const other = asText(asObject(body)?.version) || 'another version'
    const why = `version mismatch (server ${other}, command ${version()}); restart the server with this version`
    return { kind: 'silent', why, holdsLock: isServed(dataFolder), isAbsent: false }
  } catch (error) {
    const { why, isForbidden, isAbsent } = whyUnasked(error)
    const holdsLock = isServed(dataFolder)
    // Without access, we can't tell whether a server runs.
    return holdsLock || isForbidden ? { kind: 'silent', why, holdsLock, isAbsent } : { kind: 'none' }
  }
}

/** Like `findServer`, but waits for a starting server. */
export async function awaitServer(dataFolder: string): Promise<ServerLookup> {
  const endMs = performance.now() + STARTING_MS
  for (;;) {
    const found = await findServer(dataFolder)
    const mayStart = found.kind === 'silent' && found.isAbsent && found.holdsLock
    if (!mayStart || performance.now() > endMs) return found
    await Bun.sleep(AGAIN_MS)
  }
}

/** Ignores extra fields of other versions. */
const isStatus = (body: unknown): body is Status =>
  Object.keys(FIELDS).every((field) => asObject(body)?.[field] !== undefined)

/** A server of 0.2 has no `cluster`. */
const FIELDS: Record<Exclude<keyof Status, 'cluster'>, true> = {
  ...{ version: true, instance: true, pid: true, url: true, started_ms: true, readiness: true, ledger: true },
  ...{ lost: true, disk: true, config_revision: true, backups: true, reasons: true, in_flight: true },
  ...{ buffered_bytes: true, files: true, untrusted_proxy: true, certificates: true, upstreams: true },
}

/** @param instead a sentence that says what was used. */
export function noteServer(found: ServerLookup, io: Pick<Io, 'stderr'>, instead: string): void {
  if (found.kind === 'none') io.stderr(`No server is running. ${instead}\n`)
  if (found.kind === 'silent') io.stderr(`Can't reach the server: ${found.why}. ${instead}\n`)
}

/** Throws a CommandError if the server is missing, can't be reached, or refuses. */
async function order<T>(dataFolder: string, path: string, init: RequestInit, patienceMs: number): Promise<T> {
  const signal = AbortSignal.timeout(patienceMs)
  const response = await askSocket(dataFolder, path, { ...init, signal }).catch((error) => {
    const { why, isForbidden } = whyUnasked(error)
    if (isForbidden || isServed(dataFolder)) throw new CommandError('server_silent', `Can't reach the server: ${why}.`)
    throw new CommandError('no_server', 'No server is running. Start it: tollgate serve')
  })
  const body: unknown = await response.json()
  if (!response.ok) throw toRefusal(body)
  return body as T
}

export function toRefusal(body: unknown): CommandError {
  const said = asObject(asObject(body)?.error)
  if (said && typeof said.message === 'string')
    return toRefused({ ...said, kind: asText(said.kind), message: said.message })
  return new CommandError('server_silent', 'Unexpected response from the server. Restart it with this version.')
}

const POST = { method: 'POST' }

/** Longer than a slow start; the previous restart may still finish. */
const RESTART_MS = 20 * 60_000

/** Resolves once the next server serves. */
export const orderRestart = (dataFolder: string, how: RestartOptions) =>
  order<Restarted>(dataFolder, '/restart', { ...POST, body: JSON.stringify(how) }, RESTART_MS)

export const orderReload = (dataFolder: string) =>
  order<{ needs_restart: NeedsRestart }>(dataFolder, '/reload', POST, STATUS_MS)

/** `stop now` interrupts in-flight requests. */
export type Drive = 'start' | 'stop' | 'stop now'

/** Resolves once the server is ready or stopped. */
export const driveServer = (dataFolder: string, id: string, what: Drive) =>
  order<ServerStatus>(
    dataFolder,
    `/upstreams/${toPart(id)}/${what === 'stop now' ? 'stop?now=true' : what}`,
    POST,
    DRIVE_MS,
  )

export const askVault = (dataFolder: string) => order<VaultState>(dataFolder, '/secret', {}, STATUS_MS)

export const askSetupCode = (dataFolder: string) => order<SetupLink>(dataFolder, '/admin/code', POST, STATUS_MS)

/** Null if no server can be reached. */
export const flushServer = (dataFolder: string): Promise<FlushResult | null> =>
  order<FlushResult>(dataFolder, '/ledger/flush', POST, FLUSH_MS).catch(() => null)
