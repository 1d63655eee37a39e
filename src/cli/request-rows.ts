/** Requests as cells of a table, for people. Pure. */
import type { RequestDocument } from '../documents/request.ts'
import { toShortId } from '../domain/id.ts'
import { count } from '../domain/text.ts'
import { toUsd } from '../domain/usage.ts'
import { toDescribedTable, toPrintable, toShort } from './io.ts'
import type { Paint } from './terminal.ts'

const HEADINGS = ['ID', 'TIME (UTC)', 'KEY', 'MODEL', 'STATUS', 'TOOK', 'TOKENS', 'COST']

export function toRequestTable(rows: readonly RequestDocument[], nowMs: number, paint: Paint): string {
  return toDescribedTable(
    HEADINGS,
    rows.map((row) => toCells(row, nowMs)),
    rows.map((row) => [toNote(row)]),
    paint,
  )
}

const toCells = (row: RequestDocument, nowMs: number): string[] => [
  toShortId(row.id),
  toClock(row.created_ms, nowMs),
  toShort(row.key ?? toShortId(row.key_id)),
  toShort(row.model),
  row.status,
  row.duration_ms === null ? '-' : toElapsed(row.duration_ms),
  row.status === 'open' ? '-' : `${row.prompt_tokens}+${row.completion_tokens}`,
  row.status === 'open' ? '-' : toCost(row),
]

/** `~` stands before what rests on a count of ours, `+` behind what may not be all: something of it has no price. */
export const toCost = ({
  estimated,
  cost_nano_usd: cost,
  unpriced,
}: Pick<RequestDocument, 'estimated' | 'cost_nano_usd' | 'unpriced'>) =>
  `${estimated ? '~' : ''}$${toUsd(cost)}${unpriced ? '+' : ''}`

type Noted = Pick<RequestDocument, 'status' | 'http_status' | 'error_code' | 'upstream' | 'attempts'>

/** Such as `502 upstream_failed, openai, 3 calls`; '' for a request that one call answered. */
export function toNote(row: Noted): string {
  const { status, http_status: httpStatus, error_code: errorCode, upstream, attempts } = row
  if (status === 'open') return `asks ${toPrintable(upstream)}`
  if (status === 'ok' && errorCode === null && attempts === 1) return ''
  // What a kill left open has no error but its status.
  const end = [httpStatus, errorCode].filter((part) => part !== null && part !== 200 && part !== status).join(' ')
  return [end, toPrintable(upstream), count(attempts, 'call')].filter((part) => part !== '').join(', ')
}

/** The time of day, in UTC, of today; else the day, too. */
function toClock(ms: number, nowMs: number): string {
  const text = new Date(ms).toISOString()
  const isToday = text.slice(0, 10) === new Date(nowMs).toISOString().slice(0, 10)
  return isToday ? text.slice(11, 19) : text.slice(0, 16).replace('T', ' ')
}

/** Such as `120 ms`, `1.24 s` or `75 s`. */
export function toElapsed(ms: number): string {
  if (ms < 1_000) return `${ms} ms`
  return `${ms < 10_000 ? (ms / 1_000).toFixed(2) : Math.round(ms / 1_000)} s`
}
