/** Report readers over the ledger of all nodes. */
import type { Spender } from '../../domain/snapshot.ts'
import type { ReportReaders } from '../report-store.ts'
import { createCallReader } from '../reports/call-reader.ts'
import { createRefusalReader } from '../reports/refusal-reader.ts'
import { createFailureReader, createRequestReader } from '../reports/request-reader.ts'
import { createSpendReader } from '../reports/spend-reader.ts'
import { createUsageReader } from '../reports/usage-reader.ts'
import type { Queries } from './client.ts'
import { createEngine } from './engine.ts'

/** @param local readers of the node: prices are part of the configuration, and large groups are ranked in a file */
export function createReaders(postgres: Queries, local: Pick<ReportReaders, 'usage' | 'requests'>): ReportReaders {
  const engine = createEngine(postgres)
  return {
    spend: createSpendReader(engine, toLastRefusals),
    requests: createRequestReader(engine, local.requests.price),
    usage: createUsageReader(engine, local.usage.rank),
    calls: createCallReader(engine),
    failures: createFailureReader(engine),
    refusals: createRefusalReader(engine),
  }
}

/** Steps from key to key, or team to team, by the index, so the time doesn't grow with the table. */
function toLastRefusals(kind: Spender['kind'], isOne: boolean): string {
  const owner = `${kind}_id`
  const least = (than: string) =>
    `(SELECT ${owner} FROM refusals_hourly WHERE ${owner} > ${than} ORDER BY ${owner} LIMIT 1)`
  const all = `
    WITH RECURSIVE owners AS (
      SELECT ${least("''")} AS id
      UNION ALL
      SELECT ${least('owners.id')} FROM owners WHERE id IS NOT NULL
    )`
  return `${isOne ? '' : all}
    SELECT id, last.last_ms AS "atMs", last.code AS code, (
      SELECT COALESCE(SUM(refused), 0) FROM refusals_hourly
      WHERE ${owner} = id AND ${owner} <> '' AND last_ms >= ?1 AND hour_ms >= ?1
    ) AS refused
    FROM ${isOne ? '(SELECT ?2::text AS id) AS owner' : 'owners'} CROSS JOIN LATERAL (
      SELECT last_ms, code FROM refusals_hourly WHERE ${owner} = id AND ${owner} <> '' ORDER BY last_ms DESC LIMIT 1
    ) AS last`
}
