/**
 * A server's data folder, opened in the order that safety asks for: the lock, the database, its migrations, then the
 * ledger rows that an earlier run has left. Called once, by `server.ts`.
 */

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { settleSwap } from '../backup/replace-database.ts'
import type { ServeConfig } from '../config.ts'
import { LATEST_MS } from '../domain/id.ts'
import { ServiceError } from '../domain/service-error.ts'
import { createJournal } from '../ledger/journal.ts'
import { createLedger } from '../ledger/ledger.ts'
import { findLost, openMark } from '../ledger/mark.ts'
import { recover } from '../ledger/recover.ts'
import { createRetention } from '../ledger/retention.ts'
import type { Log } from '../log.ts'
import { prepareDataFolder, takeLock } from '../store/data-folder.ts'
import { BACKUPS, removeParts } from '../store/files.ts'
import { storeOf } from '../store/open.ts'
import { watchDisk } from './disk.ts'

type LedgerConfig = Pick<ServeConfig, 'durability' | 'maxJournalBytes' | 'keepMs' | 'auditMs' | 'diskBytes'>

interface StorageOptions {
  dataFolder: string
  /** Id of this run in the ledger. */
  instance: string
  startedMs: number
  /** Wall clock, ms. */
  now(): number
  /** A clock that never steps, ms. */
  monotonicMs(): number
  log: Log
}

/** Throws where the folder is served already, or its database cannot be used. What is opened is closed by `cleanup`. */
export async function openStorage(options: StorageOptions, cleanup: AsyncDisposableStack) {
  const { dataFolder, instance, startedMs, now, monotonicMs, log } = options
  prepareDataFolder(dataFolder)
  cleanup.defer(takeLock(dataFolder))
  settleRestore(dataFolder, log)
  removeParts(join(dataFolder, BACKUPS))
  const lost = findLost(dataFolder)
  if (lost !== null) throw new ServiceError({ kind: 'database_lost', dataFolder }, lost)
  const store = await storeOf(dataFolder).serve({ startedMs, now, log })
  cleanup.defer(() => store.close())
  const { config, identity, leases, ledger: reader, upkeep, writer } = store
  const atStart = { ...writer, checkpoint: async () => (await store.checkpoint()) !== 'nowhere' }
  const { replayed, abandoned, kept } = await recover({
    ...{ store: atStart, leases, dataFolder, instance, nowMs: now(), log },
  })
  if (replayed > 0 || abandoned > 0) log.warn('ledger_recovered', 'recovered the ledger', { replayed, abandoned })

  return {
    store: config,
    identity,
    /** From here on nothing waits within the store: the event loop would wait with it. */
    openLedger({ durability, maxJournalBytes, keepMs, auditMs, diskBytes }: LedgerConfig) {
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
      // Whatever has taken the place of the database, the journal may not forget for it.
      const reach = async () => {
        const reached = files.look() ? await store.checkpoint() : 'nowhere'
        return files.look() ? reached : 'nowhere'
      }
      // The journal may forget what outlives the machine, also where that is the log, because somebody always reads in it.
      const checkpoint = async () => (await reach()) !== 'nowhere'
      const ledger = createLedger({
        journal,
        store: { ...writer, checkpoint },
        reader,
        durability,
        files,
        mark,
        log,
        onCommit: store.noteCommit,
      })
      cleanup.defer(() => ledger.close())
      // Its first segment is made beside the rest of the start: the first request would wait for it.
      void journal.grow()
      const retention = createRetention({
        keepMs,
        auditMs,
        upkeep,
        journal,
        checkpoint: async () => (await reach()) === 'file',
        latestMs: reader.latestHour(LATEST_MS),
        now,
        monotonicMs,
        sleep: Bun.sleep,
        log,
      })
      cleanup.defer(() => retention.stop())
      retention.start()
      const disk = watchDisk({ dataFolder, budgetBytes: diskBytes, space: upkeep.space, monotonicMs, log })
      cleanup.defer(() => disk.stop())
      return { ledger, reader, files, disk, retention }
    },
  }
}

/** What a restore has left that was killed. */
function settleRestore(dataFolder: string, log: Log): void {
  const settled = settleSwap(dataFolder)
  if (settled.kind === 'undone')
    log.warn(
      'restore_recovered',
      'a restore was broken off before it had changed anything; what it had copied is removed',
    )
  if (settled.kind === 'finished')
    log.warn('restore_recovered', 'a restore that was broken off is finished', { replaced: settled.replaced })
}

const LOOK_MS = 250

interface DataFiles {
  /** What is no longer there as it was, since the last look; null where all of it is. With the journal, outcomes have no place either. */
  readonly lost: 'database' | 'journal' | null
  /** Looks now, and tells whether all is there. */
  look(): boolean
  stop(): void
}

interface DataFilesDeps {
  dataFolder: string
  store: { isThere(): boolean }
  journal: { isThere(): boolean }
  log: Log
}

/**
 * Looks every so often whether the files that a server writes are still those that its data folder shows: a file that was deleted or
 * replaced goes on taking what is written to it, and all of that is gone at the next start.
 */
export function watchDataFiles({ dataFolder, store, journal, log }: DataFilesDeps): DataFiles {
  const look = (): boolean => {
    const before = watched.lost
    const lost = !journal.isThere() ? 'journal' : store.isThere() ? null : 'database'
    watched.lost = lost
    if (lost === before) return lost === null
    if (lost === null) log.info('data_recovered', 'the data folder is as it was; requests are taken again')
    else if (before === null)
      log.error(
        'data_missing',
        `the ${existsSync(dataFolder) ? lost : 'data folder'} was removed, replaced or emptied while this server uses it: new requests are refused, since nothing of them could be kept. Stop the server, put the data folder back as it was or restore a backup, and start it again`,
        { data: dataFolder },
      )
    return lost === null
  }

  const timer = setInterval(look, LOOK_MS)
  // Plain, since every request asks what is lost.
  const watched = { lost: null as DataFiles['lost'], look, stop: () => clearInterval(timer) }
  look()
  return watched
}
