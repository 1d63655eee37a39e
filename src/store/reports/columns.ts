/** Columns of the ledger's tables in every database. Their names are the fields of rows, in snake case. */
import { COUNTS, SUMMED_COUNTS } from '../../domain/call-counts.ts'
import { LATEST_MS, toFirstId } from '../../domain/id.ts'
import { keysOf } from '../../domain/json.ts'
import type { StoredCall, StoredRequest } from '../ledger-rows.ts'

const ALL_COUNTS = Object.fromEntries(COUNTS.map((name) => [name, true])) as Record<(typeof COUNTS)[number], true>
export const SUMMED = [...SUMMED_COUNTS, 'costNanoUsd'] as const

const CALLED = {
  ...{ instance: true, upstream: true, upstreamModel: true, lane: true, priceId: true, createdMs: true },
  ...{ reservedPromptTokens: true, reservedCompletionTokens: true, reservedNanoUsd: true },
  ...{ status: true, httpStatus: true, errorCode: true, durationMs: true, firstTokenMs: true, ...ALL_COUNTS },
  ...{ estimated: true, countedBy: true, mode: true, reportedNanoUsd: true, unpriced: true },
  ...{ upstreamRequestId: true, credential: true },
}

/** Fields without IDs, which databases store in different forms. */
export const REQUEST_FIELDS = keysOf({
  ...{ keyId: true, teamId: true, model: true, endpoint: true, stream: true, user: true, attempts: true },
  ...CALLED,
} satisfies Record<Exclude<keyof StoredRequest, 'id'>, boolean>)

export const CALL_FIELDS = keysOf({ number: true, reason: true, ...CALLED } satisfies Record<
  Exclude<keyof StoredCall, 'requestId'>,
  boolean
>)

/** `cacheWrite1hTokens` to `cache_write_1h_tokens`. */
export const toColumn = (field: string) => field.replace(/[A-Z]|\d+/g, (part) => `_${part.toLowerCase()}`)

/** Quoted, as `user` is a keyword, and databases change the case of other names. */
export const toSelection = (fields: readonly string[]) =>
  fields.map((field) => `"${toColumn(field)}" AS "${field}"`).join(', ')

/** Queries use the partial index only with exactly this text; `IN` would build a temporary table per written row, 2 µs each. */
export const HAS_ERROR_SQL = `status <> 'ok' AND status <> 'open'`

/** IDs may run slightly ahead of `created_ms` under load: ID ranges are widened by this. */
export const SLACK_MS = 60_000

/** Sorts after every ID. */
export const AFTER_ALL = 'g'

export const toIdAfter = (ms: number) => (ms > LATEST_MS ? AFTER_ALL : toFirstId(ms))
