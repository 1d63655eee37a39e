/**
 * `tollgate requests list | show`: which requests there were, and how the charge of one came about. They read the ledger beside
 * a running server, which brings it up to date first.
 */
import { toChargeDocument, toNames, toRequestPageDocument } from '../documents/request.ts'
import { count } from '../domain/text.ts'
import { readCharge } from '../ledger/charge.ts'
import { findRequest, listRequests } from '../ledger/requests.ts'
import { CommandError } from './command-error.ts'
import { type Context, printJson, withStore } from './io.ts'
import { catchUp, toBehindNote } from './live.ts'
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
  const page = {
    limit: toCount('--limit', limit),
    ...(before === undefined ? {} : { before }),
    ...(since === undefined ? {} : { sinceMs: toMoment('--since', since, nowMs) }),
    ...(until === undefined ? {} : { untilMs: toMoment('--until', until, nowMs) }),
  }
  await withStore(io, { readonly: true }, async (store, { requests: reader, audit }) => {
    const rows = await store.read()
    const filter = toFilter(flags, rows, nowMs)
    const behind = await catchUp(audit, io.dataFolder)
    const found = await listRequests(reader, { ...page, ...filter })
    const { requests, next, stoppedAfter } = found
    const names = toNames(rows)
    io.stderr(toBehindNote(behind))
    if (io.json) return printJson(io, toRequestPageDocument(found, names))
    if (requests.length > 0) io.stdout(toRequestTable(requests, names, nowMs, io.paint))
    if (stoppedAfter !== null) io.stderr(`${count(stoppedAfter, 'request')} were looked at, and no more. `)
    if (next !== null) io.stderr(`Older ones: --before ${next}\n`)
    else if (requests.length === 0) io.stderr(NONE)
  })
}

export async function show(id: string, io: Context): Promise<void> {
  await withStore(io, { readonly: true }, async (store, { requests: reader, audit }) => {
    const names = toNames(await store.readKeys())
    const behind = await catchUp(audit, io.dataFolder)
    const charge = readCharge(reader, await findRequest(reader, id))
    io.stderr(toBehindNote(behind))
    if (io.json) printJson(io, toChargeDocument(charge, names))
    else io.stdout(toRequestText(charge, names))
    if (charge.agrees !== false) return
    throw new CommandError('charge_differs', 'The charge cannot be worked out again from what is on record of it.')
  })
}
