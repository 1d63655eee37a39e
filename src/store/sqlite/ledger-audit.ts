/** Compares requests, calls, and rollup, next to a running server: each comparison is one read-only statement. */
import type { Database } from 'bun:sqlite'
import { LATEST_MS, timeOfId, toFirstId } from '../../domain/id.ts'
import { DAY_MS, HOUR_MS, hourOf } from '../../domain/time.ts'
import { isServed, listDraining } from '../data-folder.ts'
import type { LedgerRecord } from '../ledger-rows.ts'
import type { AuditCell, CallProblem, DayProblem, LedgerAudit, OpenRows } from '../ledger-store.ts'
import { SLACK_MS, SUMMED, toColumn, toIdAfter } from '../reports/columns.ts'
import { BETWEEN, DAY_SUMS, HISTOGRAMS, MEASURES, PLACE } from '../reports/measures.ts'
import { countRequests, readNewestMs } from './ledger-reader.ts'

const FIELDS = [...MEASURES.map(({ name }) => name), ...HISTOGRAMS.map(([name]) => name)]

/** -1: not a histogram. */
const countOf = (histogram: string) =>
  `CASE WHEN json_valid(${histogram}) THEN (SELECT COALESCE(SUM(value), 0) FROM json_each(${histogram})) ELSE -1 END`

const LEDGER = [
  ...MEASURES.map(({ name, sql }) => `SUM(${sql}) AS ${name}`),
  ...HISTOGRAMS.map(([name, counted]) => `COUNT(${counted}) AS ${name}`),
]
const ROLLUP = [...MEASURES.map(({ name }) => name), ...HISTOGRAMS.map(([name]) => `${countOf(name)} AS ${name}`)]
const BOTH = FIELDS.map(
  (name) => `COALESCE(ledger.${name}, 0) AS ledger_${name}, COALESCE(rollup.${name}, 0) AS rollup_${name}`,
)

/** Retention moves it with the rows it removes, so both must be read in one statement. */
const FROM = `(SELECT COALESCE(MAX(CAST(value AS INTEGER)), 0) FROM settings WHERE key = 'ledger_from')`

/** Parameters: first ID, ID after the last, hour, next hour. */
const COMPARE = `
  WITH settled AS (
    SELECT *, COALESCE(team_id, '') AS team FROM requests
    WHERE id >= ?1 AND id < ?2 AND created_ms >= ?3 AND created_ms < ?4 AND status <> 'open'
  ), ledger AS (
    SELECT key_id, team AS team_id, model, upstream, endpoint, ${LEDGER.join(', ')}
    FROM settled GROUP BY 1, 2, 3, 4, 5
  ), rollup AS (
    SELECT ${PLACE.join(', ')}, ${ROLLUP.join(', ')} FROM usage_hourly WHERE hour_ms = ?3
  )
  SELECT ${PLACE.join(', ')}, ${BOTH.join(', ')}, ledger.requests IS NULL AS orphan
  FROM ledger FULL OUTER JOIN rollup USING (${PLACE.join(', ')})
  WHERE ?3 >= ${FROM}
  ORDER BY ${PLACE.join(', ')}`

const sums = SUMMED.map(toColumn)

/** Requests without calls are checked one by one only if they claim several. Parameters: first ID, ID after the last. */
const CHECK_CALLS = `
  WITH listed AS (
    SELECT request_id, COUNT(*) AS calls, ${sums.map((name) => `SUM(${name}) AS ${name}`).join(', ')}
    FROM calls WHERE request_id >= ?1 AND request_id < ?2 AND status <> 'open' GROUP BY request_id
  ), found AS (
    SELECT request_id AS id, requests.id IS NULL AS orphan, attempts <> calls AS attempts,
      attempts = calls AND (${sums.map((name) => `listed.${name} <> requests.${name}`).join(' OR ')}) AS sums
    FROM listed LEFT JOIN requests ON requests.id = request_id WHERE COALESCE(status, '') <> 'open'
    UNION ALL
    SELECT id, 0, 1, 0 FROM requests WHERE id >= ?1 AND id < ?2 AND attempts > 1 AND status <> 'open'
      AND NOT EXISTS (SELECT 1 FROM calls WHERE request_id = id AND calls.status <> 'open')
  )
  SELECT 'orphans' AS problem, COUNT(*) AS requests, MIN(id) AS request_id FROM found WHERE orphan
  UNION ALL SELECT 'attempts', COUNT(*), MIN(id) FROM found WHERE attempts
  UNION ALL SELECT 'sums', COUNT(*), MIN(id) FROM found WHERE sums`

const NAMES = MEASURES.map(({ name }) => name)

const ADDED = NAMES.map((name) => `SUM(${name}) AS ${name}`).join(', ')
const TAKEN = NAMES.map((name) => `-${name}`).join(', ')

/** Split in two, since most rows differ by key. */
const summed = (place: string) =>
  `SELECT ${place}, ${ADDED} FROM usage_hourly WHERE hour_ms >= ?1 AND hour_ms < ?2 GROUP BY ${place}`

/** One statement, since hours and days are written together; much faster than a join. Parameters: day, next day. */
const CHECK_DAY = `
  WITH keys AS MATERIALIZED (${summed('key_id, team_id, model')}),
  others AS MATERIALIZED (${summed('team_id, model, upstream, endpoint')})
  ${DAY_SUMS.map(({ dimension, scope, of }) => {
    const [value, within] = [PLACE[of], scope === null ? null : PLACE[scope]]
    return `
  SELECT '${dimension}' AS dimension, value FROM (
    SELECT ${within ? `${within} || '${BETWEEN}' || ${value}` : value} AS value, 0 AS days, ${NAMES.join(', ')}
    FROM ${value === 'key_id' ? 'keys' : 'others'} ${within ? `WHERE ${within} <> ''` : ''}
    UNION ALL SELECT value, 1, ${TAKEN} FROM usage_daily WHERE dimension = '${dimension}' AND day_ms = ?1
  ) GROUP BY value HAVING SUM(days) <> 1 OR COUNT(*) = 1 OR ${NAMES.map((name) => `SUM(${name}) <> 0`).join(' OR ')}`
  }).join(' UNION ALL ')}`

const OPEN_ROWS = (['requests', 'calls'] as const)
  .map(
    (table) => `SELECT '${table}' AS "table", instance, COUNT(*) AS rows, MIN(created_ms) AS oldest_ms
      FROM ${table} WHERE status = 'open' GROUP BY instance`,
  )
  .join(' UNION ALL ')

/** One step per hour with rows, even across long gaps. */
function addHours(hours: Set<number>, next: Next): void {
  for (let row = next.get(''); row !== null; ) {
    const hourMs = hourOf(timeOfId(row.id))
    hours.add(hourOf(row.created_ms))
    // Also the hour of the ID, which later rows may have.
    if (!(hourMs <= LATEST_MS)) break
    hours.add(hourMs)
    row = next.get(toIdAfter(hourMs + HOUR_MS))
  }
}

interface Next {
  get(id: string): { id: string; created_ms: number } | null
}

type Cell = AuditCell['place'] & { orphan: number } & Record<string, string | number>

export function createLedgerAudit(sqlite: Database, dataFolder: string): LedgerAudit {
  const compare = sqlite.query<Cell, [string, string, number, number]>(COMPARE)
  const checkCalls = sqlite.query<CallProblem, [string, string]>(CHECK_CALLS)
  const rollupHours = sqlite.query<{ hour: number }, []>('SELECT DISTINCT hour_ms AS hour FROM usage_hourly')
  const nextRequest: Next = sqlite.query('SELECT id, created_ms FROM requests WHERE id >= ? ORDER BY id LIMIT 1')
  const nextCall: Next = sqlite.query(
    'SELECT request_id AS id, created_ms FROM calls WHERE request_id >= ? ORDER BY request_id LIMIT 1',
  )
  const checkDay = sqlite.query<DayProblem, [number, number]>(CHECK_DAY)
  const days = sqlite.query<{ day: number }, []>('SELECT DISTINCT day_ms AS day FROM usage_daily')
  const requestOf = sqlite.query<{ status: string; nanoUsd: number }, [string]>(
    'SELECT status, reserved_nano_usd AS nanoUsd FROM requests WHERE id = ?',
  )
  const callOf = sqlite.query<{ nanoUsd: number }, [string, number]>(
    'SELECT reserved_nano_usd AS nanoUsd FROM calls WHERE request_id = ? AND number = ?',
  )
  const lastInstance = () =>
    sqlite.query<{ id: string }, []>('SELECT id FROM instances ORDER BY epoch DESC LIMIT 1').get()?.id ?? null

  const isMissing = (record: LedgerRecord): boolean => {
    const request = requestOf.get(record.kind === 'call' ? record.call.requestId : record.row.id)
    if (request && request.status !== 'open' && request.status !== 'abandoned') return false
    if (record.kind === 'settle') return true
    const stored = record.kind === 'call' ? callOf.get(record.call.requestId, record.call.number) : request
    if (!stored) return true
    // Records may have a smaller reservation.
    const { reservedNanoUsd } = record.kind === 'call' ? record.call : record.row
    return 'heldNanoUsd' in record && stored.nanoUsd < reservedNanoUsd
  }

  return {
    hours() {
      const hours = new Set(rollupHours.all().map(({ hour }) => hour))
      for (const next of [nextRequest, nextCall]) addHours(hours, next)
      return [...hours].sort((a, b) => a - b)
    },
    cells: (hourMs) =>
      compare
        .all(toFirstId(hourMs - SLACK_MS), toIdAfter(hourMs + HOUR_MS + SLACK_MS), hourMs, hourMs + HOUR_MS)
        .map(toCell),
    days: () => days.all().map(({ day }) => day),
    dayProblems: (dayMs) => checkDay.all(dayMs, dayMs + DAY_MS),
    fromMs: () => sqlite.query<{ ms: number }, []>(`SELECT ${FROM} AS ms`).get()?.ms ?? 0,
    callProblems: (hourMs) =>
      checkCalls.all(toFirstId(hourMs), toIdAfter(hourMs + HOUR_MS)).filter(({ requests }) => requests > 0),
    open: () => sqlite.query<OpenRows, []>(OPEN_ROWS).all(),
    living() {
      const server = isServed(dataFolder) ? lastInstance() : null
      return [...listDraining(dataFolder), ...(server === null ? [] : [server])]
    },
    lastInstance,
    missing: (records) => records.filter(isMissing).length,
    count: () => countRequests(sqlite),
    has: (requestId) => requestOf.get(requestId) !== null,
    newestMs: () => readNewestMs(sqlite),
  }
}

function toCell(cell: Cell): AuditCell {
  const { key_id, team_id, model, upstream, endpoint } = cell
  return {
    place: { key_id, team_id, model, upstream, endpoint },
    orphan: cell.orphan === 1,
    requests: Number(cell.ledger_requests),
    costNanoUsd: Number(cell.ledger_cost_nano_usd),
    differences: FIELDS.map((field) => ({
      field,
      ledger: Number(cell[`ledger_${field}`]),
      rollup: Number(cell[`rollup_${field}`]),
    })).filter(({ ledger, rollup }) => ledger !== rollup),
  }
}
