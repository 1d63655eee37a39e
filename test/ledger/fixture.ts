/** A migrated database in a separate folder, and ledger rows for it. For the tests of `ledger/` and `store/`. */

import type { Database } from 'bun:sqlite'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { USUAL_TERMS } from '../../src/domain/call-counts.ts'
import { mintId } from '../../src/domain/id.ts'
import { auditLedger } from '../../src/ledger/audit.ts'
import type { Log } from '../../src/log.ts'
import {
  type ClosedRow,
  type Growth,
  type LedgerRecord,
  type OpenCall,
  type OpenRow,
  type SettledCall,
  type SettledRow,
  withFirstCall,
} from '../../src/store/ledger-rows.ts'
import type { Span } from '../../src/store/ledger-store.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { createLeases, createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import { createLedgerAudit } from '../../src/store/sqlite/ledger-audit.ts'
import { openDatabase } from '../../src/store/sqlite/open.ts'
import { putMigrated } from '../support/migrated.ts'

export const HOUR = Date.UTC(2026, 10, 21, 12)

export interface Folder {
  path: string
  /** Folder of the segments. */
  journal: string
  database: Database
  /** A second connection, like another process's. */
  other(): Database
  close(): void
}

/** For suites that run on other stores: called with each new database, and again just before it is closed. */
export const hooks: { opened?(path: string, database: Database): () => void } = {}

export function createFolder(): Folder {
  const path = mkdtempSync(join(tmpdir(), 'tollgate-usage-'))
  const journal = join(path, 'journal')
  mkdirSync(journal)
  const open: Database[] = []
  const connect = () => {
    const database = openDatabase(databasePath(path), { busyMs: 0 })
    open.push(database)
    return database
  }
  putMigrated(path)
  const database = connect()
  const closing = hooks.opened?.(path, database)
  return {
    path,
    journal,
    database,
    other: connect,
    close() {
      closing?.()
      for (const connection of open) connection.close()
      rmSync(path, { recursive: true })
    },
  }
}

/** Abandons the open requests of all runs except this one, as its start does. Returns their number. */
export function abandonOthers(database: Database, instance: string): number {
  createLeases(database).begin(instance, { fromMs: HOUR, untilMs: HOUR + 1 }, [])
  return createLedgerWriter(database).abandonGone(HOUR)
}

export function toOpen(fields: Partial<OpenRow> = {}): OpenRow {
  const createdMs = fields.createdMs ?? HOUR + 1_000
  return {
    id: mintId(createdMs),
    instance: 'here',
    keyId: 'key-a',
    teamId: null,
    model: 'acme/large',
    endpoint: 'chat',
    lane: 'translated',
    upstream: 'paid',
    upstreamModel: 'large-v1',
    stream: 0,
    createdMs,
    reservedPromptTokens: 20,
    reservedCompletionTokens: 1_000,
    reservedNanoUsd: 9_000,
    priceId: 'price-1',
    user: null,
    ...fields,
  }
}

export function toSettled(row: OpenRow, fields: Partial<SettledRow> = {}): SettledRow {
  return {
    ...row,
    status: 'ok',
    httpStatus: 200,
    errorCode: null,
    durationMs: 120,
    firstTokenMs: 30,
    promptTokens: 11,
    cachedTokens: 3,
    cacheWriteTokens: 0,
    cacheWrite1hTokens: 0,
    completionTokens: 7,
    reasoningTokens: 2,
    audioPromptTokens: 0,
    audioCompletionTokens: 0,
    imageTokens: 0,
    imageCompletionTokens: 0,
    toolPromptTokens: 0,
    webSearches: 0,
    computeMs: 0,
    ...USUAL_TERMS,
    estimated: 0,
    costNanoUsd: 500,
    upstreamRequestId: null,
    credential: null,
    attempts: 1,
    ...fields,
  }
}

/** An additional call of the request, on an upstream other than its first. */
export function toCall(row: OpenRow, number: number, fields: Partial<OpenCall> = {}): OpenCall {
  return {
    requestId: row.id,
    number,
    instance: row.instance,
    reason: 'fan_out',
    upstream: 'spare',
    upstreamModel: 'large-v2',
    lane: 'translated',
    createdMs: row.createdMs + 10 * number,
    reservedPromptTokens: 21,
    reservedCompletionTokens: 1_001,
    reservedNanoUsd: 9_100,
    priceId: 'price-2',
    ...fields,
  }
}

export function toSettledCall(call: OpenCall, fields: Partial<SettledCall> = {}): SettledCall {
  return {
    ...call,
    status: 'ok',
    httpStatus: 200,
    errorCode: null,
    durationMs: 70,
    firstTokenMs: 20,
    promptTokens: 5,
    cachedTokens: 1,
    cacheWriteTokens: 0,
    cacheWrite1hTokens: 0,
    completionTokens: 3,
    reasoningTokens: 1,
    audioPromptTokens: 0,
    audioCompletionTokens: 0,
    imageTokens: 0,
    imageCompletionTokens: 0,
    toolPromptTokens: 0,
    webSearches: 0,
    computeMs: 0,
    ...USUAL_TERMS,
    estimated: 0,
    costNanoUsd: 200,
    upstreamRequestId: null,
    credential: null,
    ...fields,
  }
}

export const opening = (row: OpenRow): LedgerRecord => ({ kind: 'open', row })
/** A request, or a call, with a larger reservation. */
export const growing = (row: OpenRow, more: Partial<OpenRow>): Growth => ({
  ...{ kind: 'open', heldNanoUsd: row.reservedNanoUsd },
  row: { ...row, ...more },
})
export const callGrowing = (call: OpenCall, more: Partial<OpenCall>): Growth => ({
  ...{ kind: 'call', heldNanoUsd: call.reservedNanoUsd },
  call: { ...call, ...more },
})
export const calling = (call: OpenCall, ended?: readonly SettledCall[]): LedgerRecord =>
  ended ? { kind: 'call', call, ended } : { kind: 'call', call }
/** @param calls of several; the first one may be omitted: it used the remaining amount. */
export const settling = (row: SettledRow, calls?: readonly SettledCall[]): LedgerRecord =>
  calls?.length ? { kind: 'settle', row, calls: withFirstCall(row, calls) } : { kind: 'settle', row }

/** The content of all ledger tables, in a fixed order. */
export const contentsOf = (database: Database) => ({
  requests: database.query('SELECT * FROM requests ORDER BY id').all(),
  calls: database.query('SELECT * FROM calls ORDER BY request_id, number').all(),
  rollup: database.query('SELECT * FROM usage_hourly ORDER BY hour_ms, key_id, team_id, model, upstream').all(),
  days: database.query('SELECT * FROM usage_daily ORDER BY dimension, day_ms, value').all(),
  uses: database.query('SELECT * FROM key_uses ORDER BY key_id').all(),
})

/** Findings of an audit. */
export const findingsOf = (database: Database, path: string) =>
  auditLedger(createLedgerAudit(database, path), path).findings

/** From then on, with an open end. */
export const since = (fromMs: number): Span => ({ fromMs, untilMs: Number.MAX_SAFE_INTEGER })

export const statusesOf = (database: Database) =>
  Object.fromEntries(
    database
      .query<{ id: string; status: ClosedRow['status'] | 'open' }, []>('SELECT id, status FROM requests')
      .all()
      .map(({ id, status }) => [id, status]),
  )

/** A log that keeps its messages. */
export function createTestLog(): Log & { messages: string[] } {
  const messages: string[] = []
  const note = (_: string, message: string) => void messages.push(message)
  return { messages, info: note, warn: note, error: note, flush: async () => {} }
}
