/** Requests under their columns' names, as `requests … --json` prints them and the admin API answers. Pure. */
import type { RequestCharge } from '../ledger/charge.ts'
import type { RequestPage } from '../ledger/requests.ts'
import type { SettledRow, StoredRequest } from '../store/ledger-rows.ts'
import { toColumns } from './columns.ts'

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

/** A request of a list: its columns, and what its key and its team are called now. */
export function toRequestDocument({ firstCall: _, ...row }: StoredRequest, names: Names) {
  return {
    ...toColumns(row),
    key: names.keys.get(row.keyId) ?? null,
    team: row.teamId === null ? null : (names.teams.get(row.teamId) ?? null),
  }
}

/** A page of them. */
export const toRequestPageDocument = ({ requests, next, stoppedAfter }: RequestPage, names: Names) => ({
  requests: requests.map((row) => toRequestDocument(row, names)),
  next,
  stopped_after: stoppedAfter,
})

/** A request that has just ended, and why its upstream failed, for those who follow. */
export const toFinishedDocument = (row: SettledRow, reason: string | null, names: Names) => ({
  ...toRequestDocument(row, names),
  reason,
})

/** One request at length: the request, its calls with the arithmetic of their charge, and whether it comes out. */
export function toChargeDocument({ request, calls, workedOutNanoUsd, agrees }: RequestCharge, names: Names) {
  return {
    ...toRequestDocument(request, names),
    calls: calls.map(({ basis, price, charge, workedOutNanoUsd: callNanoUsd, ...call }) => ({
      ...toColumns(call),
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
        unpriced: [...charge.unpriced],
      },
      worked_out_nano_usd: callNanoUsd,
    })),
    worked_out_nano_usd: workedOutNanoUsd,
    agrees,
  }
}

/** Such as `cache_write_1h`. */
export const toKindName = (kind: string) => kind.replace(/[A-Z]|\d+/g, (part) => `_${part.toLowerCase()}`)

export type RequestDocument = ReturnType<typeof toRequestDocument>
export type RequestPageDocument = ReturnType<typeof toRequestPageDocument>
export type FinishedDocument = ReturnType<typeof toFinishedDocument>
export type ChargeDocument = ReturnType<typeof toChargeDocument>
