/** Counts of requests rejected before they had a row. */
import type { Database } from 'bun:sqlite'
import type { RefusalDimension } from '../../domain/report-filters.ts'
import type { Spender } from '../../domain/snapshot.ts'
import { DAY_MS, dayOf } from '../../domain/time.ts'
import type { LastRefusal, RefusalCount, RefusalWriter } from '../ledger-store.ts'
import { refusalOf } from '../refusal.ts'
import type { RefusalCell, RefusalFilter, RefusalReader } from '../report-store.ts'
import { placeholders } from './ledger-schema.ts'

const ADD = `
  INSERT INTO refusals_hourly (hour_ms, key_id, team_id, code, refused, last_ms) VALUES (?, ?, ?, ?, ?, ?)
  ON CONFLICT DO UPDATE SET refused = refused + excluded.refused, last_ms = MAX(last_ms, excluded.last_ms)`

export function createRefusalWriter(sqlite: Database): RefusalWriter {
  const add = sqlite.query(ADD)
  const addAll = sqlite.transaction((counts: readonly RefusalCount[]) => {
    for (const { hourMs, keyId, teamId, code, refused, lastMs } of counts)
      add.run(hourMs, keyId, teamId, code, refused, lastMs)
  })
  return {
    add(counts) {
      try {
        addAll.immediate(counts)
      } catch (error) {
        throw refusalOf(error) ?? error
      }
    },
  }
}

const COLUMNS: Record<RefusalDimension, string> = {
  ...{ key: 'key_id', team: 'team_id', code: 'code' },
  ...{ hour: 'hour_ms', day: 'hour_ms - hour_ms % 86400000' },
}

export function createRefusalReader(sqlite: Database): RefusalReader {
  const next = sqlite.query<{ ms: number | null }, [number, number]>(
    'SELECT MIN(hour_ms) AS ms FROM refusals_hourly WHERE hour_ms >= ? AND hour_ms < ?',
  )
  return {
    async *pages({ span: { fromMs, untilMs }, by, where }) {
      const { conditions, values } = toConditions(where)
      const groups = by.map((dimension) => COLUMNS[dimension])
      const sql = `
        SELECT SUM(refused), MAX(last_ms), ${groups.join(', ')} FROM refusals_hourly
        WHERE ${['hour_ms >= ? AND hour_ms < ?', ...conditions].join(' AND ')} GROUP BY ${groups.join(', ')}`
      const statement = sqlite.query<object, (string | number)[]>(sql)
      for (let at = next.get(fromMs, untilMs)?.ms ?? null; at !== null; ) {
        const end = Math.min(dayOf(at) + DAY_MS, untilMs)
        yield statement.values(at, end, ...values).map(
          ([refused, lastMs, ...of]): RefusalCell => ({
            ...{ refused: Number(refused), lastMs: Number(lastMs), of: of as (string | number)[] },
          }),
        )
        at = next.get(end, untilMs)?.ms ?? null
      }
    },
  }
}

function toConditions({ ownKeys, ...lists }: RefusalFilter): { conditions: string[]; values: string[] } {
  const { key = [], team = [], code = [] } = lists
  const wanted: readonly (readonly [string, readonly string[]])[] = [
    ...(ownKeys ? [['key_id', ownKeys] as const] : []),
    ...(
      [
        ['key_id', key],
        ['team_id', team],
        ['code', code],
      ] as const
    ).filter(([, values]) => values.length > 0),
  ]
  return {
    conditions: wanted.map(([column, values]) => `${column} IN (${placeholders(values)})`),
    values: wanted.flatMap(([, values]) => values),
  }
}

/**
 * Of each key or team, by its index, so that it takes no longer as the table grows. The order of a cross join is kept: from the other side, each row would be
 * compared. Parameters: since, a whole hour; ID, if one is wanted.
 */
const lastOf = (owner: 'key_id' | 'team_id', table: 'keys' | 'teams') => `
  SELECT id, last.last_ms AS atMs, last.code AS code, (
    SELECT COALESCE(SUM(refused), 0) FROM refusals_hourly
    WHERE ${owner} = id AND ${owner} <> '' AND last_ms >= ?1 AND hour_ms >= ?1
  ) AS refused
  FROM ${table}
  CROSS JOIN refusals_hourly AS last ON last.${owner} = id AND last.${owner} <> '' AND last.last_ms = (
    SELECT MAX(last_ms) FROM refusals_hourly WHERE ${owner} = id AND ${owner} <> ''
  )`

/** For a test of query plans. */
export const LAST_REFUSALS = { key: lastOf('key_id', 'keys'), team: lastOf('team_id', 'teams') }

export function readRefused(sqlite: Database, kind: Spender['kind'], sinceMs: number, id?: string) {
  const sql = `${LAST_REFUSALS[kind]}${id === undefined ? '' : ' WHERE id = ?2'}`
  const rows = sqlite
    .query<LastRefusal & { id: string }, (string | number)[]>(sql)
    .all(sinceMs, ...(id === undefined ? [] : [id]))
  return new Map(rows.map(({ id, ...last }) => [id, last]))
}
