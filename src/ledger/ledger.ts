/**
 * The ledger: promise 2. Everything that waits when the event loop turns commits together (group commit); what the
 * database refuses for longer than a moment goes to the spool and comes back from there. `open` resolves once the row
 * is durable, `settle` once the outcome is: dispatch waits for the one, the tail of an answer for the other.
 */
import type { Database } from 'bun:sqlite'
import { GatewayError } from '../domain/error.ts'
import type { Log } from '../log.ts'
import { createApplier, isBusy, isFull, isRefusal } from './apply.ts'
import {
  type LedgerRecord,
  type OpenCall,
  type OpenRow,
  type SettledCall,
  type SettledRow,
  toWithheld,
} from './rows.ts'
import type { Spool } from './spool.ts'

/** A group waits this often, this long, for another writer before it goes to the spool: 50 ms in all. */
const PATIENT_TRIES = 25
const RETRY_MS = 2
/** While the database refuses it is tried this often. */
const PROBE_MS = 50
const REPLAY_SLICE = 500
/** Outcomes that found no place at all are kept in memory for the moment when there is one again. */
const MAX_STRANDED = 20_000

export interface Ledger {
  /** Resolves once the row survives SIGKILL. Throws `ledger_unavailable`: then nothing may be dispatched. */
  open(row: OpenRow): Promise<void>
  /**
   * The same for a further call of a request that is open: until it resolves, that call may not be made. One that comes
   * after the outcome of its request is not recorded, so whoever waits for this looks again whether to go on.
   */
  openCall(call: OpenCall): Promise<void>
  /**
   * Resolves once the outcome survives SIGKILL. Throws `ledger_unavailable`: then the tail is withheld.
   *
   * @param calls every further call that `openCall` took; what the row says to have cost contains them.
   */
  settle(row: SettledRow, calls?: readonly SettledCall[]): Promise<void>
  /** `ok`; `spooling` while the database refuses; `unavailable` when the spool takes no new requests either. */
  state(): LedgerState
  /** Resolves once everything handed in has its place and, if the database takes it, the spool is replayed. */
  close(): Promise<void>
}

export type LedgerState = 'ok' | 'spooling' | 'unavailable'

export interface LedgerDeps {
  writer: Database
  spool: Spool
  log: Log
  /** Called after each commit, so that somebody can think of a checkpoint. */
  onCommit(): void
  /** Resolves true once everything committed before the call has reached the database file itself. */
  checkpoint(): Promise<boolean>
}

interface Entry {
  record: LedgerRecord
  resolve(): void
  reject(error: GatewayError): void
}

export function createLedger({ writer, spool, log, onCommit, checkpoint }: LedgerDeps): Ledger {
  const applier = createApplier(writer, (record, error) => {
    log.error('ledger_row_rejected', 'a ledger row does not fit the database; it is kept in the spool folder', {
      error: String(error),
    })
    spool.setAside(record)
  })
  let pending: Entry[] = []
  let scheduled = false
  let tries = 0
  /** The database refuses: groups go straight to the spool, and a timer tries the database. */
  let refusing = false
  let recovering = false
  /** Groups on their way into the spool. */
  let spooling = 0
  let stranded: LedgerRecord[] = []
  let makingRoom = false
  let releasing: Promise<void> | null = null
  const probe = writer.query("UPDATE settings SET value = value WHERE key = 'instance'")

  const enqueue = (record: LedgerRecord): Promise<void> =>
    new Promise((resolve, reject) => {
      pending.push({ record, resolve, reject })
      if (scheduled) return
      scheduled = true
      setImmediate(flush)
    })

  const flush = () => {
    scheduled = false
    const group = pending
    pending = []
    if (refusing) return void toSpool(group)
    try {
      applier.commit(group.map((entry) => entry.record))
    } catch (error) {
      return onRefusal(group, error)
    }
    tries = 0
    onCommit()
    for (const entry of group) entry.resolve()
  }

  const onRefusal = (group: Entry[], error: unknown) => {
    if (isBusy(error) && ++tries < PATIENT_TRIES) {
      pending = group.concat(pending)
      scheduled = true
      setTimeout(flush, RETRY_MS)
      return
    }
    tries = 0
    refusing = true
    log.warn('ledger_behind', 'the database refuses the ledger; rows go to the spool', { error: String(error) })
    makeRoom(error)
    void toSpool(group)
    scheduleRecovery(PROBE_MS)
  }

  const toSpool = async (group: Entry[]) => {
    spooling++
    // The disk may have had no room for a segment so far, and have it now.
    if (!spool.hasRoom('open')) await spool.prepare().catch(() => {})
    const placed = group.filter(({ record }) => spool.hasRoom(record.kind, furtherOf(record)))
    if (placed.length < group.length) {
      const known = new Set(placed)
      for (const entry of group) if (!known.has(entry)) turnAway(entry)
    }
    try {
      await spool.append(placed.map((entry) => entry.record))
      for (const entry of placed) entry.resolve()
    } catch (error) {
      log.error('journal_failed', 'the spool refuses the ledger', { error: String(error) })
      for (const entry of placed) turnAway(entry)
    }
    spooling--
    scheduleRecovery(PROBE_MS)
  }

  const turnAway = (entry: Entry) => {
    if (entry.record.kind === 'settle' && stranded.length < MAX_STRANDED) {
      stranded.push({ ...entry.record, row: toWithheld(entry.record.row) })
    }
    entry.reject(
      new GatewayError(
        'ledger_unavailable',
        'Tollgate cannot record usage at the moment: its database and its spool are both unwritable. Whoever runs it should look at its disk; try again then.',
      ),
    )
  }

  const scheduleRecovery = (ms: number) => {
    if (recovering) return
    recovering = true
    setTimeout(recover, ms)
  }

  /** Tries the database with what the spool holds. Records are order-free, so new groups need not wait for the rest. */
  const recover = () => {
    recovering = false
    try {
      replaySlice()
    } catch (error) {
      if (!isRefusal(error)) log.error('journal_failed', 'replaying the spool failed', { error: String(error) })
      makeRoom(error)
      return scheduleRecovery(PROBE_MS)
    }
    if (refusing) log.info('ledger_caught_up', 'the database takes the ledger again')
    refusing = false
    if (spool.waiting(1).length > 0) return scheduleRecovery(0)
    if (spooling === 0) void release()
  }

  const replaySlice = () => {
    const records = stranded.concat(spool.waiting(REPLAY_SLICE))
    // A commit of nothing would succeed on a full disk.
    if (refusing && records.length === 0) probe.run()
    applier.commit(records)
    spool.taken(records.length - stranded.length)
    stranded = []
    onCommit()
  }

  /** On a full disk, a WAL that a checkpoint has emptied begins again in the room that it has. */
  const makeRoom = (error: unknown) => {
    if (!isFull(error) || makingRoom) return
    makingRoom = true
    const rest = () => void setTimeout(() => (makingRoom = false), 20 * PROBE_MS).unref()
    checkpoint().then(rest, rest)
  }

  /** What the spool held is in the database; once it has reached the file itself, the segments can go. */
  const release = (): Promise<void> => {
    releasing ??= releaseAll().finally(() => {
      releasing = null
    })
    return releasing
  }

  const releaseAll = async () => {
    if (spool.heldBytes() === 0 || spool.waiting(1).length > 0) return
    const mark = spool.appended()
    try {
      if (await checkpoint()) await spool.release(mark)
    } catch (error) {
      log.warn('journal_kept', 'the spool keeps its replayed segments for now', { error: String(error) })
    }
    if (spool.heldBytes() > 0) setTimeout(release, 20 * PROBE_MS).unref()
  }

  return {
    open: (row) => enqueue({ kind: 'open', row }),
    openCall: (call) => enqueue({ kind: 'call', call }),
    settle: (row, calls) => enqueue(calls?.length ? { kind: 'settle', row, calls } : { kind: 'settle', row }),
    state() {
      if (!refusing) return 'ok'
      return spool.hasRoom('open') ? 'spooling' : 'unavailable'
    },
    async close() {
      while (pending.length > 0 || spooling > 0) await Bun.sleep(RETRY_MS)
      try {
        while (stranded.length > 0 || spool.waiting(1).length > 0) replaySlice()
      } catch (error) {
        log.warn('ledger_behind', 'the database refuses to the end; the next start replays the spool', {
          error: String(error),
        })
      }
      // One under way may not cover the last records.
      await releasing
      await release()
    },
  }
}

const furtherOf = (record: LedgerRecord) => (record.kind === 'settle' ? (record.calls?.length ?? 0) : 0)
