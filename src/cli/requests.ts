/** `tollgate requests`. `tail` drops requests if its reader is too slow, and says how many. */

import type { Command } from 'commander'
import type { RequestDocument } from '../documents/request.ts'
import { toDefined } from '../domain/changes.ts'
import { toShortId } from '../domain/id.ts'
import { REQUEST_FILTERS, REQUEST_STATUSES, type RequestFilterName } from '../domain/report-filters.ts'
import { count } from '../domain/text.ts'
import { answerOf, idOf, readReport, withAdmin } from './admin-client.ts'
import { CommandError, usageError } from './command-error.ts'
import { toRefusal } from './control-client.ts'
import { type Context, printJson, toExamples, toPrintable } from './io.ts'
import { toCost, toElapsed, toNote, toRequestTable, toRequestText } from './request-text.ts'
import { addParameters, toCount, toMoment } from './values.ts'

const FILTERS = [...REQUEST_FILTERS, 'status', 'errors'] as const
const repeatable = ['status']

export function addRequests(group: Command, context: Context): void {
  const listing = group
    .command('list')
    .description('list requests, newest first (for rejected ones: tollgate usage --refusals)')
  addParameters(listing, [...FILTERS, 'since', 'until', 'before'], { repeatable })
    .option('--limit <n>', `max rows (default: ${LIST_ROWS}, with --csv all, up to a million)`)
    .option('--csv', 'print CSV, with exact costs')
    .addHelpText(
      'after',
      toExamples(
        'requests list --errors --since yesterday --until today',
        'requests list --team research --since 30d --csv > requests.csv',
      ),
    )
    .action((flags: ListFlags) => list(flags, context))
  const following = group.command('tail').description('stream requests as they finish')
  addParameters(following, FILTERS, { repeatable })
    .addHelpText('after', toExamples('requests tail', 'requests tail --errors --json'))
    .action((flags: FilterFlags) => tail(flags, context))
  group
    .command('show')
    .description("show a request's calls and cost breakdown; exits 1 if the cost doesn't match")
    .argument('<id>', "request ID, x-request-id, response ID, or upstream's request ID; 4+ digits from either end")
    .addHelpText(
      'after',
      toExamples('requests show 3e1da544', 'requests show req_0192f3a1c5d27e8b9a4f6d1c2b3a4e5f --json'),
    )
    .action((id: string) => show(id, context))
}

const LIST_ROWS = 50

interface ListFlags extends FilterFlags {
  limit?: string
  csv?: boolean
  before?: string
  since?: string
  until?: string
}

const NONE =
  'No matching requests. To count requests that were rejected before they were recorded: tollgate usage --refusals\n'

export async function list(flags: ListFlags, io: Context): Promise<void> {
  const nowMs = io.nowMs()
  const { limit, csv, before, since, until, ...filter } = flags
  if (csv && io.json) throw usageError('Pass either --csv or --json, not both.')
  const query = {
    ...toFilter(filter),
    ...toDefined({ before, since: toTimeText('--since', since, nowMs), until: toTimeText('--until', until, nowMs) }),
    ...(limit === undefined ? (csv ? {} : { limit: LIST_ROWS }) : { limit: toCount('--limit', limit) }),
  }
  if (csv) return printCsv(query, io)
  const page = await readReport(io, ({ api }) => answerOf(api.requests.get({ query })))
  const { requests, next, scanned: stoppedAfter } = page
  if (io.json) return printJson(io, page)
  if (requests.length > 0) io.stdout(toRequestTable(requests, nowMs, io.paint))
  if (stoppedAfter) io.stderr(`Stopped after scanning ${count(stoppedAfter, 'request')}. `)
  if (next !== null) io.stderr(`For older requests: --before ${next}\n`)
  else if (requests.length === 0) io.stderr(NONE)
}

/** Writes the CSV as it arrives, page by page. */
const printCsv = (query: object, io: Context): Promise<void> =>
  readReport(io, async ({ send }) => {
    const wanted = toQueryText(query)
    const response = await send(`/admin/api/requests/csv?${wanted}`, { signal: AbortSignal.timeout(EXPORT_MS) })
    if (!response.ok || response.body === null) throw toRefusal(await response.json())
    const decoder = new TextDecoder()
    try {
      for await (const bytes of response.body) {
        io.stdout(decoder.decode(bytes, { stream: true }))
        if (!(await io.stdoutLeft())) return
      }
    } catch {
      throw new CommandError('server_gone', 'The export stopped before its end. Run it again.')
    }
  })

const EXPORT_MS = 30 * 60_000

const toQueryText = (query: object) =>
  new URLSearchParams(Object.entries(query).map(([name, value]): [string, string] => [name, String(value)]))

const toTimeText = (option: string, text: string | undefined, nowMs: number) =>
  text === undefined ? undefined : String(toMoment(option, text, nowMs))

export async function show(id: string, io: Context): Promise<void> {
  const charge = await readReport(io, ({ api }) => answerOf(api.requests(idOf(id)).get()))
  if (io.json) printJson(io, charge)
  else io.stdout(toRequestText(charge))
  if (charge.matches_ledger !== false) return
  throw new CommandError(
    'charge_differs',
    "The cost can't be recalculated from the recorded data. To verify the ledger: tollgate ledger verify",
  )
}

/** Only for connecting; a stream may be idle for hours. */
const BEGIN_MS = 15_000

function tail(flags: FilterFlags, io: Context): Promise<void> {
  const query = toQueryText(toFilter(flags))
  return withAdmin(io, { readonly: true }, async ({ send }) => {
    const silence = new AbortController()
    const timer = setTimeout(() => silence.abort(new DOMException('', 'TimeoutError')), BEGIN_MS)
    const response = await send(`/admin/api/requests/live?${query}`, { signal: silence.signal })
    clearTimeout(timer)
    if (!response.ok || response.body === null) throw toRefusal(await response.json())
    io.stderr('Showing requests as they finish. Press Ctrl-C to stop.\n')
    for await (const { name, data } of readEvents(response.body)) {
      if (name === 'end') return io.stderr('The server has stopped.\n')
      if (name === 'dropped') {
        if (io.json) io.stdout(`${data}\n`)
        else
          io.stderr(
            `${count(JSON.parse(data).dropped, 'request')} not shown (output too slow). See them: tollgate requests list\n`,
          )
      } else io.stdout(`${io.json ? data : toLine(JSON.parse(data))}\n`)
      if (!(await io.stdoutLeft())) return
    }
    throw new CommandError('server_gone', 'Lost connection to the server. Check its log.')
  })
}

/** Reads server-sent events with one line of data; ends if the connection breaks. */
async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<{ name: string; data: string }> {
  const decoder = new TextDecoder()
  let rest = ''
  try {
    for await (const bytes of body) {
      const events = (rest + decoder.decode(bytes, { stream: true })).split('\n\n')
      rest = events.pop() ?? ''
      for (const event of events) {
        const data = /^data: (.*)$/m.exec(event)?.[1]
        if (data !== undefined) yield { name: /^event: (.*)$/m.exec(event)?.[1] ?? 'message', data }
      }
    }
  } catch {
    // Connection lost.
  }
}

/** Such as `12:00:01  3e1da544  dev  acme/large  ok  1.24 s  380+211  $0.0001836` and the error. */
function toLine(row: RequestDocument): string {
  const { id, created_ms: createdMs, duration_ms: durationMs, key, key_id: keyId, model, status } = row
  const cells = [
    new Date(createdMs + (durationMs ?? 0)).toISOString().slice(11, 19),
    toShortId(id),
    (key ?? toShortId(keyId)).padEnd(12),
    model.padEnd(20),
    status.padEnd(6),
    toElapsed(durationMs ?? 0).padStart(7),
    `${row.prompt_tokens}+${row.completion_tokens}`.padStart(10),
    toCost(row),
    toNote(row),
  ]
  return toPrintable(cells.join('  ').trimEnd())
}

interface FilterFlags extends Partial<Record<Exclude<RequestFilterName, 'error_code'>, string>> {
  errorCode?: string
  status?: string[]
  errors?: boolean
}

export function toFilter({ errorCode: error_code, status, errors, ...same }: FilterFlags) {
  if (errors && status !== undefined) throw usageError('Pass either --errors or --status, not both.')
  const statuses = status?.flatMap((text) => text.split(',')).map((text) => text.trim())
  const wrong = statuses?.find((text) => !REQUEST_STATUSES.some((known) => known === text))
  if (wrong !== undefined)
    throw usageError(
      `--status must be one or more of ${REQUEST_STATUSES.join(', ')}, comma-separated (got '${wrong}').`,
    )
  return toDefined({ ...same, error_code, status: statuses?.join(','), errors })
}
