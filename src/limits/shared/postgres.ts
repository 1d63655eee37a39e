/** Limits of all nodes in PostgreSQL: `postgres/0003_limits.sql`. */
import { BatchRefusal, type LimitEngine, toScopeReplies } from './engine.ts'

/** Implemented in `store/postgres`. */
interface Database {
  query<Row>(text: string, values: readonly unknown[], options: { timeoutMs: number }): Promise<Row[]>
  close(): Promise<void>
}

interface Answer {
  now: number
  born: number
  nodes: number
  isNew: boolean
  warnings: [name: string, spent: number, limit: number][]
  replies: number[][]
}

export function openPostgresLimits(database: Database, timeoutMs = 500): LimitEngine {
  return {
    name: 'PostgreSQL',
    place: null,
    // In larger batches, each update of a row finds many of its dead versions.
    maxBatch: 32,
    timeoutMs,
    async call(batch) {
      const [row] = await database
        .query<{ answer: string }>('select tollgate.ask_limits($1::text::jsonb) as answer', [JSON.stringify(batch)], {
          timeoutMs,
        })
        .catch((error: unknown) => {
          throw isOfContent(error) ? new BatchRefusal(error.message) : error
        })
      const { now, born, nodes, isNew, warnings, replies }: Answer = JSON.parse(row?.answer ?? '{}')
      return {
        ...{ nowMs: now, bornMs: born, nodes, isNew },
        warnings: warnings.map(([name, spentNanoUsd, nanoUsd]) => ({ name, spentNanoUsd, nanoUsd })),
        replies: replies.map(toScopeReplies),
      }
    },
    // The client drops the connection itself.
    reset() {},
    close: () => database.close(),
  }
}

/** True if the data is invalid, or the function fails on it. */
const isOfContent = (error: unknown): error is Error =>
  error instanceof Error && 'sqlstate' in error && /^(2[123]|P0)/.test(String(error.sqlstate))
