/**
 * Client of the admin API for commands. A running server handles requests over its control socket, so changes are in
 * effect when the command returns; otherwise this process runs the same handlers.
 */
import { treaty } from '@elysiajs/eden/treaty2'
import type { AdminApi } from '../admin/app.ts'
import type { OperatorApi } from '../admin/operator.ts'
import { asObject, parseJson, type Reviver } from '../domain/json.ts'
import { count } from '../domain/text.ts'
import type { Behind } from '../ledger/audit.ts'
import { CommandError } from './command-error.ts'
import {
  askSocket,
  awaitServer,
  findServer,
  ORIGIN,
  type ServerLookup,
  toPart,
  toRefusal,
  whyUnasked,
} from './control-client.ts'
import { type Context, version, withStore } from './io.ts'

interface Answer<T> {
  data: T | null
  error: { value: unknown } | null
}

/** For a path such as `/admin/api/keys`. Rejects with a CommandError if the server can't be reached. */
type Send = (path: string, init?: RequestInit) => Promise<Response>

const toApi = (fetcher: typeof fetch) => treaty<AdminApi>(ORIGIN, { parseDate: false, fetcher }).admin.api
const toOperatorApi = (fetcher: typeof fetch) => treaty<OperatorApi>(ORIGIN, { parseDate: false, fetcher }).operator

export interface AdminClient {
  /** Path parameters must be escaped: `api.keys(idOf(id))`. */
  api: ReturnType<typeof toApi>
  /** Not available over the network. */
  operator: ReturnType<typeof toOperatorApi>
  send: Send
  /** The server, or why this process is used instead. */
  found: ServerLookup
  /** Has the server apply its journal; returns what the database still lacks. */
  behind(): Promise<Behind>
}

interface AdminOptions {
  /** If the server can't be reached, uses this process. */
  readonly?: boolean
}

/** Covers the longest report and queued changes. */
const ANSWER_MS = 120_000

/** Unless `readonly`, throws a CommandError if the server can't be reached or has another version. */
export async function withAdmin<T>(
  io: Context,
  { readonly = false }: AdminOptions,
  work: (admin: AdminClient) => Promise<T>,
): Promise<T> {
  const { dataFolder } = io
  const found = await (readonly ? findServer(dataFolder) : awaitServer(dataFolder))
  if (found.kind === 'none' || (found.kind === 'silent' && readonly)) return withOwnAdmin(io, found, readonly, work)
  if (found.kind === 'silent')
    throw new CommandError('server_silent', `Can't reach the server: ${found.why}. No changes made.`)
  const { version: other } = found.status
  const own = version()
  if (other === own) return work(createSocketClient(dataFolder, found))
  const versions = `The server is version ${other}, this command is ${own}`
  if (!readonly)
    throw new CommandError(
      'other_version',
      `${versions}. No changes made. Restart the server with ${own}, or use a ${other} command.`,
    )
  io.stderr(`note: ${versions}. Restart it with this version.\n`)
  try {
    return await work(withoutOperator(createSocketClient(dataFolder, found)))
  } catch (error) {
    if (!(error instanceof CommandError) || error.kind !== 'unknown_path') throw error
    return withOwnAdmin(io, found, readonly, work)
  }
}

/** Reads a report after the server has applied its journal; notes pending rows. */
export async function readReport<T>(io: Context, ask: (admin: AdminClient) => Promise<T>): Promise<T> {
  const { behind, report } = await withAdmin(io, { readonly: true }, async (admin) => ({
    behind: await admin.behind(),
    report: await ask(admin),
  }))
  io.stderr(toBehindNote(behind))
  return report
}

/** Escapes a path parameter. */
export const idOf = (which: string) => ({ id: toPart(which) })

/** Throws API errors as a CommandError with advice. */
export async function answerOf<T>(asking: Promise<Answer<T>>): Promise<T> {
  const { data, error } = await asking
  if (error === null) return data as T
  // The client wraps errors of its fetcher.
  if (error.value instanceof Error) throw error.value
  throw toRefusal(error.value)
}

/** Like `answerOf`, for a raw response and with a JSON reviver. */
export async function readAnswerOf<T>(sending: Promise<Response>, reviver: Reviver): Promise<T> {
  const response = await sending
  const body = parseJson(await response.text(), reviver)
  if (!response.ok) throw toRefusal(body)
  return body as T
}

function createSocketClient(dataFolder: string, found: ServerLookup): AdminClient {
  const send: Send = (path, init = {}) =>
    askSocket(dataFolder, path, { signal: AbortSignal.timeout(ANSWER_MS), ...init }).catch((error) => {
      const { why } = whyUnasked(error)
      throw new CommandError(
        'server_silent',
        `The server did not respond: ${why}. Check what was changed: tollgate audit log`,
      )
    })
  const behind = async () => {
    const flushed = asObject(await (await send('/ledger/flush', { method: 'POST' })).json())
    return { waiting: Number(flushed?.waiting ?? 0), isServed: true }
  }
  return toClient(send, found, behind)
}

/** Blocks the operator API of another version: what is a dry run in this version could be a change in the other. */
const withoutOperator = (client: AdminClient): AdminClient => ({
  ...client,
  get operator(): never {
    throw new CommandError('unknown_path', 'The server has another version.')
  },
})

const withOwnAdmin = <T>(
  io: Context,
  found: ServerLookup,
  readonly: boolean,
  work: (admin: AdminClient) => Promise<T>,
): Promise<T> =>
  withStore(io, { readonly }, async (store) => {
    if (readonly) (await import('./shared-ledger.ts')).noteOwnOnly(io)
    const { createOfflineAdmin } = await import('../server/admin-view/offline-admin.ts')
    const { dataFolder, environment, nowMs: now } = io
    const admin = createOfflineAdmin({ dataFolder, environment, store, now })
    const send: Send = (path, init) => admin.handle(new Request(`${ORIGIN}${path}`, init))
    return await work(toClient(send, found, async () => admin.behind()))
  })

function toClient(send: Send, found: ServerLookup, behind: AdminClient['behind']): AdminClient {
  const fetcher = Object.assign(
    (url: string | URL | Request, init?: RequestInit) => send(String(url).slice(ORIGIN.length), init),
    { preconnect() {} },
  )
  return { api: toApi(fetcher), operator: toOperatorApi(fetcher), send, found, behind }
}

export function toBehindNote({ waiting, isServed }: Behind): string {
  // A server of another version may not report it.
  if (!waiting) return ''
  const how = isServed ? 'the server is applying' : 'the next server start applies'
  return `note: ${count(waiting, 'ledger record')} pending in the journal; ${how} ${waiting === 1 ? 'it' : 'them'}.\n`
}
