/** Reads counts of requests rejected before they had a row. */
import { REFUSAL_FILTERS, type RefusalDimension } from '../../domain/report-filters.ts'
import { DAY_MS, dayOf } from '../../domain/time.ts'
import type { RefusalFilter, RefusalReader } from '../report-store.ts'
import { createParameters, type Engine, type Parameters, toNamed } from './engine.ts'

const COLUMNS: Record<RefusalDimension, string> = {
  ...{ key: 'key_id', team: 'team_id', code: 'code' },
  ...{ hour: 'hour_ms', day: 'hour_ms - hour_ms % 86400000' },
}

export function createRefusalReader({ rows, lists }: Engine): RefusalReader {
  const next = 'SELECT MIN(hour_ms) AS ms FROM refusals_hourly WHERE hour_ms >= ?1 AND hour_ms < ?2'
  const find = async (fromMs: number, untilMs: number) =>
    (await rows<{ ms: number | null }>(next, [fromMs, untilMs]))[0]?.ms ?? null
  return {
    async *pages({ span: { fromMs, untilMs }, by, where }) {
      const parameters = createParameters(2)
      const conditions = toConditions(where, parameters)
      const groups = by.map((dimension) => COLUMNS[dimension])
      const sql = `
        SELECT ${toNamed(['SUM(refused)', 'MAX(last_ms)', ...groups])} FROM refusals_hourly
        WHERE ${['hour_ms >= ?1 AND hour_ms < ?2', ...conditions].join(' AND ')} GROUP BY ${by.map((_, i) => `c${i + 2}`)}`
      for (let at = await find(fromMs, untilMs); at !== null; ) {
        const end = Math.min(dayOf(at) + DAY_MS, untilMs)
        const found = await lists(sql, [at, end, ...parameters.values])
        yield found.map(([refused, lastMs, ...of]) => ({
          ...{ refused: Number(refused), lastMs: Number(lastMs), of: of as (string | number)[] },
        }))
        at = await find(end, untilMs)
      }
    },
  }
}

function toConditions({ ownKeys, ...lists }: RefusalFilter, { addAll }: Parameters): string[] {
  const among = (column: string, wanted: readonly string[] = []) =>
    wanted.length === 0 ? [] : [`${column} IN ${addAll(wanted)}`]
  return [
    ...(ownKeys?.length === 0 ? ['1 = 0'] : among('key_id', ownKeys)),
    ...REFUSAL_FILTERS.flatMap((name) => among(COLUMNS[name], lists[name])),
  ]
}
