/**
 * The admin API, as commands ask it. Where a server runs on the data folder, it answers over its control socket, so that it obeys a
 * change when the command returns; where none runs, the same handlers answer in this process. Commands decide nothing by themselves.
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

/** How an answer comes: the document, or the error object of the API. */
interface Answer<T> {
  data: T | null
  error: { value: unknown } | null
}

/** Answers a request for a path such as `/admin/api/keys`. Rejects with a CommandError where nobody does. */
type Send = (path: string, init?: RequestInit) => Promise<Response>

const toApi = (fetcher: typeof fetch) => treaty<AdminApi>(ORIGIN, { parseDate: false, fetcher }).admin.api
const toOperatorApi = (fetcher: typeof fetch) => treaty<OperatorApi>(ORIGIN, { parseDate: false, fetcher }).operator

export interface AdminClient {
  /** Typed by the routes of the admin API. A parameter of a path is to be escaped: `api.keys(idOf(id))`. */
  api: ReturnType<typeof toApi>
  /** What is not for the network. */
  operator: ReturnType<typeof toOperatorApi>
  /** For answers that are no documents: streams. */
  send: Send
  /** The server that answers, or why this process does. */
  found: ServerLookup
  /** For the reader of a report: has a running server apply its journal, and tells what the database lacks anyway. */
  behind(): Promise<Behind>
}

interface AdminOptions {
  /** Whether it changes nothing: then a server that cannot be asked is done without. */
  readonly?: boolean
}

/** The longest report, or a change behind others. */
const ANSWER_MS = 120_000

/**
 * Has the work ask the admin API of the data folder. Throws a CommandError where a server runs that cannot be asked, or is of another
 * version, and the work is not `readonly`.
 */
export async function withAdmin<T>(
  io: Context,
  { readonly = false }: AdminOptions,
  work: (admin: AdminClient) => Promise<T>,
): Promise<T> {
  const { dataFolder } = io
  const found = await (readonly ? findServer(dataFolder) : awaitServer(dataFolder))
  if (found.kind === 'none' || (found.kind === 'silent' && readonly)) return withOwnAdmin(io, found, readonly, work)
  if (found.kind === 'silent')
    throw new CommandError('server_silent', `The server cannot be asked: ${found.why}. Nothing was changed.`)
  const { version: other } = found.status
  const own = version()
  if (other === own) return work(createSocketClient(dataFolder, found))
  const versions = `The server runs ${other}, and this command is of ${own}`
  if (!readonly)
    throw new CommandError(
      'other_version',
      `${versions}. Nothing was changed. Restart the server with ${own}, or use the command of ${other}.`,
    )
  io.stderr(`note: ${versions}. Restart it with this version.\n`)
  try {
    return await work(withoutOperator(createSocketClient(dataFolder, found)))
  } catch (error) {
    if (!(error instanceof CommandError) || error.kind !== 'unknown_path') throw error
    return withOwnAdmin(io, found, readonly, work)
  }
}

/** A report, once a running server has applied its journal as far as it can; notes what the report lacks anyway. */
export async function readReport<T>(io: Context, ask: (admin: AdminClient) => Promise<T>): Promise<T> {
  const { behind, report } = await withAdmin(io, { readonly: true }, async (admin) => ({
    behind: await admin.behind(),
    report: await ask(admin),
  }))
  io.stderr(toBehindNote(behind))
  return report
}

/** As a part of a path. */
export const idOf = (which: string) => ({ id: toPart(which) })

/** The answer. Throws a CommandError that has the error of the API and says what to do. */
export async function answerOf<T>(asking: Promise<Answer<T>>): Promise<T> {
  const { data, error } = await asking
  if (error === null) return data as T
  // The client wraps what its fetcher has thrown.
  if (error.value instanceof Error) throw error.value
  throw toRefusal(error.value)
}

/** The same of an answer that was sent for, read with a reviver of its own. */
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
        `The server did not answer: ${why}. See what was done: tollgate audit log`,
      )
    })
  const behind = async () => {
    const flushed = asObject(await (await send('/ledger/flush', { method: 'POST' })).json())
    return { waiting: Number(flushed?.waiting ?? 0), isServed: true }
  }
  return toClient(send, found, behind)
}

/** For a server of another version: what it takes of the operator is of its own version, and not checked. A plan may be a change there. */
const withoutOperator = (client: AdminClient): AdminClient => ({
  ...client,
  get operator(): never {
    throw new CommandError('unknown_path', 'The server is of another version.')
  },
})

/** The same without a server. */
const withOwnAdmin = <T>(
  io: Context,
  found: ServerLookup,
  readonly: boolean,
  work: (admin: AdminClient) => Promise<T>,
): Promise<T> =>
  withStore(io, { readonly }, async (store) => {
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

/** A line for the reader of a report; '' where nothing waits. */
export function toBehindNote({ waiting, isServed }: Behind): string {
  if (waiting === 0) return ''
  const [verb, what] = waiting === 1 ? ['waits', 'it'] : ['wait', 'them']
  const who = isServed ? 'the running server' : 'the next start of the server'
  return `note: ${count(waiting, 'ledger record')} ${verb} in the journal; ${who} applies ${what}.\n`
}
