/**
 * The ledger: a request is on record, durably, before it is dispatched, and its outcome before the tail of its answer
 * leaves. Both go to the journal; what waits when the event loop turns is one group and one write. The store follows.
 * `gateway/` and `accounting/` call it.
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
import type { CountedRequest, LedgerReader, LedgerStore, Span } from '../store/ledger-store.ts'
import { createApplier, type Flushed } from './applier.ts'
import type { Journal } from './journal.ts'

/** From here on `/readyz` says that the database is behind. */
const BEHIND_MS = 10_000
/** How long a report that runs beside the server waits for what it holds. */
const FLUSH_MS = 2_000
/** How long a stop waits for a store that refuses. */
const CLOSE_MS = 1_000
/** Outcomes that found no place at all are kept in memory for the moment when there is one again. */
const MAX_STRANDED = 20_000
const STRANDED_MS = 200

export interface Ledger {
  /** Resolves once the row is durable. Throws `ledger_unavailable`: then nothing may be dispatched. */
  open(row: OpenRow): Promise<void>
  /**
   * The same for an additional call of a request that is open: until it resolves, that call may not be made. One that comes
   * after the outcome of its request is not recorded, so whoever waits for this looks again whether to go on.
   *
   * @param ended calls before it that have ended, and of which no record says so yet.
   */
  openCall(call: OpenCall, ended?: readonly SettledCall[]): Promise<void>
  /** Puts on record what a call of a request that is open holds by now. Nobody waits for it: a kill before it charges what was held before. */
  grow(growth: Growth): void
  /**
   * Resolves once the outcome is durable. Throws `ledger_unavailable`: then the tail is withheld.
   *
   * @param calls all calls of the request, where it took several; what the row says to have cost contains them.
   */
  settle(row: SettledRow, calls?: readonly SettledCall[]): Promise<void>
  state(): LedgerState
  /** Has the store follow now, for 2 s at most. */
  flush(): Promise<Flushed>
  /**
   * Nano-dollars that a key or a team has spent within `span` beyond what the store says: what waits in the journal.
   *
   * @param underWay the requests that are open as the store says, and what each counts with there; they are made to be those
   * that are open indeed.
   */
  unapplied(spender: Spender, span: Span, underWay?: Map<string, number>): number
  /** Resolves once everything handed in has its place and, if the store takes it, is applied. Closes the journal. */
  close(): Promise<void>
}

/** `behind`: the oldest record has waited for the store for 10 s; `unavailable`: the journal takes no new requests. */
type LedgerState = 'ok' | 'behind' | 'unavailable'

export interface LedgerDeps {
  journal: Journal
  store: LedgerStore
  reader: Pick<LedgerReader, 'counted'>
  /** `power`: durable once it is synced; `process`: once it is written. */
  durability: 'process' | 'power'
  /** Of what it writes to, what is gone: then nothing new is taken, and without the journal no outcome either. */
  files?: { readonly lost: 'database' | 'journal' | null }
  /** Counts the requests that were recorded. */
  mark?: { add(requests: number): void }
  log: Log
  /** Called after each transaction of the store. */
  onCommit(): void
}

interface PendingRecord {
  record: LedgerRecord
  resolve(): void
  reject(error: unknown): void
}

export function createLedger(deps: LedgerDeps): Ledger {
  const { journal, store, reader, durability, files = NOTHING_LOST, mark, log, onCommit } = deps
  const applier = createApplier({ journal, store, log, onCommit })
  let pending: PendingRecord[] = []
  let scheduled = false
  let syncing = false
  /** Records that wait for room which is being made. */
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
    // Not sooner for a request that is alone: it is in this turn that we hear of a client whose connection the runtime closes.
    setImmediate(flush)
  }

  const flush = () => {
    scheduled = false
    if (syncing || pending.length === 0) return
    const group = pending
    pending = []
    const rest = journal.append(group)
    applier.note()
    if (rest.length > 0) waitForRoom(rest)
    const placed = rest.length > 0 ? [...new Set(group).difference(new Set(rest))] : group
    count(placed)
    if (durability === 'power') return void sync(placed)
    for (const { resolve } of placed) resolve()
  }

  const count = (placed: readonly PendingRecord[]) => {
    let opened = 0
    for (const { record } of placed) if (record.kind === 'open' && !isGrowth(record)) opened++
    if (opened > 0) mark?.add(opened)
  }

  /** One sync at a time: what comes meanwhile is the next group. */
  const sync = async (group: PendingRecord[]) => {
    syncing = true
    try {
      await journal.sync()
      for (const { resolve } of group) resolve()
    } catch (error) {
      log.error('journal_failed', 'the journal cannot be synced', { error: String(error) })
      for (const { record, reject } of group) {
        // Its row is written all the same: without an end it would be charged what it has reserved.
        if (record.kind === 'open' && !isGrowth(record)) strand({ kind: 'settle', row: toRefused(record.row) })
        reject(unavailable())
      }
    }
    syncing = false
    if (pending.length > 0) schedule()
  }

  /** A segment may be on its way; otherwise there is no room for these. */
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
    while (pending.length > 0 || held > 0 || syncing) await Bun.sleep(1)
  }

  return {
    open: (row) => (files.lost ? Promise.reject(lost()) : enqueue({ kind: 'open', row })),
    openCall: (call, ended) =>
      files.lost
        ? Promise.reject(lost())
        : enqueue(ended?.length ? { kind: 'call', call, ended } : { kind: 'call', call }),
    grow: (growth) => void enqueue(growth).catch(() => {}),
    settle: (row, calls) =>
      files.lost === 'journal'
        ? Promise.reject(lost())
        : enqueue(calls?.length ? { kind: 'settle', row, calls } : { kind: 'settle', row }),
    state() {
      if (files.lost) return 'unavailable'
      if (journal.isFull()) {
        // Where nobody asks for anything any more, nobody else would try whether there is room again.
        void journal.grow()
        return 'unavailable'
      }
      return applier.waitsMs() >= BEHIND_MS ? 'behind' : 'ok'
    },
    flush() {
      flush()
      return applier.flush(FLUSH_MS)
    },
    unapplied(spender, span, underWay) {
      // What was handed in within this turn counts, too.
      flush()
      return toUnapplied(journal.unapplied(), reader.counted, spender, span, underWay)
    },
    async close() {
      await placed()
      // What the database takes now may make room for what found none.
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
    'Usage cannot be recorded at the moment: the journal has no room, and the database takes nothing from it. An administrator should look at the disk, and for a process that locks its database; try again then.',
  )

const lost = () =>
  new GatewayError(
    'ledger_unavailable',
    'Usage cannot be recorded: the data of this server were removed or replaced while it runs. An administrator should look at its log.',
  )

const NOTHING_LOST = { lost: null }

/**
 * What is kept of an outcome whose answer was withheld, because nothing could record it in time: what it cost. Its calls
 * went as they went.
 */
export function toWithheld(row: SettledRow): SettledRow {
  if (row.status !== 'ok') return row
  const end = row.stream ? ({ status: 'cut' } as const) : ({ status: 'failed', httpStatus: 503 } as const)
  return { ...row, ...end, errorCode: 'ledger_unavailable' }
}

/** Whether a record says what something holds by now that is on record already. */
const isGrowth = (record: LedgerRecord): record is Growth => 'heldNanoUsd' in record

/**
 * Nano-dollars that `records`, which the store does not have yet, add to what it says is spent on requests created within
 * `span`.
 *
 * @param underWay see `Ledger.unapplied`.
 */
function toUnapplied(
  records: Iterable<LedgerRecord>,
  storedOf: (requestId: string) => CountedRequest | null,
  spender: Spender,
  { fromMs, untilMs }: Span,
  underWay = new Map<string, number>(),
): number {
  const isOf = (row: Pick<CountedRequest, 'keyId' | 'teamId'>) =>
    row[spender.kind === 'key' ? 'keyId' : 'teamId'] === spender.id
  const requests = new Map<string, { open?: OpenRow; settled?: SettledRow; reservedNanoUsd: number }>()
  for (const record of records) {
    const requestId = record.kind === 'call' ? record.call.requestId : record.row.id
    const request = requests.get(requestId) ?? { reservedNanoUsd: 0 }
    requests.set(requestId, request)
    const heldNanoUsd = isGrowth(record) ? record.heldNanoUsd : 0
    if (record.kind === 'settle') request.settled = record.row
    else if (record.kind === 'call') request.reservedNanoUsd += record.call.reservedNanoUsd - heldNanoUsd
    else if (isGrowth(record)) request.reservedNanoUsd += record.row.reservedNanoUsd - heldNanoUsd
    else request.open = record.row
  }
  let sum = 0
  for (const [requestId, { open, settled, reservedNanoUsd }] of requests) {
    const row = settled ?? open
    if (row && !isOf(row)) continue
    const stored = storedOf(requestId)
    const owner = row ?? stored
    if (!owner || !isOf(owner) || owner.createdMs < fromMs || owner.createdMs >= untilMs || stored?.isOpen === false)
      continue
    const counted = stored?.nanoUsd ?? 0
    const reserved = (stored?.nanoUsd ?? open?.reservedNanoUsd ?? 0) + reservedNanoUsd
    if (settled) underWay.delete(requestId)
    else underWay.set(requestId, reserved)
    sum += (settled?.costNanoUsd ?? reserved) - counted
  }
  return sum
}
