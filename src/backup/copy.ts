/**
 * Works on the copy of a database that a backup or a restore makes: brings in what a journal still holds, gives up what is
 * under way, as a start would, and says whether it is whole and adds up. Nobody else has it open.
 */
import { Database } from 'bun:sqlite'
import { closeSync, fstatSync, openSync } from 'node:fs'
import { timeOfId } from '../domain/id.ts'
import { auditRows, type Finding, type OnHour } from '../ledger/audit.ts'
import { readRecords } from '../ledger/segment.ts'
import type { LedgerRecord } from '../store/ledger-rows.ts'
import type { LedgerAudit } from '../store/ledger-store.ts'
import { createLedgerStore } from '../store/sqlite/ledger-apply.ts'
import { createLedgerAudit } from '../store/sqlite/ledger-audit.ts'
import { countRequests } from '../store/sqlite/ledger-reader.ts'

/** Opens the copy. A kill loses it anyway, so that it needs no journal of its own; whoever closes it syncs it. */
export function openCopy(path: string): Database {
  const copy = new Database(path, { readwrite: true })
  // What a plain copy of files has brought in its log becomes a part of the one file.
  copy.run('PRAGMA journal_mode = DELETE')
  copy.run('PRAGMA journal_mode = MEMORY')
  copy.run('PRAGMA synchronous = OFF')
  return copy
}

const SLICE = 1_000

/** What `completeCopy` has done. */
export interface Completed {
  /** Records that a journal held and the database did not. */
  applied: number
  /** Requests of records that do not fit the tables: a server would set them aside. */
  rejected: string[]
  /** Requests that were under way: nobody can settle them in a copy. They cost what they had reserved. */
  givenUp: number
}

/**
 * @param segments files as the journal has them, however large; nobody writes them any more.
 * @param wasServed whether they were read beside a server. Its retention may have taken rows away meanwhile whose records had been
 *   read: of before what the copy keeps, a record without a row is one of those, and in its sums already.
 */
export async function completeCopy(copy: Database, segments: readonly string[], wasServed = false): Promise<Completed> {
  const store = createLedgerStore(copy, async () => true)
  const audit = auditOf(copy)
  const keptFromMs = wasServed ? audit.fromMs() : 0
  const isPruned = (record: LedgerRecord) => {
    const [id, ms] =
      record.kind === 'call'
        ? [record.call.requestId, timeOfId(record.call.requestId)]
        : [record.row.id, record.row.createdMs]
    return ms < keptFromMs && !audit.has(id)
  }
  let applied = 0
  const rejected: string[] = []
  for (const path of segments) {
    for (const slice of slicesOf(path)) {
      const records = slice.filter((record) => !isPruned(record))
      const missing = audit.missing(records)
      if (missing === 0) continue
      for (const { record } of store.apply(records)) if (record.kind !== 'call') rejected.push(record.row.id)
      applied += missing
    }
  }
  return { applied, rejected, givenUp: store.abandonOthers(NOBODY) }
}

function* slicesOf(path: string): Generator<LedgerRecord[]> {
  const file = openSync(path, 'r')
  try {
    const end = fstatSync(file).size
    for (let at = 0; at < end; ) {
      const { records, next } = readRecords(file, at, end, SLICE)
      yield records
      at = next
    }
  } finally {
    closeSync(file)
  }
}

/** No instance has this name. */
const NOBODY = ''

/** What SQLite finds wrong with the file; null where it is whole. */
export function findDamage(copy: Database): string | null {
  const said = copy.query<{ integrity_check: string }, []>('PRAGMA integrity_check(1)').get()?.integrity_check
  return said === 'ok' ? null : (said ?? 'the check says nothing')
}

/** What a ledger holds. */
export interface Held {
  requests: number
  /** When its newest request was made, ms; null where it has none. */
  newestMs: number | null
}

export function readHeld(sqlite: Database): Held {
  const newest = sqlite
    .query<{ ms: number }, []>('SELECT created_ms AS ms FROM requests ORDER BY id DESC LIMIT 1')
    .get()
  return { requests: countRequests(sqlite), newestMs: newest?.ms ?? null }
}

/** The same of a copy, and what is wrong with it: the checks of `tollgate audit`. */
export interface Examined extends Held {
  costNanoUsd: number
  findings: Finding[]
}

export interface ExpectedCopy {
  /** Requests that must be there, as a mark counts them; null where there was none. */
  marked?: number | null
  /** Some of them that no database took. */
  kept?: Iterable<string>
  onHour?: OnHour | undefined
}

export function examineCopy(copy: Database, { marked = null, kept = [], onHour }: ExpectedCopy = {}): Examined {
  const audit = auditOf(copy)
  const { findings, costNanoUsd } = auditRows(audit, onHour)
  for (const rows of audit.open()) findings.push({ kind: 'open', ...rows })
  const held = readHeld(copy)
  const outside = new Set(kept)
  for (const id of outside) if (audit.has(id)) outside.delete(id)
  const missing = (marked ?? 0) - outside.size - held.requests
  if (missing > 0) findings.push({ kind: 'missing', requests: missing })
  return { ...held, costNanoUsd, findings }
}

/** Of a copy: no server has its folder. */
const auditOf = (copy: Database): LedgerAudit => createLedgerAudit(copy, NOWHERE)
const NOWHERE = '/nonexistent'
