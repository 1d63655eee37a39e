/** Lists and finds requests. Scans from the newest, thousands at a time with pauses for other work. Reports if it stops at a limit. */
import { timeOfId } from '../domain/id.ts'
import { ERROR_STATUSES } from '../domain/report-filters.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { StoredCall, StoredRequest } from '../store/ledger-rows.ts'
import type { FoundRequest, RequestReader, RequestSearch } from '../store/report-store.ts'

/** The first slice, which is enough for most filters, and the largest: about 10 ms. */
const SLICE = { first: 1_000, most: 20_000 }
/** Rows scanned for a list: under a second; for an ID: a few seconds. */
const MAX_LISTED_FROM = 1_000_000
const MAX_SEARCHED = 5_000_000
export const MAX_LIMIT = 10_000

export interface ListOptions extends RequestSearch {
  /** Page size, from 1. */
  limit: number
  /** The page starts after the request with this ID, which may not exist; absent: at the newest. */
  before?: string
}

/** Includes the last call of a request with an error, which has the reason. */
export interface ListedRequest extends FoundRequest {
  lastCall: StoredCall | null
}

export interface RequestPage {
  /** Newest first. */
  requests: ListedRequest[]
  /** Start of the next page; null if there is none. */
  next: string | null
  /** Set if the scan stopped at its limit: how many rows it scanned. */
  stoppedAfter: number | null
}

type Reader = Pick<RequestReader, 'slice' | 'calls'>

/** Throws `invalid`. */
export async function listRequests(
  reader: Reader,
  { limit, before, ...search }: ListOptions,
  most = MAX_LISTED_FROM,
): Promise<RequestPage> {
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT)
    throw invalid('limit', `must be a whole number from 1 to ${MAX_LIMIT}`)
  const start = before === undefined ? null : toWholeId(before)
  if (before !== undefined && start === null) throw invalid('before', 'must be a full request ID')
  // One extra row shows whether there is another page.
  const { rows, next } = await look(reader, search, start, limit + 1, most)
  const requests: ListedRequest[] = []
  for (const row of rows.slice(0, limit)) requests.push({ ...row, lastCall: await readLastCall(reader, row) })
  if (rows.length <= limit) return { requests, next, stoppedAfter: next === null ? null : most }
  return { requests, next: requests.at(-1)?.id ?? null, stoppedAfter: null }
}

const readLastCall = async (reader: Reader, row: StoredRequest) =>
  ERROR_STATUSES.some((status) => status === row.status) ? ((await reader.calls(row)).at(-1) ?? null) : null

/** Scans from `before` until the limit is found or scanned; `next` is where to continue. */
async function look(
  reader: Pick<RequestReader, 'slice'>,
  search: RequestSearch,
  before: string | null,
  limit: number,
  most: number,
) {
  const rows: FoundRequest[] = []
  let next = before
  let size = Math.max(SLICE.first, Math.min(SLICE.most, limit))
  for (let looked = 0; looked < most; looked += size, size = Math.min(SLICE.most, size * 4)) {
    if (looked > 0) await new Promise(setImmediate)
    const slice = await reader.slice(search, next, limit - rows.length, Math.min(size, most - looked))
    rows.push(...slice.rows)
    next = slice.next
    if (next === null || rows.length >= limit) return { rows, next }
  }
  return { rows, next }
}

/** The ID as in a completion, a response, an item of its output, a header, or a call sent upstream. */
const WHOLE = /^(?:[a-z]+[-_])?([0-9a-f]{32})(?:[-_]\d+)?$/
const PART = /^(?:[a-z]+[-_])?([0-9a-f]{4,31})$/

export const toWholeId = (text: string): string | null => WHOLE.exec(text.trim().toLowerCase())?.[1] ?? null

/** IDs listed in an error. */
const MAX_NAMED = 5

/**
 * Finds the only request that matches: an ID as in the ledger, a completion, a header, or at an upstream (`0192…`, `chatcmpl-…`, `resp_…`, `fc_…_1`, `req_…`,
 * `…-2`), four or more digits from either end, or the ID that the upstream gave any of its calls. Throws `request_not_found`, `request_removed`,
 * `request_ambiguous`, and `invalid`.
 *
 * @param ownKeys finds only requests of these keys
 */
export async function findRequest(
  reader: Pick<RequestReader, 'slice' | 'get' | 'beginning' | 'keptFromMs'>,
  text: string,
  most = MAX_SEARCHED,
  ownKeys?: readonly string[],
): Promise<FoundRequest> {
  const isSeen = (row: StoredRequest | null) => row !== null && (ownKeys?.includes(row.keyId) ?? true)
  const request = text.trim().slice(0, 200)
  if (/^[0-9a-f]{0,3}$/i.test(request)) throw invalid('id', `'${request}' is too short: use at least 4 digits`)
  const whole = toWholeId(request)
  const found = whole === null ? null : await reader.get(whole)
  if (found && isSeen(found)) return found
  const keptFromMs = await reader.keptFromMs()
  // Some providers' IDs differ from ours only in the version.
  if (whole !== null && isMinted(whole))
    throw timeOfId(whole) < keptFromMs ? removed(request, whole, keptFromMs) : notFound(request, '')
  const digits = PART.exec(request.toLowerCase())?.[1]
  const id = { ofUpstream: request, ...(digits === undefined ? {} : { end: digits }) }
  const ending = await look(reader, { id, ...(ownKeys && { ownKeys }) }, null, MAX_NAMED + 1, most)
  const ids = new Set(ending.rows.map(({ id }) => id))
  if (digits !== undefined) for (const id of await reader.beginning(digits, MAX_NAMED + 1, most, ownKeys)) ids.add(id)
  const [only] = ids
  if (only === undefined)
    throw notFound(
      request,
      ending.next === null ? toKept(keptFromMs) : ` among the newest ${most}; for an older one, use the full ID`,
    )
  const named = [...ids].slice(0, MAX_NAMED)
  const more = ids.size > named.length ? ', …' : ''
  const row = ids.size === 1 ? await reader.get(only) : null
  if (row) return row
  throw new ServiceError(
    { kind: 'request_ambiguous', request },
    `'${request}' matches several requests: ${named.join(', ')}${more}.`,
  )
}

/** A UUIDv7, which contains its time. */
const isMinted = (id: string) => /^.{12}7...[89ab]/.test(id)

const removed = (request: string, id: string, keptFromMs: number) =>
  new ServiceError(
    { kind: 'request_removed', request, createdMs: timeOfId(id) },
    `Request '${request}' is no longer kept: its ID dates from ${toIso(timeOfId(id))}, and requests before ${toIso(keptFromMs)} were removed, as set by \`serve --retention\`.`,
  )

const toKept = (keptFromMs: number) =>
  keptFromMs === 0 ? '' : `; requests before ${toIso(keptFromMs)} were removed, as set by \`serve --retention\``

const toIso = (ms: number) => new Date(ms).toISOString()

const notFound = (request: string, where: string) =>
  new ServiceError({ kind: 'request_not_found', request }, `Request '${request}' not found${where}.`)

const invalid = (field: string, rule: string) =>
  new ServiceError({ kind: 'invalid', field }, `Invalid ${field}: ${rule}.`)
