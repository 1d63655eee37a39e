/** A story's ledger, read after the server's end. */
import { Database } from 'bun:sqlite'
import { join } from 'node:path'

export interface CallRow {
  request_id: string
  number: number
  reason: string
  upstream: string
  status: string
  error_code: string | null
  created_ms: number
  duration_ms: number | null
  prompt_tokens: number
  cached_tokens: number
  completion_tokens: number
  estimated: number
  reserved_prompt_tokens: number
  reserved_completion_tokens: number
  reserved_nano_usd: number
  cost_nano_usd: number
}

export interface Row extends Omit<CallRow, 'request_id' | 'number' | 'reason'> {
  id: string
  instance: string
  key_id: string
  endpoint: string
  model: string
  http_status: number | null
  stream: number
  attempts: number
  user: string | null
  /** Null for a row with only one call. */
  first: CallRow | null
  calls: CallRow[]
}

export interface Sums {
  requests: number
  errors: number
  cuts: number
  prompt_tokens: number
  completion_tokens: number
  cost_nano_usd: number
}

export interface Rows {
  all: Row[]
  byId: ReadonlyMap<string, Row>
  byUser: ReadonlyMap<string, readonly Row[]>
  strays: CallRow[]
  integrity: unknown
  rollup: Sums
}

export function readRows(data: string): Rows {
  const database = new Database(join(data, 'tollgate.db'), { readonly: true })
  try {
    const calls = database.query<CallRow, []>('SELECT * FROM calls ORDER BY request_id, number').all()
    const further = Map.groupBy(calls, (call) => call.request_id)
    const all = database
      .query<Omit<Row, 'first' | 'calls'>, []>('SELECT * FROM requests ORDER BY id')
      .all()
      .map((row) => {
        const [first = null, ...others] = further.get(row.id) ?? []
        return { ...row, first, calls: others }
      })
    const byId = new Map(all.map((row) => [row.id, row]))
    const rollup = database
      .query<Sums, []>(
        `SELECT SUM(requests) AS requests, SUM(errors) AS errors, SUM(cuts) AS cuts, SUM(prompt_tokens) AS prompt_tokens,
           SUM(completion_tokens) AS completion_tokens, SUM(cost_nano_usd) AS cost_nano_usd FROM usage_hourly`,
      )
      .get()
    if (!rollup) throw new Error('a sum is always there')
    return {
      all,
      byId,
      byUser: Map.groupBy(all, (row) => row.user ?? ''),
      strays: calls.filter((call) => !byId.has(call.request_id)),
      integrity: database.query('PRAGMA integrity_check').all(),
      rollup,
    }
  } finally {
    database.close()
  }
}

/** A call's cost and reservation; the first call's is the rest of the row's. */
export interface Part {
  costNanoUsd: number
  reservedNanoUsd: number
  tokens: number
  reservedTokens: number
}

/** Of an abandoned row, its reservation is only the first call's. */
export function toParts(row: Row): Part[] {
  const further = row.calls.map(
    (call): Part => ({
      costNanoUsd: call.cost_nano_usd,
      reservedNanoUsd: call.reserved_nano_usd,
      tokens: call.prompt_tokens + call.completion_tokens,
      reservedTokens: call.reserved_prompt_tokens + call.reserved_completion_tokens,
    }),
  )
  const sumOf = (field: 'costNanoUsd' | 'tokens') => further.reduce((sum, part) => sum + part[field], 0)
  const first: Part = {
    costNanoUsd: row.cost_nano_usd - sumOf('costNanoUsd'),
    reservedNanoUsd: row.reserved_nano_usd,
    tokens: row.prompt_tokens + row.completion_tokens - sumOf('tokens'),
    reservedTokens: row.reserved_prompt_tokens + row.reserved_completion_tokens,
  }
  return [first, ...further]
}

/** The cost of a row abandoned by a kill: ended calls, and reservations of the others. */
export function toGivenUp(row: Row): number {
  const calls = row.first === null ? [] : [row.first, ...row.calls]
  if (calls.length === 0) return row.reserved_nano_usd
  return calls.reduce(
    (sum, { status, cost_nano_usd, reserved_nano_usd }) =>
      sum + (status === 'abandoned' ? reserved_nano_usd : cost_nano_usd),
    0,
  )
}
