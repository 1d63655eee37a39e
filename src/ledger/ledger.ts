/**
 * The ledger: a request is recorded durably before dispatch, and its outcome before the end of its response. Records of one event loop turn go to the journal
 * in one write; the store follows.
 */
import { GatewayError } from '../domain/error.ts'
import type { Spender } from '../domain/snapshot.ts'
import type { Log } from '../log.ts'
import {
  type Growth,
  type LedgerRecord,
  type OpenCall,
  type OpenRow,
  type SettledCall,
  type SettledRow,
  toRefused,
} from '../store/ledger-rows.ts'
import type { LedgerReader, LedgerStore, Span } from '../store/ledger-store.ts'
import { type Applier, createApplier, type FlushResult } from './applier.ts'
import type { Journal } from './journal.ts'
import { createSharing, SHARE_MS, type Share } from './sharing.ts'
import { isGrowth, toUnapplied } from './unapplied.ts'

/** After this, `/readyz` reports that the database is behind. */
export const BEHIND_MS = 10_000
/** How long reports next to the server wait for a flush. */
const FLUSH_MS = 2_000
/** How long a shutdown waits for a store that refuses. */
const CLOSE_MS = 1_000
/** How long a handover waits for the store. The other server applies the rest. */
const HAND_OVER_MS = 500
/** Outcomes that did not fit into the journal, kept in memory until there is space. */
const MAX_STRANDED = 20_000
const STRANDED_MS = 200
/** Pause between attempts while another process writes the database. */
const BUSY_MS = 5

export interface Ledger {
  /** Resolves once the row is durable. If it throws `ledger_unavailable`, don't dispatch. */
  open(row: OpenRow): Promise<void>
  /**
   * Records a further call of an open request, before the call is sent. Skipped after the request's outcome, so check again whether to continue.
   *
   * @param ended earlier calls whose end is not recorded yet.
   */
  openCall(call: OpenCall, ended?: readonly SettledCall[]): Promise<void>
  /** Records an open call's increased reservation. Not awaited: after a kill the previous reservation is charged. */
  grow(growth: Growth): void
  /**
   * Resolves once the outcome is durable; with `--durability shared`, in PostgreSQL. If it throws `ledger_unavailable`, withhold the end of the response.
   *
   * @param calls all calls, if there were several; the row's cost includes them.
   */
  settle(row: SettledRow, calls?: readonly SettledCall[]): Promise<void>
  state(): LedgerState
  /** Records that the database does not have yet, and the age of the oldest, ms. */
  backlog(): { records: number; ms: number }
  /** Applies the journal now, for up to 2 s. */
  flush(): Promise<FlushResult>
  /** Resolves once all records are written and, if possible, applied. Closes the journal. */
  close(): Promise<void>
}

export interface OwnLedger extends Ledger {
  /**
   * Nano-dollars spent within `span` by records that the store does not have yet.
   *
   * @param underWay open requests and their amounts according to the store; updated to the actual ones.
   */
  unapplied(spender: Spender, span: Span, underWay?: Map<string, number>): number
  /** Resolves once all records are in the journal. From then on, another server applies these and later records. */
  handOver(): Promise<void>
  /** Applies the journal here again. */
  takeBack(): void
}

/** `behind`: the oldest record has waited for 10 s; `unavailable`: no new requests are accepted. */
type LedgerState = 'ok' | 'behind' | 'unavailable'

export interface LedgerDeps extends Omit<LedgerParts, 'applier'> {
  store: LedgerStore
  onCommit(): void
}

export interface LedgerParts {
  journal: Journal
  applier: Applier
  reader: Pick<LedgerReader, 'counted'>
  /** Durable once written (`process`), once synced (`power`), or once shared. */
  durability: 'process' | 'power' | 'shared'
  /** Set on a cluster node; required for `shared`. */
  share?: Share | null
  /** Deleted files. If one is lost, new requests are rejected; without the journal, outcomes too. */
  files?: { readonly lost: 'database' | 'journal' | null }
  mark?: { add(requests: number): void }
  log: Log
  onTimed?: OnTimed
}

/** Called with the duration of writing a group to the journal, or a batch to the database. */
export type OnTimed = (what: 'commit' | 'apply', ms: number) => void

interface PendingRecord {
  record: LedgerRecord
  resolve(): void
  reject(error: unknown): void
}

export function createLedger({ store, onCommit, ...parts }: LedgerDeps): OwnLedger {
  const { journal, log, onTimed } = parts
  const onApplied = (ms: number) => onTimed?.('apply', ms)
  return createLedgerOver({ ...parts, applier: createApplier({ journal, store, log, onCommit, onApplied }) })
}

/** Creates a ledger with its own applier. */
export function createLedgerOver(parts: LedgerParts): OwnLedger {
  const { journal, applier, reader, durability, files = NOTHING_LOST, mark, log, onTimed = () => {} } = parts
  const { share = null } = parts
  const applyAndShare: Share = async (ids) => {
    for (const endMs = performance.now() + SHARE_MS; !(await applier.pass()); await Bun.sleep(BUSY_MS))
      if (performance.now() > endMs) return false
    return share !== null && (await share(ids))
  }
  const sharing = durability === 'shared' && share !== null ? createSharing(applyAndShare, log) : null
  let pending: PendingRecord[] = []
  let scheduled = false
  let syncing = false
  /** Records waiting for a new segment. */
  let held = 0
  const stranded: LedgerRecord[] = []

  const enqueue = (record: LedgerRecord): Promise<void> =>
    new Promise((resolve, reject) => {
      pending.push({ record, resolve, reject })
      schedule()
    })

  const schedule = () => {
    if (scheduled || syncing) return
    scheduled = true
    // Not sooner for a single request: a closed client connection is reported in this turn.
    setImmediate(flush)
  }

  const flush = () => {
    scheduled = false
    if (syncing || pending.length === 0) return
    const group = pending
    pending = []
    const startMs = performance.now()
    const rest = journal.append(group)
    if (durability !== 'power') onTimed('commit', performance.now() - startMs)
    applier.note()
    if (rest.length > 0) waitForRoom(rest)
    const placed = rest.length > 0 ? [...new Set(group).difference(new Set(rest))] : group
    count(placed)
    if (durability === 'power') return void sync(placed, startMs)
    for (const { resolve } of placed) resolve()
  }

  const count = (placed: readonly PendingRecord[]) => {
    let opened = 0
    for (const { record } of placed) if (record.kind === 'open' && !isGrowth(record)) opened++
    if (opened > 0) mark?.add(opened)
  }

  /** One sync at a time; later records form the next group. */
  const sync = async (group: PendingRecord[], startMs: number) => {
    syncing = true
    try {
      await journal.sync()
      onTimed('commit', performance.now() - startMs)
      for (const { resolve } of group) resolve()
    } catch (error) {
      log.error('journal_failed', 'cannot sync the journal', { error: String(error) })
      for (const { record, reject } of group) {
        // The row is on disk, and without an outcome its reservation would be charged.
        if (record.kind === 'open' && !isGrowth(record)) strand({ kind: 'settle', row: toRefused(record.row) })
        reject(unavailable())
      }
    }
    syncing = false
    if (pending.length > 0) schedule()
  }

  /** Waits if a segment is being created; otherwise rejects. */
  const waitForRoom = (rest: PendingRecord[]) => {
    const growing = journal.grow()
    if (!growing) return rest.forEach(turnAway)
    held += rest.length
    void growing.then(() => {
      held -= rest.length
      pending = rest.concat(pending)
      schedule()
    })
  }

  const turnAway = ({ record, reject }: PendingRecord) => {
    if (record.kind === 'settle') strand({ ...record, row: toWithheld(record.row) })
    reject(unavailable())
  }

  const strand = (record: LedgerRecord) => {
    if (stranded.length < MAX_STRANDED && stranded.push(record) === 1) setTimeout(landStranded, STRANDED_MS).unref()
  }

  const landStranded = () => {
    for (const record of stranded.splice(0)) enqueue(record).catch(() => {})
  }

  const placed = async () => {
    flush()
    while (pending.length > 0 || held > 0 || syncing) await Bun.sleep(1)
  }

  return {
    open(row) {
      const refusal = files.lost ? lost() : sharing?.refusal()
      return refusal ? Promise.reject(refusal) : enqueue({ kind: 'open', row })
    },
    openCall: (call, ended) =>
      files.lost
        ? Promise.reject(lost())
        : enqueue(ended?.length ? { kind: 'call', call, ended } : { kind: 'call', call }),
    grow: (growth) => void enqueue(growth).catch(() => {}),
    settle(row, calls) {
      if (files.lost === 'journal') return Promise.reject(lost())
      const recorded = enqueue(calls?.length ? { kind: 'settle', row, calls } : { kind: 'settle', row })
      return sharing ? recorded.then(() => sharing.settled(row.id)) : recorded
    },
    state() {
      if (files.lost || sharing?.isAway) return 'unavailable'
      if (journal.isFull()) {
        // Without requests, nothing else would check for free space.
        void journal.grow()
        return 'unavailable'
      }
      return applier.waitsMs() >= BEHIND_MS ? 'behind' : 'ok'
    },
    backlog: () => ({ records: applier.waiting(), ms: applier.waitsMs() }),
    flush() {
      flush()
      return applier.flush(FLUSH_MS)
    },
    unapplied(spender, span, underWay) {
      // Includes records of this turn.
      flush()
      return toUnapplied(journal.unapplied(), reader.counted, spender, span, underWay)
    },
    async handOver() {
      await placed()
      await applier.flush(HAND_OVER_MS)
      await applier.pause()
    },
    takeBack: () => applier.resume(),
    async close() {
      await placed()
      // Applying may free journal space for the remaining ones.
      await applier.flush(CLOSE_MS)
      landStranded()
      await placed()
      await applier.close()
    },
  }
}

const unavailable = () =>
  new GatewayError(
    'ledger_unavailable',
    "Usage can't be recorded right now: the journal is full, and the database accepts no rows. Ask an administrator to check the disk, and for a process that locks the database; then try again.",
  )

const lost = () =>
  new GatewayError(
    'ledger_unavailable',
    "Usage can't be recorded: the server's data was removed or replaced while it was running. Ask an administrator to check the server log.",
  )

const NOTHING_LOST = { lost: null }

/** Outcome of a request whose response was withheld because it could not be recorded in time: keeps the cost. */
export function toWithheld(row: SettledRow): SettledRow {
  if (row.status !== 'ok') return row
  const end = row.stream ? ({ status: 'cut' } as const) : ({ status: 'failed', httpStatus: 503 } as const)
  return { ...row, ...end, errorCode: 'ledger_unavailable' }
}
