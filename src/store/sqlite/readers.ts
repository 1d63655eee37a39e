/** Report readers over SQLite. */
import type { Database } from 'bun:sqlite'
import { eq } from 'drizzle-orm'
import type { ReportReaders } from '../report-store.ts'
import { createCallReader } from '../reports/call-reader.ts'
import type { Engine } from '../reports/engine.ts'
import { createRefusalReader } from '../reports/refusal-reader.ts'
import { createFailureReader, createRequestReader } from '../reports/request-reader.ts'
import { createSpendReader } from '../reports/spend-reader.ts'
import { createUsageReader } from '../reports/usage-reader.ts'
import { createEngine, createRanking } from './engine.ts'
import { toLastRefusals } from './refusals.ts'
import { prices } from './schema.ts'
import { toTables } from './tables.ts'

/** Parts are created on access. */
export function createReaders(sqlite: Database): ReportReaders {
  let made: Engine | null = null
  const engine = () => (made ??= createEngine(sqlite))
  return {
    get spend() {
      return createSpendReader(engine(), toLastRefusals)
    },
    get requests() {
      return createRequestReader(
        engine(),
        async (id) => toTables(sqlite).select().from(prices).where(eq(prices.id, id)).get() ?? null,
      )
    },
    get usage() {
      return createUsageReader(engine(), createRanking)
    },
    get calls() {
      return createCallReader(engine())
    },
    get failures() {
      return createFailureReader(engine())
    },
    get refusals() {
      return createRefusalReader(engine())
    },
  }
}
