/** Reads usage, one page per statement: a snapshot held for a whole report would keep SQLite's WAL from being reset. */
import { toFirstId } from '../../domain/id.ts'
import { DAY_MS, HOUR_MS } from '../../domain/time.ts'
import type { UsageQuery, UsageReader } from '../report-store.ts'
import { SLACK_MS, toIdAfter } from './columns.ts'
import { type Engine, type Given, sliceIds } from './engine.ts'
import { COUNTS, PAGE, toUsageStatement, type UsageStatement } from './usage-statement.ts'

/** Per page. */
const MAX_HOURS = 24
/** Per page, which takes tens of milliseconds. */
const MAX_SUMS = 40_000
/** Per page. */
const MAX_DAYS = 32

export function createUsageReader(engine: Engine, rank: UsageReader['rank']): UsageReader {
  const { dialect } = engine
  const find = async (sql: string, fromMs: number, untilMs: number) =>
    (await engine.rows<{ ms: number | null }>(sql, [fromMs, untilMs]))[0]?.ms ?? null
  const findHour = (fromMs: number, untilMs: number) =>
    find('SELECT MIN(hour_ms) AS ms FROM usage_hourly WHERE hour_ms >= ?1 AND hour_ms < ?2', fromMs, untilMs)
  const findDay = (fromMs: number, untilMs: number) =>
    find(
      "SELECT MIN(day_ms) AS ms FROM usage_daily WHERE dimension = 'endpoint' AND day_ms >= ?1 AND day_ms < ?2",
      fromMs,
      untilMs,
    )

  const read = async ({ sql, values, toCell }: UsageStatement, ...span: Given[]) => {
    const rows = await engine.lists(sql, [...span, ...values])
    return { cells: rows.map(toCell), firsts: rows.map(([first]) => first) }
  }

  async function* pagesOfDays({ fromMs, untilMs }: UsageQuery['span'], statement: UsageStatement) {
    for (let at = await findDay(fromMs, untilMs); at !== null; ) {
      const end = Math.min(at + MAX_DAYS * DAY_MS, untilMs)
      yield (await read(statement, at, end)).cells
      at = await findDay(end, untilMs)
    }
  }

  async function* pagesOfHours({ fromMs, untilMs }: UsageQuery['span'], statement: UsageStatement) {
    let many = 1
    for (let at = await findHour(fromMs, untilMs); at !== null; ) {
      const end = Math.min(at + many * HOUR_MS, untilMs)
      const { cells, firsts } = await read(statement, at, end)
      yield cells
      const size = firsts.reduce<number>((sum, count) => sum + Number(count), 0)
      if (size > MAX_SUMS) many = Math.max(1, Math.floor(many / 2))
      else if (size < MAX_SUMS / 4) many = Math.min(MAX_HOURS, many * 2)
      at = await findHour(end, untilMs)
    }
  }

  async function* pagesOfRequests({ fromMs, untilMs }: UsageQuery['span'], statement: UsageStatement) {
    const isEach = dialect.countDurations === null
    const [from, end] = [toFirstId(fromMs - SLACK_MS), toIdAfter(untilMs + SLACK_MS)]
    for await (const [first, stop] of sliceIds(engine, from, end, isEach ? HOUR_MS : DAY_MS)) {
      let cursor = first
      for (let isMore = true; isMore; ) {
        const { cells, firsts } = await read(
          statement,
          ...[dialect.toBound(cursor), dialect.toBound(stop), fromMs, untilMs],
        )
        yield cells
        isMore = isEach && cells.length === PAGE
        cursor = String(firsts.at(-1) ?? cursor)
      }
    }
  }

  return {
    counts: COUNTS,
    pages(query) {
      const statement = toUsageStatement(dialect, query)
      if (query.from === 'days') return pagesOfDays(query.span, statement)
      return query.from === 'hours' ? pagesOfHours(query.span, statement) : pagesOfRequests(query.span, statement)
    },
    hasHours: async ({ fromMs, untilMs }) => (await findHour(fromMs, untilMs)) !== null,
    keptFromMs: engine.keptFromMs,
    rank,
  }
}
