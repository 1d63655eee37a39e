/** Opens a server's data folder in a safe order: lock, database, migrations, recovery. */

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { settleSwap } from '../backup/replace-database.ts'
import type { ServeConfig } from '../config.ts'
import { LATEST_MS } from '../domain/id.ts'
import { ServiceError } from '../domain/service-error.ts'
import { createJournal } from '../ledger/journal.ts'
import { BEHIND_MS, createLedger, type OnTimed, type OwnLedger } from '../ledger/ledger.ts'
import { findLost, openMark } from '../ledger/mark.ts'
import { createOtherJournals, type OtherJournals } from '../ledger/other-journals.ts'
import { recover } from '../ledger/recover.ts'
import { createRefusals } from '../ledger/refusals.ts'
import { createRetention } from '../ledger/retention.ts'
import type { Share } from '../ledger/sharing.ts'
import type { Log } from '../log.ts'
import {
  listDraining,
  nodeFile,
  prepareDataFolder,
  removeDrainingLocks,
  takeDrainingLock,
  takeLock,
} from '../store/data-folder.ts'
import { BACKUPS, removeParts } from '../store/files.ts'
import type { Outbox } from '../store/ledger-store.ts'
import { storeOf } from '../store/open.ts'
import { StoreRefusal } from '../store/refusal.ts'
import { watchDisk } from './disk.ts'

type LedgerConfig = Pick<ServeConfig, 'durability' | 'maxJournalBytes' | 'keepMs' | 'auditMs' | 'diskBytes'>

/** Ships the ledger of a cluster node. */
export interface LedgerShipper {
  /** Call if there is something to ship. */
  note(): void
  share: Share
}

interface StorageOptions {
  version: string
  dataFolder: string
  instance: string
  startedMs: number
  /** Wall clock, ms. */
  now(): number
  /** Monotonic clock, ms. */
  monotonicMs(): number
  log: Log
  onTimed?: OnTimed
}

/** Throws if the folder is in use, or its database can't be used. `cleanup` closes what was opened. */
export async function openStorage(options: StorageOptions, cleanup: AsyncDisposableStack) {
  const { version, dataFolder, instance, startedMs, now, monotonicMs, log, onTimed = () => {} } = options
  prepareDataFolder(dataFolder)
  let unlock: (() => void) | null = takeLock(dataFolder)
  cleanup.defer(() => unlock?.())
  const living = listDraining(dataFolder)
  removeDrainingLocks(dataFolder)
  // Released last. Until then, other servers don't touch this server's journal.
  let endDraining = () => {}
  cleanup.defer(() => endDraining())
  settleRestore(dataFolder, log)
  removeParts(join(dataFolder, BACKUPS))
  const lost = findLost(dataFolder)
  if (lost !== null) throw new ServiceError({ kind: 'database_lost', dataFolder }, lost)
  const hasJoined = existsSync(nodeFile(dataFolder))
  const store = await storeOf(dataFolder).serve({ version, startedMs, hasJoined, now, log })
  cleanup.defer(() => store.close())
  const { alerts, batches, config, identity, leases, ledger: reader, upkeep, writer } = store
  const atStart = { ...writer, checkpoint: async () => (await store.checkpoint()) !== 'nowhere' }
  const { replayed, abandoned, kept } = await recover({
    ...{ store: atStart, leases, dataFolder, instance, living, nowMs: now(), log },
  })
  if (replayed > 0 || abandoned > 0) log.warn('ledger_recovered', 'recovered the ledger', { replayed, abandoned })

  return {
    store: config,
    identity,
    alerts,
    batches,
    hasPosition: store.hasPosition,
    loadReplica: store.loadReplica,
    hasHistory: () => upkeep.oldestMs() !== null,
    /** From here on, the store never waits, which would block the event loop. */
    openLedger(
      { durability, maxJournalBytes, keepMs, auditMs, diskBytes }: LedgerConfig,
      toShipper: ((outbox: Outbox) => LedgerShipper) | null = null,
      removesShared = () => true,
    ) {
      const outbox = store.ship(toShipper !== null)
      const shipper = outbox === null ? null : (toShipper?.(outbox) ?? null)
      const onCommit = shipper === null ? store.noteCommit : () => [store.noteCommit(), shipper.note()]
      const share = shipper?.share ?? null
      store.begin()
      const journal = createJournal({
        folder: join(dataFolder, 'journal'),
        instance,
        schema: store.schema,
        log,
        maxBytes: maxJournalBytes,
        inherited: kept,
      })
      const files = watchDataFiles({ dataFolder, store, journal, log })
      cleanup.defer(() => files.stop())
      const mark = openMark(dataFolder, reader.count())
      cleanup.defer(() => mark.close())
      // If the database was replaced, the journal must not discard anything for the new one.
      const reach = async () => {
        const reached = files.look() ? await store.checkpoint() : 'nowhere'
        return files.look() ? reached : 'nowhere'
      }
      // A checkpoint in the database's log suffices to discard journal records: it survives a crash of the machine.
      const checkpoint = async () => (await reach()) !== 'nowhere'
      const own = createLedger({
        journal,
        store: { ...writer, checkpoint },
        reader,
        durability,
        files,
        mark,
        log,
        onCommit,
        onTimed,
        share,
      })
      cleanup.defer(() => own.close())
      const others = createOtherJournals({
        ...{ dataFolder, instance, living, leases, reader, mark, now, log },
        store: { ...writer, checkpoint },
        ...{ onCommit, share },
        onApplied: (ms) => onTimed('apply', ms),
      })
      cleanup.defer(() => others.stop())
      const ledger = withOthers(own, others)
      const refusals = createRefusals({ writer: store.refusals, onCommit, log })
      cleanup.defer(() => refusals.close())
      // Prepares the first segment during the start, so that the first request needn't wait for it.
      void journal.grow()
      const retention = createRetention({
        keepMs,
        auditMs,
        upkeep,
        journal: {
          release: async (checkpoint, beforeMs = 0) => {
            await Promise.all([journal.release(checkpoint, beforeMs), others.release(beforeMs)])
          },
          oldestMs: () => Math.min(journal.oldestMs(), others.oldestMs()),
        },
        checkpoint: async () => (await reach()) === 'file',
        latestMs: reader.latestHour(LATEST_MS),
        removesShared,
        now,
        monotonicMs,
        sleep: Bun.sleep,
        log,
      })
      cleanup.defer(() => retention.stop())
      retention.start()
      const disk = watchDisk({ dataFolder, budgetBytes: diskBytes, space: upkeep.space, monotonicMs, log })
      cleanup.defer(() => disk.stop())
      const handOver = async (): Promise<void> => {
        await others.stop()
        await refusals.flush()
        await ledger.handOver()
        const isHeld = takeDrainingLock(dataFolder, instance)
        if (isHeld === null) throw new Error('the lock of a draining server is taken')
        endDraining = isHeld
        unlock?.()
        unlock = null
      }
      /** Throws a ServiceError if another server has the folder. */
      const takeBack = async (): Promise<void> => {
        unlock ??= takeLock(dataFolder)
        const span = { fromMs: now(), untilMs: Number.MAX_SAFE_INTEGER }
        await untilAccepted(() => leases.begin(instance, span, listDraining(dataFolder)))
        endDraining()
        removeDrainingLocks(dataFolder)
        ledger.takeBack()
        others.resume()
      }
      return { ledger, refusals, reader, files, disk, retention, others, share, handOver, takeBack }
    },
  }
}

/** The ledger of a server with workers. */
const withOthers = (own: OwnLedger, others: OtherJournals): OwnLedger => ({
  ...own,
  state() {
    const state = own.state()
    return state === 'ok' && others.backlog().ms >= BEHIND_MS ? 'behind' : state
  },
  backlog() {
    const [here, there] = [own.backlog(), others.backlog()]
    return { records: here.records + there.records, ms: Math.max(here.ms, there.ms) }
  },
  async flush() {
    const [here, there] = await Promise.all([own.flush(), others.flush()])
    return { applied: here.applied + there.applied, waiting: here.waiting + there.waiting }
  },
  unapplied: (spender, span, underWay) =>
    own.unapplied(spender, span, underWay) + others.unapplied(spender, span, underWay),
})

function settleRestore(dataFolder: string, log: Log): void {
  const settled = settleSwap(dataFolder)
  if (settled.kind === 'undone')
    log.warn('restore_recovered', 'removed an interrupted restore that had not changed anything')
  if (settled.kind === 'finished')
    log.warn('restore_recovered', 'finished an interrupted restore', { replaced: settled.replaced })
}

const AGAIN_MS = 20
const TRIES = 50

/** Retries while another process, such as a command, is writing. Throws the last refusal. */
async function untilAccepted<T>(work: () => T): Promise<T> {
  for (let left = TRIES; ; left--) {
    try {
      return work()
    } catch (error) {
      if (!(error instanceof StoreRefusal) || left === 0) throw error
    }
    await Bun.sleep(AGAIN_MS)
  }
}

const LOOK_MS = 250

export interface DataFiles {
  /**
   * The file that is missing since the last check; null if none. Without the journal, outcomes can't be recorded either.
   */
  readonly lost: 'database' | 'journal' | null
  look(): boolean
  stop(): void
}

interface DataFilesDeps {
  dataFolder: string
  store: { isThere(): boolean }
  journal: { isThere(): boolean }
  log: Log
}

/** Writes to a deleted or replaced file would be lost. */
export function watchDataFiles({ dataFolder, store, journal, log }: DataFilesDeps): DataFiles {
  const look = (): boolean => {
    const before = watched.lost
    const lost = !journal.isThere() ? 'journal' : store.isThere() ? null : 'database'
    watched.lost = lost
    if (lost === before) return lost === null
    if (lost === null) log.info('data_recovered', 'data folder restored; accepting requests again')
    else if (before === null)
      log.error(
        'data_missing',
        `the ${existsSync(dataFolder) ? lost : 'data folder'} was removed, replaced, or emptied while in use; rejecting requests, which can't be recorded. Stop the server, put the data folder back or restore a backup, and start it again`,
        { data: dataFolder },
      )
    return lost === null
  }

  const timer = setInterval(look, LOOK_MS)
  // A plain property, since every request reads it.
  const watched = { lost: null as DataFiles['lost'], look, stop: () => clearInterval(timer) }
  look()
  return watched
}
