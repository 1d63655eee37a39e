/** Requests in JSON, for the CLI and the admin API. */
import { type Static, Type } from '@sinclair/typebox'
import { COUNTS, type Counts } from '../domain/call-counts.ts'
import { CORRECTION, REQUEST_STATUSES } from '../domain/report-filters.ts'
import { explainError, toReason } from '../domain/request-errors.ts'
import type { Lane } from '../domain/task.ts'
import { type CsvCell, toCsvRows } from '../domain/text.ts'
import { COUNT_SOURCES, UNIT_COLUMNS } from '../domain/units.ts'
import { toUsd } from '../domain/usage.ts'
import type { RequestCharge } from '../ledger/charge.ts'
import type { RequestPage as Page } from '../ledger/requests.ts'
import { type SettledRow, type StoredCall, toComplete } from '../store/ledger-rows.ts'
import type { FoundRequest } from '../store/report-store.ts'
import { Count, CountOrNull, Money, MoneyOrNull, orNull, Text, TextOrNull, Time, toColumns, wordOf } from './fields.ts'
import { Pricing } from './model.ts'

const status = wordOf(REQUEST_STATUSES)
const bit = Type.Integer({ minimum: 0, maximum: 1 })

const counts = Object.fromEntries(COUNTS.map((name) => [name, Count])) as Record<
  Exclude<keyof Counts, 'countedBy'>,
  typeof Count
>

/** Fields of requests and calls. */
const Called = {
  ...{ upstream: Text, upstream_model: Text, passthrough: Type.Boolean(), price_id: TextOrNull, created_ms: Time },
  ...{ reserved_prompt_tokens: Count, reserved_completion_tokens: Count, reserved_nano_usd: Money },
  ...{ status, http_status: CountOrNull, error_code: TextOrNull, duration_ms: CountOrNull },
  first_token_ms: CountOrNull,
  ...toColumns(counts),
  compute_ms: Type.Integer({ description: 'Compute time in ms, if it has a price.' }),
  estimated: Type.Integer({ minimum: 0, maximum: 1, description: '1 if some counts are estimated.' }),
  counted_by: orNull(wordOf(COUNT_SOURCES)),
  ...{ cost_nano_usd: Money, upstream_request_id: TextOrNull },
  credential: orNull(
    Type.Integer({ description: 'Number of the upstream’s credential that was used; null if it has at most one.' }),
  ),
  mode: orNull(Type.String({ description: 'Service mode reported by the upstream, such as flex; null: standard.' })),
  reported_nano_usd: orNull(Type.Integer({ description: 'Cost reported by the upstream, if it is what was charged.' })),
  unpriced: Type.Integer({ minimum: 0, maximum: 1, description: '1 if some usage has no price.' }),
}

/** A request with the current names of its key and team. */
export const Request = Type.Object({
  ...{ id: Text, instance: Text },
  node: orNull(
    Type.String({ description: 'Name of the node that answered it; null without a cluster, and in the live stream.' }),
  ),
  ...{ key_id: Text, key: TextOrNull, team_id: TextOrNull, team: TextOrNull },
  ...{ model: Text, endpoint: Text, stream: bit, user: TextOrNull },
  ...Called,
  attempts: Count,
  reason: orNull(
    Type.String({ description: 'How its upstream failed: `status 503`, `connection`, `broken`, or `deadline`.' }),
  ),
})
export type RequestDocument = Static<typeof Request>

/** Names by ID; deleted keys and teams have none. */
export interface Names {
  keys: ReadonlyMap<string, string>
  teams: ReadonlyMap<string, string>
}

export const toNames = (rows: Record<keyof Names, readonly { id: string; name: string }[]>): Names => ({
  keys: new Map([[CORRECTION, CORRECTION], ...rows.keys.map(({ id, name }) => [id, name] as const)]),
  teams: new Map(rows.teams.map(({ id, name }) => [id, name])),
})

/** Replaces the stored `lane` with `passthrough`. */
const toCalled = <Row extends { lane: Lane }>({ lane, ...row }: Row) => ({
  ...toColumns(row),
  passthrough: lane === 'native',
})

/** @param reason how its upstream failed, from its last call */
function toRequestDocument(row: FoundRequest | SettledRow, reason: string | null, names: Names): RequestDocument {
  return {
    ...toCalled(toComplete(row)),
    node: ('node' in row && row.node) || null,
    key: names.keys.get(row.keyId) ?? null,
    team: row.teamId === null ? null : (names.teams.get(row.teamId) ?? null),
    reason,
  }
}

export const RequestPage = Type.Object({
  requests: Type.Array(Request),
  next: orNull(Type.String({ description: '`before` of the next page; null on the last page.' })),
  scanned: orNull(Type.Integer({ description: 'Number of requests scanned if the search stopped early; null: all.' })),
})
export type RequestPageDocument = Static<typeof RequestPage>

export const toRequestPageDocument = ({ requests, next, stoppedAfter }: Page, names: Names): RequestPageDocument => ({
  requests: requests.map(({ lastCall, ...row }) => toRequestDocument(row, toReasonOf(lastCall), names)),
  next,
  scanned: stoppedAfter,
})

const toReasonOf = (call: Pick<StoredCall, 'status' | 'httpStatus' | 'errorCode'> | null | undefined) =>
  call ? toReason(call) : null

/** A finished request in the live stream. @param reason how its upstream failed */
export const toFinishedDocument = (row: SettledRow, reason: string | null, names: Names): RequestDocument =>
  toRequestDocument(row, reason, names)

type CsvColumn = readonly [heading: string, cell: (request: RequestDocument) => CsvCell]

/** CSV columns; those that are also in the JSON have the same name. */
const CSV: readonly CsvColumn[] = [
  ['id', ({ id }) => id],
  ['time_utc', ({ created_ms: ms }) => new Date(ms).toISOString()],
  ['status', ({ status }) => status],
  ['http_status', (request) => request.http_status],
  ['error_code', (request) => request.error_code],
  ['error', (request) => explainError(request)?.what ?? null],
  ...(['key', 'key_id', 'team', 'team_id', 'user', 'model', 'endpoint', 'stream', 'upstream'] as const).map(same),
  ...(['upstream_model', 'attempts', 'prompt_tokens', 'cached_tokens', 'completion_tokens'] as const).map(same),
  same('reasoning_tokens'),
  ...UNIT_COLUMNS.map((name) => same(name)),
  ...(['counted_by', 'first_token_ms', 'duration_ms'] as const).map(same),
  ['cost_usd', ({ cost_nano_usd: cost }) => toUsd(cost)],
  ...(['cost_nano_usd', 'estimated', 'unpriced', 'upstream_request_id'] as const).map(same),
]

function same<Name extends Exclude<keyof RequestDocument, 'passthrough'>>(name: Name): CsvColumn {
  return [name, (request) => request[name]]
}

export const toCsvHeadings = (): string => toCsvRows([CSV.map(([heading]) => heading)])

/** Without headings. */
export const toRequestsCsv = ({ requests }: Page, names: Names): string =>
  toCsvRows(
    requests.map(({ lastCall, ...row }) => {
      const document = toRequestDocument(row, toReasonOf(lastCall), names)
      return CSV.map(([, cell]) => cell(document))
    }),
  )

const Line = Type.Object({ kind: Text, count: Count, price: Text, usd_each: Text, usd: Text })

const Call = Type.Object({
  ...{ number: Count, reason: wordOf(['first', 'retry', 'fallback', 'limit', 'fan_out', 'schema', 'within'] as const) },
  ...Called,
  basis: wordOf(['tokens', 'reported', 'free', 'nothing', 'reserve', 'open', 'unknown'] as const),
  price: orNull(
    Type.Object({ id: Text, model: Text, upstream: TextOrNull, pricing: Type.Array(Pricing), created_ms: Time }),
  ),
  charge: orNull(
    Type.Object({
      ...{ item: orNull(Pricing), lines: Type.Array(Line), usd: Text, nano_usd: Money },
      unpriced: Type.Array(Text),
    }),
  ),
  recalculated_nano_usd: MoneyOrNull,
})

/** A request with its calls and cost breakdown. */
export const ExplainedRequest = Type.Object({
  ...Request.properties,
  calls: Type.Array(Call),
  recalculated_nano_usd: MoneyOrNull,
  matches_ledger: orNull(Type.Boolean({ description: 'True if the recalculated cost equals the recorded one.' })),
})
export type ChargeDocument = Static<typeof ExplainedRequest>

export function toChargeDocument(
  { request, calls, recalculatedNanoUsd, matchesLedger }: RequestCharge,
  names: Names,
): ChargeDocument {
  return {
    ...toRequestDocument(request, toReasonOf(calls.at(-1)), names),
    calls: calls.map(({ basis, price, charge, recalculatedNanoUsd: callNanoUsd, ...call }) => ({
      ...toCalled(call),
      basis,
      price: price && toColumns(price),
      charge: charge && {
        item: charge.item,
        lines: charge.lines.map(({ kind, count: n, price: name, usdEach, usd }) => ({
          kind: toKindName(kind),
          count: n,
          price: name,
          usd_each: usdEach,
          usd,
        })),
        usd: charge.usd,
        nano_usd: charge.nanoUsd,
        unpriced: [...charge.unpriced],
      },
      recalculated_nano_usd: callNanoUsd,
    })),
    recalculated_nano_usd: recalculatedNanoUsd,
    matches_ledger: matchesLedger,
  }
}

/** `cacheWrite1h` to `cache_write_1h`. */
const toKindName = (kind: string) => kind.replace(/[A-Z]|\d+/g, (part) => `_${part.toLowerCase()}`)
