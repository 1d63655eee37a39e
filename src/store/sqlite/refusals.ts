/** Counts of requests rejected before they had a row. */
import type { Database } from 'bun:sqlite'
import type { Spender } from '../../domain/snapshot.ts'
import type { RefusalCount, RefusalWriter } from '../ledger-store.ts'
import { refusalOf } from '../refusal.ts'
import type { OutboxNotes } from './outbox.ts'

const ADD = `
  INSERT INTO refusals_hourly (hour_ms, key_id, team_id, code, refused, last_ms) VALUES (?, ?, ?, ?, ?, ?)
  ON CONFLICT DO UPDATE SET refused = refused + excluded.refused, last_ms = MAX(last_ms, excluded.last_ms)`

/** @param outbox set on a cluster node. */
export function createRefusalWriter(sqlite: Database, outbox: OutboxNotes | null = null): RefusalWriter {
  const add = sqlite.query(ADD)
  const addAll = sqlite.transaction((counts: readonly RefusalCount[]) => {
    for (const count of counts) {
      const { hourMs, keyId, teamId, code, refused, lastMs } = count
      add.run(hourMs, keyId, teamId, code, refused, lastMs)
      outbox?.refusal(count)
    }
    outbox?.flush()
  })
  return {
    add(counts) {
      try {
        addAll.immediate(counts)
      } catch (error) {
        outbox?.clear()
        throw refusalOf(error) ?? error
      }
    },
  }
}

/**
 * Last refusal of each key or team, by its index, so the time doesn't grow with the table. The cross join fixes the order. In the other order, SQLite would
 * compare each row. Parameters: since, a whole hour; ID, for a single owner.
 */
const lastOf = (owner: 'key_id' | 'team_id', table: 'keys' | 'teams') => `
  SELECT id, last.last_ms AS "atMs", last.code AS code, (
    SELECT COALESCE(SUM(refused), 0) FROM refusals_hourly
    WHERE ${owner} = id AND ${owner} <> '' AND last_ms >= ?1 AND hour_ms >= ?1
  ) AS refused
  FROM ${table}
  CROSS JOIN refusals_hourly AS last ON last.${owner} = id AND last.${owner} <> '' AND last.last_ms = (
    SELECT MAX(last_ms) FROM refusals_hourly WHERE ${owner} = id AND ${owner} <> ''
  )`

/** For a test of query plans. */
export const LAST_REFUSALS = { key: lastOf('key_id', 'keys'), team: lastOf('team_id', 'teams') }

export const toLastRefusals = (kind: Spender['kind'], isOne: boolean) =>
  `${LAST_REFUSALS[kind]}${isOne ? ' WHERE id = ?2' : ''}`
