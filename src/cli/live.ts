/**
 * Asks the server that runs on a data folder, over its control socket. Used by the commands that show or test what only a
 * running server knows, or that read its ledger. Writes nothing, and never waits for long.
 */

import type { Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { NOT_TAKEN_IN } from '../documents/upstream.ts'
import { codeOf, messageOf } from '../domain/error.ts'
import type { ServerStatus } from '../domain/model-server.ts'
import { count } from '../domain/text.ts'
import { readWaiting } from '../ledger/audit.ts'
import {
  ControlError,
  Flushed,
  RotatedShape,
  ServerShape,
  SetupCode,
  Status,
  socketPath,
  TailLine,
  TestResult,
  VaultShape,
} from '../server/protocol.ts'
import type { LedgerAudit } from '../store/ledger-store.ts'
import type { RequestFilter } from '../store/report-store.ts'
import { isServed } from '../store/sqlite/database-file.ts'
import type { VaultState } from '../store/vault.ts'
import { CommandError } from './command-error.ts'
import type { Io } from './io.ts'

/**
 * `silent`: there is a server that cannot be asked, for the reason given; where it is not seen to hold the folder's lock,
 * there only seems to be one.
 */
export type ServerLookup =
  | { kind: 'server'; status: Status }
  | { kind: 'none' }
  | { kind: 'silent'; why: string; holdsLock: boolean }

/** Says on standard error that no server was asked, and why; `instead`: what is gone by. */
export function noteServer(found: ServerLookup, io: Pick<Io, 'stderr'>, instead: string): void {
  if (found.kind === 'none') io.stderr(`No server runs on this data folder. ${instead}\n`)
  if (found.kind === 'silent') io.stderr(`The server cannot be asked: ${found.why}. ${instead}\n`)
}

/** A server answers this from memory. */
const STATUS_MS = 5_000
/** A running server looks for changes every 25 ms. */
const IN_FORCE_MS = 5_000
const AGAIN_MS = 10
/** How long a server may take for one look, however little of the limit is left: a busy one is not a silent one. */
const LEAST_MS = 1_000
/** The server takes 2 s for this at most. */
const FLUSH_MS = 5_000
/** A large model from a slow disk, before which answers that go on have to end. */
const DRIVE_MS = 3_600_000
/** The server gives an upstream less. */
const TEST_MS = 30_000

/** Looks for the server of a data folder and asks for its status. Never throws. */
export async function findServer(dataFolder: string, patienceMs = STATUS_MS): Promise<ServerLookup> {
  try {
    const response = await ask(dataFolder, 'GET', '/status', patienceMs)
    const body: unknown = await response.json()
    if (response.ok && Value.Check(Status, body)) return { kind: 'server', status: body }
    return { kind: 'silent', why: OTHER_VERSION, holdsLock: isServed(dataFolder) }
  } catch (error) {
    const why = reasonOf(error)
    // Without the right to open the socket there is no telling whether a server is behind it.
    const holdsLock = isServed(dataFolder)
    return holdsLock || why === FORBIDDEN ? { kind: 'silent', why, holdsLock } : { kind: 'none' }
  }
}

/**
 * Waits until the running server uses a configuration at least as new as the given revision. Returns at once if no server runs.
 * After the time limit, warns instead. Never throws.
 */
export async function awaitRevision(
  dataFolder: string,
  revision: number,
  io: Pick<Io, 'stderr'>,
  limitMs = IN_FORCE_MS,
): Promise<void> {
  const endMs = performance.now() + limitMs
  for (;;) {
    const found = await findServer(dataFolder, Math.max(LEAST_MS, Math.ceil(endMs - performance.now())))
    if (found.kind === 'none' || (found.kind === 'server' && found.status.config_revision >= revision)) return
    // A server that is starting has the lock before it has a socket.
    const mayAnswer = found.kind === 'server' || (found.holdsLock && found.why !== OTHER_VERSION)
    if (mayAnswer && performance.now() + AGAIN_MS < endMs) {
      await Bun.sleep(AGAIN_MS)
      continue
    }
    const why = found.kind === 'server' ? 'it still uses the previous configuration' : found.why
    io.stderr(
      `warning: The change is saved, but the running server did not confirm it: ${why}. Check the server with: tollgate doctor\n`,
    )
    return
  }
}

/** Has the server ask an upstream. Throws a CommandError where it does not answer, or in its own words. */
export async function testThroughServer(dataFolder: string, upstreamId: string): Promise<TestResult> {
  const path = `/upstreams/${encodeURIComponent(upstreamId)}/test`
  const response = await ask(dataFolder, 'POST', path, TEST_MS).catch((error) => {
    throw new CommandError('server_silent', `The server did not answer: ${reasonOf(error)}.`)
  })
  const body: unknown = await response.json()
  if (response.ok && Value.Check(TestResult, body)) return body
  if (!Value.Check(ControlError, body))
    throw new CommandError('server_silent', `The server cannot be asked: ${OTHER_VERSION}.`)
  const { error } = body
  if (error.kind === 'unknown_upstream') return { id: upstreamId, state: 'not_ready', reason: NOT_TAKEN_IN, ms: null }
  throw new CommandError(error.kind, error.message)
}

/** `stop now`: without waiting for its answers. */
export type Drive = 'start' | 'stop' | 'stop now'

/**
 * Has the running server start or stop the model server of an upstream, and waits until it has. Throws a CommandError where no server
 * runs, or it has none for that upstream.
 */
export async function driveServer(dataFolder: string, id: string, what: Drive): Promise<ServerStatus> {
  const path = `/upstreams/${encodeURIComponent(id)}/${what === 'stop now' ? 'stop?now=true' : what}`
  const response = await ask(dataFolder, 'POST', path, DRIVE_MS).catch((error) => {
    const why = reasonOf(error)
    if (isServed(dataFolder) || why === FORBIDDEN)
      throw new CommandError('server_silent', `The server cannot be asked: ${why}.`)
    throw new CommandError('no_server', 'No server runs on this data folder. Start it first: tollgate serve')
  })
  const body: unknown = await response.json()
  if (response.ok && Value.Check(ServerShape, body)) return body
  if (!Value.Check(ControlError, body) || body.error.kind === 'unknown_path')
    throw new CommandError('server_silent', `The server cannot be asked: ${OTHER_VERSION}.`)
  throw new CommandError(body.error.kind, body.error.message)
}

/** How many ledger records the database does not have. */
export interface Behind {
  waiting: number
  /** Whether a server runs, which will apply them. */
  isServed: boolean
}

/**
 * Before a report: has the running server apply what its journal holds, and tells what the database lacks all the same.
 * Without a server, or with one that cannot be asked, nothing is applied: the next start does it.
 */
export async function catchUp(audit: LedgerAudit, dataFolder: string): Promise<Behind> {
  const flushed = await flushServer(dataFolder)
  if (flushed) return { waiting: flushed.waiting, isServed: true }
  const waiting = readWaiting(audit, dataFolder, null).reduce((sum, { records }) => sum + records, 0)
  return { waiting, isServed: audit.living() !== null }
}

/** Has the running server apply what its journal holds; null where none runs, or it cannot be asked. */
export async function flushServer(dataFolder: string): Promise<Flushed | null> {
  try {
    const response = await ask(dataFolder, 'POST', '/ledger/flush', FLUSH_MS)
    const body: unknown = await response.json()
    return response.ok && Value.Check(Flushed, body) ? body : null
  } catch {
    return null
  }
}

/** Has the running server seal by a new secret what was typed in. Throws a CommandError where it cannot be asked, or in its words. */
export async function rotateThroughServer(dataFolder: string): Promise<Static<typeof RotatedShape>> {
  const response = await ask(dataFolder, 'POST', '/secret/rotate', TEST_MS).catch((error) => {
    throw new CommandError('server_silent', `The server did not answer: ${reasonOf(error)}.`)
  })
  const body: unknown = await response.json()
  if (response.ok && Value.Check(RotatedShape, body)) return body
  if (!Value.Check(ControlError, body) || body.error.kind === 'unknown_path')
    throw new CommandError('server_silent', `The server cannot be asked: ${OTHER_VERSION}.`)
  throw new CommandError(body.error.kind, body.error.message)
}

/**
 * How what was typed in stands before the server that runs; null where that is of a version that cannot say. Throws a CommandError
 * where it does not answer.
 */
export async function askVault(dataFolder: string): Promise<VaultState | null> {
  const response = await ask(dataFolder, 'GET', '/secret', STATUS_MS).catch((error) => {
    throw new CommandError('server_silent', `The server did not answer: ${reasonOf(error)}.`)
  })
  const body: unknown = await response.json()
  return response.ok && Value.Check(VaultShape, body) ? body : null
}

/**
 * Has the running server make the code by which the first owner signs in. Throws a CommandError where no server runs, it cannot be
 * asked, or there is an owner.
 */
export async function askSetupCode(dataFolder: string): Promise<string> {
  const response = await ask(dataFolder, 'POST', '/admin/code', STATUS_MS).catch((error) => {
    const why = reasonOf(error)
    if (isServed(dataFolder) || why === FORBIDDEN)
      throw new CommandError('server_silent', `The server cannot be asked: ${why}.`)
    throw new CommandError('no_server', 'No server runs on this data folder. Start it first: tollgate serve')
  })
  const body: unknown = await response.json()
  if (response.ok && Value.Check(SetupCode, body)) return body.code
  if (!Value.Check(ControlError, body))
    throw new CommandError('server_silent', `The server cannot be asked: ${OTHER_VERSION}.`)
  const { kind, message } = body.error
  const advice = kind === 'already_set_up' ? ' Who has lost the password: tollgate admin reset NAME' : ''
  throw new CommandError(kind, `${message}${advice}`)
}

/** A line for whoever reads the report; '' where nothing waits. */
export function toBehindNote({ waiting, isServed }: Behind): string {
  if (waiting === 0) return ''
  const [verb, what] = waiting === 1 ? ['waits', 'it'] : ['wait', 'them']
  const who = isServed ? 'the running server' : 'the next start of the server'
  return `note: ${count(waiting, 'ledger record')} ${verb} in the journal; ${who} applies ${what}.\n`
}

function ask(dataFolder: string, method: string, path: string, patienceMs: number): Promise<Response> {
  const unix = socketPath(dataFolder)
  return fetch(`http://localhost${path}`, { unix, method, signal: AbortSignal.timeout(patienceMs) })
}

const OTHER_VERSION = 'it answers otherwise than a server of this version; restart it with this one'
const FORBIDDEN = 'only the user that it runs as may ask it'

function reasonOf(error: unknown): string {
  const code = codeOf(error)
  if (code === 'ENOENT') return 'there is no control.sock; it may be starting, or its log says why it has none'
  if (code === 'ECONNREFUSED') return 'nobody listens on control.sock'
  if (code === 'EACCES' || code === 'EPERM') return FORBIDDEN
  if (error instanceof Error && error.name === 'TimeoutError') return 'control.sock did not answer in time'
  return messageOf(error)
}

/**
 * Follows the requests of the server of a data folder as they finish. Its lines end with one that says that the server stops, or
 * without it where the server is gone. Throws a CommandError where there is no server, or it does not take one more.
 */
export async function followRequests(dataFolder: string, filter: RequestFilter): Promise<AsyncIterable<TailLine>> {
  const path = `/requests/tail?filter=${encodeURIComponent(JSON.stringify(filter))}`
  const silence = new AbortController()
  // Only the beginning is waited for: then nothing may happen for hours.
  const timer = setTimeout(() => silence.abort(new DOMException('', 'TimeoutError')), STATUS_MS)
  const response = await fetch(`http://localhost${path}`, { unix: socketPath(dataFolder), signal: silence.signal })
    .catch((error) => {
      const why = reasonOf(error)
      if (isServed(dataFolder) || why === FORBIDDEN)
        throw new CommandError('server_silent', `The server cannot be asked: ${why}.`)
      throw new CommandError('no_server', 'No server runs on this data folder: there is nothing to follow.')
    })
    .finally(() => clearTimeout(timer))
  if (response.ok && response.body !== null) return readLines(response.body)
  const body: unknown = await response.json().catch(() => null)
  if (!Value.Check(ControlError, body) || body.error.kind === 'unknown_path')
    throw new CommandError('server_silent', `The server cannot be asked: ${OTHER_VERSION}.`)
  throw new CommandError(body.error.kind, body.error.message)
}

async function* readLines(body: ReadableStream<Uint8Array>): AsyncGenerator<TailLine> {
  const decoder = new TextDecoder()
  let rest = ''
  try {
    for await (const bytes of body) {
      const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n')
      rest = lines.pop() ?? ''
      for (const text of lines) {
        if (text === '') continue
        const line: unknown = JSON.parse(text)
        if (Value.Check(TailLine, line)) yield line
      }
    }
  } catch {
    // The connection broke: the server is gone.
  }
}
