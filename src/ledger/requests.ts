/**
 * Finds requests on record: a list of them, page by page, and the one that somebody means. It looks at rows from the newest on,
 * a few thousand at a time with a pause for whatever else the process does, and stops at a bound, which it tells: nobody waits
 * for the whole of a long ledger.
 */
import { timeOfId } from '../domain/id.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { StoredRequest } from '../store/ledger-rows.ts'
import type { RequestReader, RequestSearch } from '../store/report-store.ts'

/** Takes some 10 ms. */
const SLICE = 20_000
/** Of a list, less than a second; of a search for an id, a few. */
const MAX_LISTED_FROM = 1_000_000
const MAX_SEARCHED = 5_000_000
export const MAX_LIMIT = 10_000

export interface ListOptions extends RequestSearch {
  /** Requests a page has at most, from 1 on. */
  limit: number
  /** The page begins behind the request of this id, which need not be there; absent: with the newest. */
  before?: string
}

export interface RequestPage {
  /** Newest first. */
  requests: StoredRequest[]
  /** Where the next page begins; null where there is none. */
  next: string | null
  /** Set where no more were looked at, though older ones may be wanted, too: how many were. */
  stoppedAfter: number | null
}

type Reader = Pick<RequestReader, 'slice'>

/** Lists requests. Throws `invalid`. */
export async function listRequests(
  reader: Reader,
  { limit, before, ...search }: ListOptions,
  most = MAX_LISTED_FROM,
): Promise<RequestPage> {
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT)
    throw invalid('limit', `it must be a whole number from 1 to ${MAX_LIMIT}`)
  const start = before === undefined ? null : toWholeId(before)
  if (before !== undefined && start === null) throw invalid('before', 'it must be the whole id of a request')
  // One more than are wanted tells whether there is another page.
  const { rows, next } = await look(reader, search, start, limit + 1, most)
  if (rows.length <= limit) return { requests: rows, next, stoppedAfter: next === null ? null : most }
  const requests = rows.slice(0, limit)
  return { requests, next: requests.at(-1)?.id ?? null, stoppedAfter: null }
}

/** Looks from `before` on until so many are found, or so many were looked at: then `next` says where to go on. */
async function look(reader: Reader, search: RequestSearch, before: string | null, limit: number, most: number) {
  const rows: StoredRequest[] = []
  let next = before
  for (let looked = 0; looked < most; looked += SLICE) {
    if (looked > 0) await new Promise(setImmediate)
    const slice = await reader.slice(search, next, limit - rows.length, Math.min(SLICE, most - looked))
    rows.push(...slice.rows)
    next = slice.next
    if (next === null || rows.length >= limit) return { rows, next }
  }
  return { rows, next }
}

/** The id itself, of a completion, of a response or an item of its output, of a response's header, or of a call as its upstream was told it. */
const WHOLE = /^(?:[a-z]+[-_])?([0-9a-f]{32})(?:[-_]\d+)?$/
const PART = /^(?:[a-z]+[-_])?([0-9a-f]{4,31})$/

export const toWholeId = (text: string): string | null => WHOLE.exec(text.trim().toLowerCase())?.[1] ?? null

/** Named of those that an id may mean. */
const MAX_NAMED = 5

/**
 * The only request that a text may mean: an id as the ledger, a completion, a response's header or an upstream has it
 * (`0192…`, `chatcmpl-…`, `resp_…`, `fc_…_1`, `req_…`, `…-2`), four or more digits from either end of one, or the whole id that its upstream gave it.
 * Throws `request_not_found`, `request_removed`, `request_ambiguous` and `invalid`.
 */
export async function findRequest(
  reader: Pick<RequestReader, 'slice' | 'get' | 'beginning' | 'keptFromMs'>,
  text: string,
  most = MAX_SEARCHED,
): Promise<StoredRequest> {
  const request = text.trim().slice(0, 200)
  if (/^[0-9a-f]{0,3}$/i.test(request)) throw invalid('id', `'${request}' is too short: give four digits or more`)
  const whole = toWholeId(request)
  const found = whole === null ? null : await reader.get(whole)
  if (found) return found
  const keptFromMs = await reader.keptFromMs()
  if (whole !== null)
    throw isMinted(whole) && timeOfId(whole) < keptFromMs ? removed(request, whole, keptFromMs) : notFound(request, '')
  const digits = PART.exec(request.toLowerCase())?.[1]
  const search = digits === undefined ? { upstreamRequestId: request } : { idEnd: digits }
  const ending = await look(reader, search, null, MAX_NAMED + 1, most)
  const ids = new Set(ending.rows.map(({ id }) => id))
  if (digits !== undefined) for (const id of await reader.beginning(digits, MAX_NAMED + 1)) ids.add(id)
  const [only] = ids
  if (only === undefined)
    throw notFound(
      request,
      ending.next === null ? toKept(keptFromMs) : ` among the newest ${most}; of an older one, give the whole id`,
    )
  const named = [...ids].slice(0, MAX_NAMED)
  const more = ids.size > named.length ? ', …' : ''
  const row = ids.size === 1 ? await reader.get(only) : null
  if (row) return row
  throw new ServiceError(
    { kind: 'request_ambiguous', request },
    `'${request}' may mean several requests: ${named.join(', ')}${more}.`,
  )
}

/** Only a UUIDv7 says when it was made. */
const isMinted = (id: string) => id[12] === '7'

const removed = (request: string, id: string, keptFromMs: number) =>
  new ServiceError(
    { kind: 'request_removed', request, createdMs: timeOfId(id) },
    `There is no request '${request}' on record: by its id it is of ${toIso(timeOfId(id))}, and requests are kept for as long as \`serve --retention\` says. Those of before ${toIso(keptFromMs)} were taken away.`,
  )

const toKept = (keptFromMs: number) =>
  keptFromMs === 0 ? '' : `; those of before ${toIso(keptFromMs)} were taken away, as \`serve --retention\` says`

const toIso = (ms: number) => new Date(ms).toISOString()

const notFound = (request: string, where: string) =>
  new ServiceError({ kind: 'request_not_found', request }, `There is no request '${request}' on record${where}.`)

const invalid = (field: string, rule: string) =>
  new ServiceError({ kind: 'invalid', field }, `The field ${field} is invalid: ${rule}.`)
