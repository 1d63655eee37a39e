/**
 * Reads usage for reports, from sums or from the requests themselves, a page a statement: a snapshot that were held for a whole
 * report would keep the log of a busy server from being emptied. Only reads. `ledger/usage.ts` says what is asked for.
 */
import type { Database } from 'bun:sqlite'
import { timeOfId, toFirstId } from '../../domain/id.ts'
import { DAY_MS, HOUR_MS, hourOf } from '../../domain/time.ts'
import type { UsageQuery, UsageReader } from '../usage-store.ts'
import { SLACK_MS, toIdAfter } from './ledger-ids.ts'
import { createKeptFrom } from './ledger-prune.ts'
import { createRanking } from './ranking.ts'
import { COUNTS, PAGE, toUsageStatement, type UsageStatement } from './usage-query.ts'

/** Of a page, where there is little in an hour. */
const MOST_HOURS = 24
/** Of hours that go into a page, where the store adds them up: some tens of milliseconds, too. */
const MOST_SUMS = 40_000
/** Of a page: a day has a row for each key, say. */
const MOST_DAYS = 32

export function createUsageReader(sqlite: Database): UsageReader {
  const hourIn = sqlite.query<{ ms: number | null }, [number, number]>(
    'SELECT MIN(hour_ms) AS ms FROM usage_hourly WHERE hour_ms >= ? AND hour_ms < ?',
  )
  const dayIn = sqlite.query<{ ms: number | null }, [number, number]>(
    "SELECT MIN(day_ms) AS ms FROM usage_daily WHERE dimension = 'endpoint' AND day_ms >= ? AND day_ms < ?",
  )
  const idIn = sqlite.query<{ id: string }, [string, string]>(
    'SELECT id FROM requests WHERE id >= ? AND id < ? ORDER BY id LIMIT 1',
  )
  const keptFromMs = createKeptFrom(sqlite)

  const read = ({ sql, values, toCell }: UsageStatement, ...span: (string | number)[]) => {
    const rows = sqlite.query<object, (string | number)[]>(sql).values(...span, ...values)
    return { cells: rows.map(toCell), firsts: rows.map(([first]) => first) }
  }

  function* pagesOfDays({ fromMs, untilMs }: UsageQuery['span'], statement: UsageStatement) {
    for (let at = dayIn.get(fromMs, untilMs)?.ms ?? null; at !== null; ) {
      const end = Math.min(at + MOST_DAYS * DAY_MS, untilMs)
      yield read(statement, at, end).cells
      at = dayIn.get(end, untilMs)?.ms ?? null
    }
  }

  function* pagesOfHours({ fromMs, untilMs }: UsageQuery['span'], statement: UsageStatement) {
    let many = 1
    for (let at = hourIn.get(fromMs, untilMs)?.ms ?? null; at !== null; ) {
      const end = Math.min(at + many * HOUR_MS, untilMs)
      const { cells, firsts } = read(statement, at, end)
      yield cells
      const size = firsts.reduce<number>((sum, count) => sum + Number(count), 0)
      if (size > MOST_SUMS) many = Math.max(1, Math.floor(many / 2))
      else if (size < MOST_SUMS / 4) many = Math.min(MOST_HOURS, many * 2)
      at = hourIn.get(end, untilMs)?.ms ?? null
    }
  }

  function* pagesOfRequests({ fromMs, untilMs }: UsageQuery['span'], statement: UsageStatement) {
    const end = toIdAfter(untilMs + SLACK_MS)
    let at = toFirstId(fromMs - SLACK_MS)
    for (let found = idIn.get(at, end); found !== null; found = idIn.get(at, end)) {
      // Where a filter leaves little, an hour at a time bounds what one statement goes through.
      const hourMs = hourOf(timeOfId(found.id))
      const [stop = end] = [toIdAfter(hourMs + HOUR_MS), end].sort()
      let cursor = at
      for (let isMore = true; isMore; ) {
        const { cells, firsts } = read(statement, cursor, stop, fromMs, untilMs)
        yield cells
        isMore = cells.length === PAGE
        cursor = String(firsts.at(-1) ?? cursor)
      }
      at = stop
    }
  }

  return {
    counts: COUNTS,
    pages(query) {
      const statement = toUsageStatement(query)
      if (query.from === 'days') return pagesOfDays(query.span, statement)
      return query.from === 'hours' ? pagesOfHours(query.span, statement) : pagesOfRequests(query.span, statement)
    },
    hasHours: ({ fromMs, untilMs }) => (hourIn.get(fromMs, untilMs)?.ms ?? null) !== null,
    keptFromMs,
    rank: createRanking,
  }
}
