/**
 * Reads usage for reports, from the rollup or from the requests themselves, a page a statement: a snapshot that were held for a whole
 * report would keep the log of a busy server from being emptied. Only reads. `ledger/usage.ts` says what is asked for.
 */
import type { Database } from 'bun:sqlite'
import { timeOfId, toFirstId } from '../../domain/id.ts'
import { HOUR_MS, hourOf } from '../../domain/time.ts'
import type { UsageQuery, UsageReader } from '../usage-store.ts'
import { SLACK_MS, toIdAfter } from './ledger-ids.ts'
import { createKeptFrom } from './ledger-prune.ts'
import { createRanking } from './ranking.ts'
import { COUNTS, PAGE, toUsageStatement, type UsageStatement } from './usage-query.ts'

/** Of the rollup, where there is little in an hour. */
const MOST_HOURS = 24

export function createUsageReader(sqlite: Database): UsageReader {
  const hourIn = sqlite.query<{ ms: number | null }, [number, number]>(
    'SELECT MIN(hour_ms) AS ms FROM usage_hourly WHERE hour_ms >= ? AND hour_ms < ?',
  )
  const idIn = sqlite.query<{ id: string }, [string, string]>(
    'SELECT id FROM requests WHERE id >= ? AND id < ? ORDER BY id LIMIT 1',
  )
  const keptFromMs = createKeptFrom(sqlite)

  const read = ({ sql, values, toCell }: UsageStatement, ...span: (string | number)[]) => {
    const rows = sqlite.query<object, (string | number)[]>(sql).values(...span, ...values)
    return { cells: rows.map(toCell), last: rows.at(-1)?.[0] }
  }

  function* pagesOfRollup({ fromMs, untilMs }: UsageQuery['span'], statement: UsageStatement) {
    let many = 1
    for (let at = hourIn.get(fromMs, untilMs)?.ms ?? null; at !== null; ) {
      const end = Math.min(at + many * HOUR_MS, untilMs)
      const { cells } = read(statement, at, end)
      yield cells
      if (cells.length > PAGE) many = Math.max(1, Math.floor(many / 2))
      else if (cells.length < PAGE / 4) many = Math.min(MOST_HOURS, many * 2)
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
        const { cells, last } = read(statement, cursor, stop, fromMs, untilMs)
        yield cells
        isMore = cells.length === PAGE
        cursor = String(last ?? cursor)
      }
      at = stop
    }
  }

  return {
    counts: COUNTS,
    pages(query) {
      const statement = toUsageStatement(query)
      return query.from === 'rollup' ? pagesOfRollup(query.span, statement) : pagesOfRequests(query.span, statement)
    },
    keptFromMs,
    rank: createRanking,
  }
}
