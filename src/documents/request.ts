/** Requests under their columns' names, as `requests … --json` prints them and the admin API answers. */
import { type Static, Type } from '@sinclair/typebox'
import { COUNTS, type Counts } from '../domain/call-counts.ts'
import { REQUEST_STATUSES } from '../domain/report-filters.ts'
import type { Lane } from '../domain/task.ts'
import type { RequestCharge } from '../ledger/charge.ts'
import type { RequestPage as Page } from '../ledger/requests.ts'
import type { SettledRow, StoredRequest } from '../store/ledger-rows.ts'
import { Count, CountOrNull, Money, MoneyOrNull, orNull, Text, TextOrNull, Time, toColumns, wordOf } from './fields.ts'
import { Pricing } from './model.ts'

const status = wordOf(REQUEST_STATUSES)
/** 0 or 1. */
const bit = Type.Integer({ minimum: 0, maximum: 1 })

const counts = Object.fromEntries(COUNTS.map((name) => [name, Count])) as Record<keyof Counts, typeof Count>

/** What a request and each of its calls have. */
const Called = {
  ...{ upstream: Text, upstream_model: Text, passthrough: Type.Boolean(), price_id: TextOrNull, created_ms: Time },
  ...{ reserved_prompt_tokens: Count, reserved_completion_tokens: Count, reserved_nano_usd: Money },
  ...{ status, http_status: CountOrNull, error_code: TextOrNull, duration_ms: CountOrNull },
  first_token_ms: CountOrNull,
  ...toColumns(counts),
  compute_ms: Type.Integer({ description: 'How long a server was at work on it, where that has a price.' }),
  estimated: Type.Integer({ minimum: 0, maximum: 1, description: '1 where some count is ours.' }),
  ...{ cost_nano_usd: Money, upstream_request_id: TextOrNull },
  credential: orNull(
    Type.Integer({ description: 'By which of its upstream’s credentials it went; null where that has one or none.' }),
  ),
  mode: orNull(Type.String({ description: 'How its upstream served it, such as flex; null for as most are.' })),
  reported_nano_usd: orNull(
    Type.Integer({ description: 'What its upstream charged by its own word, where that counts.' }),
  ),
  unpriced: Type.Integer({ minimum: 0, maximum: 1, description: '1 where something of it has no price.' }),
}

/** A request of a list: its columns, and what its key and its team are called now. */
export const Request = Type.Object({
  ...{ id: Text, instance: Text, key_id: Text, key: TextOrNull, team_id: TextOrNull, team: TextOrNull },
  ...{ model: Text, endpoint: Text, stream: bit, user: TextOrNull },
  ...Called,
  attempts: Count,
})
export type RequestDocument = Static<typeof Request>

/** What ids are called; of those that have no name any more, or never had one, nothing is known. */
export interface Names {
  keys: ReadonlyMap<string, string>
  teams: ReadonlyMap<string, string>
}

/** What has an id and a name, by its id. */
export const toNames = (rows: Record<keyof Names, readonly { id: string; name: string }[]>): Names => ({
  keys: new Map(rows.keys.map(({ id, name }) => [id, name])),
  teams: new Map(rows.teams.map(({ id, name }) => [id, name])),
})

/** The columns of a request or a call, but for `lane`, which is stored as a word. */
const toCalled = <Row extends { lane: Lane }>({ lane, ...row }: Row) => ({
  ...toColumns(row),
  passthrough: lane === 'native',
})

function toRequestDocument(row: StoredRequest, names: Names): RequestDocument {
  return {
    ...toCalled(row),
    key: names.keys.get(row.keyId) ?? null,
    team: row.teamId === null ? null : (names.teams.get(row.teamId) ?? null),
  }
}

export const RequestPage = Type.Object({
  requests: Type.Array(Request),
  next: orNull(Type.String({ description: 'For `before`, of the next page; null where there is none.' })),
  scanned: orNull(Type.Integer({ description: 'So many were looked at, and older ones were not.' })),
})
export type RequestPageDocument = Static<typeof RequestPage>

export const toRequestPageDocument = ({ requests, next, stoppedAfter }: Page, names: Names): RequestPageDocument => ({
  requests: requests.map((row) => toRequestDocument(row, names)),
  next,
  scanned: stoppedAfter,
})

/** A request that has just ended, and why its upstream failed, for those who follow. */
export const toFinishedDocument = (row: SettledRow, reason: string | null, names: Names) => ({
  ...toRequestDocument(row, names),
  reason,
})

export type FinishedDocument = ReturnType<typeof toFinishedDocument>

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

/** One request at length: the request, its calls with the arithmetic of their charge, and whether it comes out. */
export const ExplainedRequest = Type.Object({
  ...Request.properties,
  calls: Type.Array(Call),
  recalculated_nano_usd: MoneyOrNull,
  matches_ledger: orNull(Type.Boolean({ description: 'Whether that is what the ledger says.' })),
})
export type ChargeDocument = Static<typeof ExplainedRequest>

export function toChargeDocument(
  { request, calls, recalculatedNanoUsd, matchesLedger }: RequestCharge,
  names: Names,
): ChargeDocument {
  return {
    ...toRequestDocument(request, names),
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

/** Such as `cache_write_1h`. */
const toKindName = (kind: string) => kind.replace(/[A-Z]|\d+/g, (part) => `_${part.toLowerCase()}`)
