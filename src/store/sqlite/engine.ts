/** SQLite as an engine for report readers. Each statement blocks the thread for tens of milliseconds. */
import { Database } from 'bun:sqlite'
import { sumHistograms } from '../histogram.ts'
import { type Ranking, toGroupId, type UsageCell } from '../report-store.ts'
import type { Dialect, Engine, Given } from '../reports/engine.ts'
import { createKeptFrom } from './prune.ts'

export const DIALECT: Dialect = {
  toId: (column) => column,
  toBound: (text) => text,
  ofRequests: '',
  endsWith: (column, parameter, length) => `substr(${column}, -${length}) = ${parameter}`,
  matches: (column, parameter) => `${column} GLOB ${parameter}`,
  toPattern: (pattern) => pattern.replace(/[?[]/g, '[$&]'),
  toText: (column) => column,
  addUp: (column) => `group_concat(${column})`,
  readText: sumHistograms,
  countDurations: null,
}

export const createEngine = (sqlite: Database): Engine => ({
  dialect: DIALECT,
  rows: async <Row>(sql: string, values: readonly Given[]) => sqlite.query<Row, Given[]>(sql).all(...values),
  lists: async (sql, values) => sqlite.query<object, Given[]>(sql).values(...values),
  keptFromMs: createKeptFrom(sqlite),
})

export function createRanking(): Ranking {
  const sqlite = new Database('')
  // Larger sums rank correctly, though not exact.
  sqlite.run('CREATE TABLE groups (id TEXT PRIMARY KEY, cost REAL NOT NULL, requests INTEGER NOT NULL) WITHOUT ROWID')
  const insert = sqlite.query(
    `INSERT INTO groups VALUES (?, ?, ?)
     ON CONFLICT DO UPDATE SET cost = cost + excluded.cost, requests = requests + excluded.requests`,
  )
  return {
    add: sqlite.transaction((cells: readonly UsageCell[]) => {
      for (const { of, counts, costNanoUsd } of cells) insert.run(toGroupId(of), Number(costNanoUsd), counts[0] ?? 0)
    }),
    count: () => sqlite.query<{ n: number }, []>('SELECT COUNT(*) AS n FROM groups').get()?.n ?? 0,
    top: (limit) =>
      sqlite
        .query<{ id: string }, [number]>('SELECT id FROM groups ORDER BY cost DESC, requests DESC, id LIMIT ?')
        .all(limit)
        .map(({ id }) => id),
    [Symbol.dispose]: () => sqlite.close(),
  }
}
