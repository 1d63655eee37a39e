/** Ranks groups in a temporary database of its own, which goes to disk where it is large. Nothing of it outlives the process. */
import { Database } from 'bun:sqlite'
import { type Ranking, toGroupId, type UsageCell } from '../usage-store.ts'

export function createRanking(): Ranking {
  const sqlite = new Database('')
  // A sum beyond this is no longer exact, and still ranks right.
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
