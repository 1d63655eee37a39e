/**
 * The only writer of the ledger. Idempotent and independent of order, so that a journal can be replayed. A request's calls are settled with it in one
 * transaction; later records of them change nothing.
 */
import type { Changes, Database, SQLQueryBindings, Statement } from 'bun:sqlite'
import {
  type ClosedCall,
  type ClosedRow,
  type Growth,
  type LedgerRecord,
  type OpenRow,
  type Reserve,
  type StoredCall,
  toAbandoned,
  toAbandonedCall,
} from '../ledger-rows.ts'
import type { Leases, LedgerWriter, Rejected } from '../ledger-store.ts'
import { refusalOf, StoreRefusal } from '../refusal.ts'
import { createKeyUses, createRollup } from './ledger-rollup.ts'
import {
  CLOSED,
  CLOSED_CALL,
  column,
  ENDED_CALL,
  insertion,
  OPEN,
  OPEN_CALL,
  RESERVED,
  SETTLED,
  selection,
  values,
} from './ledger-schema.ts'
import type { OutboxNotes } from './outbox.ts'

/** Binds a list as one argument, which `bun:sqlite` supports despite its types: spreading 43 values costs a quarter of the write. */
const run = (statement: Statement, list: readonly (string | number | null)[]): Changes =>
  statement.run(list as unknown as SQLQueryBindings)

/** An abandoned request still accepts its outcome and late calls. */
type Found = ClosedRow | (OpenRow & { status: 'open' })

/** Expired leases. Parameter: the time. */
const IS_GONE = 'instance NOT IN (SELECT id FROM instances WHERE lease_ends_ms > ?)'

/** @param outbox set on a cluster node. */
export function createLedgerWriter(sqlite: Database, outbox: OutboxNotes | null = null) {
  const rollup = createRollup(sqlite)
  const uses = createKeyUses(sqlite)
  const begin = sqlite.query('BEGIN IMMEDIATE')
  const end = sqlite.query('COMMIT')
  const insertOpen = sqlite.query(insertion('requests', OPEN, 'open'))
  const insertClosed = sqlite.query(insertion('requests', CLOSED))
  const assign = (fields: readonly string[]) => fields.map((field) => `${column(field)} = ?`).join(', ')
  const update = (from: string) =>
    sqlite.query(`UPDATE requests SET ${assign(SETTLED)} WHERE id = ? AND status = '${from}'`)
  const grow = (table: 'requests' | 'calls', where: string) =>
    sqlite.query(`UPDATE ${table} SET ${assign(RESERVED)} WHERE ${where} AND reserved_completion_tokens < ?`)
  const growOpen = grow('requests', `id = ? AND status = 'open'`)
  const growCall = grow('calls', `request_id = ? AND number = ?`)
  const closeOpen = update('open')
  const closeAbandoned = update('abandoned')
  const find = sqlite.query<Found, [string]>(`SELECT ${selection(CLOSED)} FROM requests WHERE id = ?`)
  const findGone = sqlite.query<OpenRow, [number]>(
    `SELECT ${selection(OPEN)} FROM requests WHERE status = 'open' AND ${IS_GONE}`,
  )
  const findTeam = sqlite.query<{ teamId: string | null }, [string]>('SELECT team_id AS teamId FROM keys WHERE id = ?')

  const insertOpenCall = sqlite.query(insertion('calls', OPEN_CALL, 'open'))
  const insertClosedCall = sqlite.query(insertion('calls', CLOSED_CALL))
  const endCall = sqlite.query(
    `${insertion(
      'calls',
      CLOSED_CALL,
      null,
      `(request_id, number) DO UPDATE SET
     ${ENDED_CALL.map((field) => `${column(field)} = excluded.${column(field)}`).join(', ')} WHERE status IN ('open', 'abandoned')`,
    )}`,
  )
  const removeCalls = sqlite.query('DELETE FROM calls WHERE request_id = ?')
  const removeOpenCalls = sqlite.query(
    `DELETE FROM calls WHERE request_id = ?1 AND (status = 'open' OR 1 = (SELECT attempts FROM requests WHERE id = ?1))`,
  )
  const findCalls = sqlite.query<StoredCall, [string]>(
    `SELECT ${selection(CLOSED_CALL)} FROM calls WHERE request_id = ? ORDER BY number`,
  )
  const findGoneCalls = sqlite.query<{ requestId: string }, [number]>(
    `SELECT DISTINCT request_id AS requestId FROM calls WHERE status = 'open' AND ${IS_GONE}`,
  )
  const forgetGone = sqlite.query('DELETE FROM instances WHERE lease_ends_ms <= ?')

  const replaceCalls = (requestId: string, rows: readonly ClosedCall[]) => {
    removeCalls.run(requestId)
    for (const row of rows) run(insertClosedCall, values(row, CLOSED_CALL))
  }

  /** Old journals lack these fields. */
  const toCurrent = <T extends OpenRow>(row: T): T =>
    row.teamId !== undefined && row.endpoint !== undefined
      ? row
      : { ...row, endpoint: row.endpoint ?? 'chat', teamId: row.teamId ?? findTeam.get(row.keyId)?.teamId ?? null }

  /** @param isNew no row is expected, so one INSERT usually suffices. */
  const close = (row: ClosedRow, calls: readonly ClosedCall[] = [], isNew = false) => {
    if (isNew && run(insertClosed, values(row, CLOSED)).changes > 0) replaceCalls(row.id, calls)
    else if (run(closeOpen, [...values(row, SETTLED), row.id]).changes > 0) {
      if (calls.length > 0) replaceCalls(row.id, calls)
    } else {
      const before = find.get(row.id)
      if (before && before.status !== 'abandoned') return
      if (before) {
        run(closeAbandoned, [...values(row, SETTLED), row.id])
        rollup.add(before, -1)
      } else run(insertClosed, values(row, CLOSED))
      replaceCalls(row.id, calls)
    }
    rollup.add(row, 1)
    uses.note(row)
  }

  const abandon = (row: OpenRow) => {
    const given = toAbandoned(row, findCalls.all(row.id))
    close(given.row, given.calls)
  }

  const openCall = ({ call, ...record }: Extract<LedgerRecord, { kind: 'call' }>) => {
    const request = find.get(call.requestId)
    if (request && request.status !== 'open' && request.status !== 'abandoned') return
    let changes = run(insertOpenCall, values(call, OPEN_CALL)).changes
    if (changes === 0 && 'heldNanoUsd' in record)
      changes = run(growCall, growing(call, [call.requestId, call.number])).changes
    if ('ended' in record)
      for (const ended of record.ended ?? []) changes += run(endCall, values(ended, CLOSED_CALL)).changes
    if (changes > 0 && request?.status === 'abandoned') abandon(request)
  }

  const growing = (row: Reserve, key: readonly (string | number)[]) => [
    ...values(row, RESERVED),
    ...key,
    row.reservedCompletionTokens,
  ]

  const growRequest = ({ row }: Extract<Growth, { kind: 'open' }>) => {
    if (run(growOpen, growing(row, [row.id])).changes > 0) return
    const found = find.get(row.id)
    if (found?.status !== 'abandoned' || found.reservedCompletionTokens >= row.reservedCompletionTokens) return
    const { reservedPromptTokens, reservedCompletionTokens, reservedNanoUsd } = row
    abandon({ ...found, reservedPromptTokens, reservedCompletionTokens, reservedNanoUsd })
  }

  /** Closes calls whose request is closed or missing. */
  const closeStray = (requestId: string) => {
    const request = find.get(requestId)
    if (!request) return replaceCalls(requestId, findCalls.all(requestId).map(toAbandonedCall))
    // The settled request doesn't name these calls, so they never started.
    if (request.status !== 'open') removeOpenCalls.run(requestId)
  }

  const inTransaction = <T>(work: () => T): T => {
    try {
      begin.run()
      const result = work()
      rollup.flush()
      uses.flush()
      outbox?.flush()
      end.run()
      return result
    } catch (error) {
      rollup.clear()
      uses.clear()
      outbox?.clear()
      // A full disk has already rolled back.
      if (sqlite.inTransaction) sqlite.run('ROLLBACK')
      throw refusalOf(error) ?? error
    }
  }

  /** @param settled requests settled by the same records, which makes their other records redundant. */
  const apply = (record: LedgerRecord, settled: ReadonlyMap<string, boolean>) => {
    outbox?.request(record.kind === 'call' ? record.call.requestId : record.row.id)
    if (record.kind === 'call') {
      if (!settled.has(record.call.requestId)) openCall(record)
    } else if (record.kind === 'settle') {
      close(toCurrent(record.row), record.calls, settled.get(record.row.id))
    } else if (!settled.has(record.row.id)) {
      const isNew = run(insertOpen, values(toCurrent(record.row), OPEN)).changes > 0
      if (!isNew && 'heldNanoUsd' in record) growRequest(record)
      uses.note(record.row)
    }
  }

  return {
    apply(records: readonly LedgerRecord[]): Rejected[] {
      try {
        const settled = toSettled(records)
        inTransaction(() => {
          for (const record of records) apply(record, settled)
        })
        return []
      } catch (error) {
        if (error instanceof StoreRefusal) throw error
      }
      const rejected: Rejected[] = []
      for (const record of records) {
        try {
          inTransaction(() => apply(record, NOTHING_SETTLED))
        } catch (error) {
          if (error instanceof StoreRefusal) throw error
          rejected.push({ record, error })
        }
      }
      return rejected
    },
    abandonGone: (nowMs: number): number =>
      inTransaction(() => {
        const rows = findGone.all(nowMs)
        for (const row of rows) {
          outbox?.request(row.id)
          abandon(row)
        }
        for (const { requestId } of findGoneCalls.all(nowMs)) {
          outbox?.request(requestId)
          closeStray(requestId)
        }
        forgetGone.run(nowMs)
        return rows.length
      }),
  } satisfies LedgerWriter
}

export function createLeases(sqlite: Database): Leases {
  const endOthers = sqlite.query(
    'UPDATE instances SET lease_ends_ms = MIN(lease_ends_ms, ?1) WHERE id NOT IN (SELECT value FROM json_each(?2))',
  )
  const insert = sqlite.query<{ epoch: number }, [string, number, number]>(
    `INSERT INTO instances (id, epoch, started_ms, lease_ends_ms)
     VALUES (?1, (SELECT COALESCE(MAX(epoch), 0) + 1 FROM instances), ?2, ?3)
     ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, lease_ends_ms = excluded.lease_ends_ms RETURNING epoch`,
  )
  const insertBelow = sqlite.query(
    `INSERT INTO instances (id, epoch, started_ms, lease_ends_ms)
     VALUES (?1, (SELECT MIN(0, COALESCE(MIN(epoch), 0)) - 1 FROM instances), ?2, ?3)
     ON CONFLICT (id) DO UPDATE SET lease_ends_ms = excluded.lease_ends_ms`,
  )
  const renew = sqlite.query('UPDATE instances SET lease_ends_ms = ? WHERE id = ?')
  const refusing = <T>(work: () => T): T => {
    try {
      return work()
    } catch (error) {
      throw refusalOf(error) ?? error
    }
  }
  return {
    begin: (instance, { fromMs, untilMs }, living) =>
      refusing(
        sqlite.transaction(() => {
          if (living !== null) endOthers.run(fromMs, JSON.stringify(living))
          return insert.get(instance, fromMs, untilMs)?.epoch ?? 0
        }).immediate,
      ),
    join: (instance, { fromMs, untilMs }) => void refusing(() => insertBelow.run(instance, fromMs, untilMs)),
    renew: (instance, untilMs) => refusing(() => renew.run(untilMs, instance).changes > 0),
  }
}

const NOTHING_SETTLED: ReadonlyMap<string, boolean> = new Map()

/** Settled requests, and whether an earlier record opened them. */
function toSettled(records: readonly LedgerRecord[]): ReadonlyMap<string, boolean> {
  const opened = new Set<string>()
  const settled = new Map<string, boolean>()
  for (const record of records) {
    if (record.kind === 'open') opened.add(record.row.id)
    else if (record.kind === 'settle') settled.set(record.row.id, opened.has(record.row.id))
  }
  return settled
}
