/** Where `ask` puts its question, and how: over the control socket of a server on this machine, or over HTTP with a key. */
import { codeOf, messageOf } from '../domain/error.ts'
import { socketPath } from '../server/protocol.ts'
import { CommandError, usageError } from './command-error.ts'
import { findServer } from './control-client.ts'
import type { Context } from './io.ts'

/** The server that is asked, and the key that it is asked with. */
export interface AskedServer {
  /** Ends in `/v1`. */
  base: string
  /** Path of the control socket; null for a network address. */
  unix: string | null
  key: string | null
  /** Where the key was found, for the error that refuses it. */
  keyFrom: '--key' | 'TOLLGATE_KEY'
}

const DEFAULT_URL = 'http://127.0.0.1:4000/v1'

/** Throws a CommandError where there is nobody to ask, or no right to. */
export async function chooseServer(
  { key: flag, url }: { key?: string; url?: string },
  io: Context,
): Promise<AskedServer> {
  const key = flag ?? (io.environment.TOLLGATE_KEY || null)
  const keyFrom = flag === undefined ? 'TOLLGATE_KEY' : '--key'
  if (url !== undefined && key === null) throw usageError('--url needs a key: give one with --key, or in TOLLGATE_KEY.')
  if (url !== undefined) return { base: toBase(url), unix: null, key, keyFrom }
  const found = await findServer(io.dataFolder)
  if (key !== null) {
    return { base: found.kind === 'server' ? found.status.url : DEFAULT_URL, unix: null, key, keyFrom }
  }
  const other = 'or give a key with --key or in TOLLGATE_KEY, and the address of another server with --url'
  if (found.kind === 'none')
    throw new CommandError(
      'no_server',
      `No server runs on ${io.dataFolder}. Start it with: tollgate serve --data ${io.dataFolder}; ${other}.`,
    )
  if (found.kind === 'silent')
    throw new CommandError('server_silent', `The server cannot be asked: ${found.why}; ${other}.`)
  return { base: 'http://localhost/system/v1', unix: socketPath(io.dataFolder), key, keyFrom }
}

function toBase(url: string): string {
  const parsed = URL.parse(url)
  if (parsed?.protocol !== 'http:' && parsed?.protocol !== 'https:')
    throw usageError(`--url '${url}' is no address: write one such as ${DEFAULT_URL}.`)
  const base = url.replace(/\/+$/, '')
  return base.endsWith('/v1') ? base : `${base}/v1`
}

/** Asks, with a body by POST. Returns an answer that is 2xx; throws what any other says as a CommandError. */
export async function fetchFrom(server: AskedServer, path: string, body?: unknown): Promise<Response> {
  const { base, unix, key, keyFrom } = server
  const response = await fetch(`${base}${path}`, {
    ...(unix === null ? {} : { unix }),
    ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
    headers: { 'content-type': 'application/json', ...(key === null ? {} : { authorization: `Bearer ${key}` }) },
    redirect: 'manual',
    // An answer takes as long as it takes.
    ...{ timeout: false },
  }).catch((error) => {
    throw new CommandError(
      'server_silent',
      `Nobody answers at ${base}: ${reasonOf(error)}. Start a server there, or name the address of another with --url.`,
    )
  })
  if (response.ok) return response
  const { kind, message } = toFailure(await response.text(), response.status)
  throw new CommandError(
    kind,
    response.status === 401 && key !== null ? `${message} (The key is from ${keyFrom}.)` : message,
  )
}

/** What an error in the shape of the API says; that of anything else is its status. */
export function toFailure(text: string, status: number): { kind: string; message: string } {
  try {
    const { error } = JSON.parse(text)
    if (typeof error.message === 'string')
      return { kind: error.code ?? error.type ?? 'refused', message: error.message }
  } catch {}
  return {
    kind: 'refused',
    message: `The server answered with ${status} and not as Tollgate does. Is its address right?`,
  }
}

/** What the runtime says of an address that cannot be reached ends in a question of its own. */
const reasonOf = (error: unknown) => UNREACHED.get(codeOf(error)) ?? messageOf(error).replace(/[.?]$/, '')

const UNREACHED: ReadonlyMap<string, string> = new Map([
  ['ECONNREFUSED', 'connection refused'],
  ['ConnectionRefused', 'connection refused'],
  ['ENOTFOUND', 'its name does not resolve'],
])
