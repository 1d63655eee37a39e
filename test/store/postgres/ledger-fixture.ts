/** A node's ledger in SQLite, what PostgreSQL has, and records that change much. */
import type { Database } from 'bun:sqlite'
import { DAY_MS } from '../../../src/domain/time.ts'
import type { LedgerRecord, OpenCall, OpenRow } from '../../../src/store/ledger-rows.ts'
import type { Postgres } from '../../../src/store/postgres/client.ts'
import { createSharedLedger } from '../../../src/store/postgres/ledger.ts'
import { createLeases, createLedgerWriter } from '../../../src/store/sqlite/ledger-apply.ts'
import { createOutbox, createOutboxNotes } from '../../../src/store/sqlite/outbox.ts'
import { createRefusalWriter } from '../../../src/store/sqlite/refusals.ts'
import {
  callGrowing,
  calling,
  contentsOf,
  createFolder,
  type Folder,
  growing,
  HOUR,
  opening,
  settling,
  toCall,
  toOpen,
  toSettled,
  toSettledCall,
} from '../../ledger/fixture.ts'

export type Row = Record<string, unknown>
/** A node's file, and its cursor. */
export function createNode(
  postgres: Postgres,
  name: string,
  folder: Pick<Folder, 'database' | 'close'> = createFolder(),
) {
  const { database } = folder
  const notes = createOutboxNotes(database)
  const shared = createSharedLedger(postgres, name)
  return {
    ...{ name, folder, database, shared },
    writer: createLedgerWriter(database, notes),
    refusals: createRefusalWriter(database, notes),
    outbox: createOutbox(database),
    abandon(instance: string) {
      createLeases(database).begin(instance, { fromMs: HOUR, untilMs: HOUR + 1 }, [])
      this.writer.abandonGone(HOUR)
    },
  }
}

const toHistogram = (value: unknown): unknown =>
  Array.isArray(value)
    ? Object.fromEntries(value.flatMap((count, bucket) => (count === 0 ? [] : [[String(bucket), count]])))
    : JSON.parse(String(value))

const ofRow = (row: Row): Row =>
  Object.fromEntries(
    Object.entries(row).flatMap(([name, value]) => {
      if (name === 'node') return []
      if (name.endsWith('_histogram')) return [[name, toHistogram(value)]]
      if (name === 'user') return [[name, value === null ? null : String(value).replace('\0', '\u{fffd}')]]
      return [[name, /^(id|request_id)$/.test(name) ? String(value).replaceAll('-', '') : value]]
    }),
  )

/** What PostgreSQL has, as a node's file would. */
export const contentsThere = async (postgres: Postgres) => ({
  requests: await all(postgres, 'requests order by id'),
  calls: await all(postgres, 'calls order by request_id, number'),
  rollup: await all(postgres, 'usage_hourly order by hour_ms, key_id, team_id, model, upstream'),
  days: await all(postgres, 'usage_daily order by dimension, day_ms, value'),
  uses: await all(postgres, 'key_uses order by key_id'),
})
const all = async (postgres: Postgres, from: string) =>
  (await postgres.query<Row>(`select * from tollgate.${from}`)).map(ofRow)

export const contentsHere = (database: Database) =>
  Object.fromEntries(
    Object.entries(contentsOf(database)).map(([name, rows]) => [name, (rows as Row[]).map(ofRow)] as const),
  )

/** Requests of two days, three keys, and two teams: settled, elsewhere than opened, with several calls, or never. */
export function makeRecords(pick: (below: number) => number, count: number): LedgerRecord[] {
  const statuses = ['ok', 'failed', 'cut'] as const
  const targets = ['paid', 'spare', 'third']
  return Array.from({ length: count }).flatMap(() => {
    const row: OpenRow = toOpen({
      instance: pick(3) === 0 ? 'gone' : 'here',
      keyId: `key-${pick(3)}`,
      teamId: [null, 'team-a', 'team-b'][pick(3)] ?? null,
      model: ['acme/large', 'acme/Small', 'acme/småll'][pick(3)] ?? '',
      user: pick(9) === 0 ? 'a\0b\ud800' : null,
      createdMs: HOUR + pick(2) * DAY_MS + pick(3) * 3_600_000 + pick(1_000),
      reservedNanoUsd: 100 + pick(100),
    })
    const records: LedgerRecord[] = [opening(row)]
    if (pick(4) === 0) records.push(growing(row, { reservedCompletionTokens: 2_000 + pick(5), reservedNanoUsd: 900 }))
    const calls: OpenCall[] = Array.from({ length: Math.max(0, pick(5) - 2) }, (_, i) => toCall(row, i + 2))
    for (const call of calls) {
      const first = toSettledCall(
        { ...call, number: 1, reason: 'first' },
        { status: 'failed', errorCode: 'upstream_timeout' },
      )
      records.push(calling(call, pick(2) === 0 ? [first] : undefined))
      if (pick(3) === 0) records.push(callGrowing(call, { reservedCompletionTokens: 3_000 }))
    }
    if (pick(4) === 0) return records
    const outcome = {
      status: statuses[pick(3)] ?? 'ok',
      upstream: targets[pick(3)] ?? '',
      estimated: pick(2),
      unpriced: pick(2),
      durationMs: pick(6) === 0 ? null : 2 ** pick(20) + pick(3) - 1,
      firstTokenMs: pick(2) === 0 ? null : pick(5_000),
      costNanoUsd: 1_000 + pick(1_000),
      promptTokens: pick(50),
      ...(pick(2) === 0 ? { audioMs: pick(90), images: 1, countedBy: 'file' as const } : {}),
      attempts: calls.length + 1,
    }
    const ended = calls.map((call) => toSettledCall(call, { costNanoUsd: pick(400), pages: pick(3) }))
    records.push(settling(toSettled(row, outcome), ended))
    return records
  })
}

export const shuffle = <T>(list: readonly T[], pick: (below: number) => number): T[] =>
  list
    .map((each) => ({ each, at: pick(1 << 30) }))
    .sort((a, b) => a.at - b.at)
    .map(({ each }) => each)
