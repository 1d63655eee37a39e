/**
 * `tollgate requests list | show`: which requests there were, and how the charge of one came about. A running server brings the
 * ledger up to date first.
 */
import { toDefined } from '../domain/changes.ts'
import { count } from '../domain/text.ts'
import { answerOf, toBehindNote, withAdmin } from './admin-client.ts'
import { CommandError } from './command-error.ts'
import { type Context, printJson } from './io.ts'
import { type FilterFlags, toFilter } from './request-filter.ts'
import { toRequestTable } from './request-rows.ts'
import { toRequestText } from './request-text.ts'
import { toCount, toMoment } from './values.ts'

export interface ListFlags extends FilterFlags {
  limit: string
  before?: string
  since?: string
  until?: string
}

/** Limits, unknown keys and models, bad bodies, models that are not ready: nothing was asked, and nothing is charged. */
const NONE =
  'There are no such requests on record. What was refused before a model was asked (401, 404, 429 …) is in the log of the server alone, at --log-level info: look there for request_refused.\n'

export async function list(flags: ListFlags, io: Context): Promise<void> {
  const nowMs = io.nowMs()
  const { limit, before, since, until } = flags
  const query = {
    ...toFilter(flags),
    ...toDefined({ before, since: toTimeText('--since', since, nowMs), until: toTimeText('--until', until, nowMs) }),
    limit: toCount('--limit', limit),
  }
  const { behind, page } = await withAdmin(io, { readonly: true }, async ({ api, behind }) => ({
    behind: await behind(),
    page: await answerOf(api.requests.get({ query })),
  }))
  const { requests, next, stopped_after: stoppedAfter } = page
  io.stderr(toBehindNote(behind))
  if (io.json) return printJson(io, page)
  if (requests.length > 0) io.stdout(toRequestTable(requests, nowMs, io.paint))
  if (stoppedAfter !== null) io.stderr(`${count(stoppedAfter, 'request')} were looked at, and no more. `)
  if (next !== null) io.stderr(`Older ones: --before ${next}\n`)
  else if (requests.length === 0) io.stderr(NONE)
}

const toTimeText = (option: string, text: string | undefined, nowMs: number) =>
  text === undefined ? undefined : String(toMoment(option, text, nowMs))

export async function show(id: string, io: Context): Promise<void> {
  const { behind, charge } = await withAdmin(io, { readonly: true }, async ({ api, behind }) => ({
    behind: await behind(),
    charge: await answerOf(api.requests({ id: encodeURIComponent(id) }).get()),
  }))
  io.stderr(toBehindNote(behind))
  if (io.json) printJson(io, charge)
  else io.stdout(toRequestText(charge))
  if (charge.agrees !== false) return
  throw new CommandError('charge_differs', 'The charge cannot be worked out again from what is on record of it.')
}
