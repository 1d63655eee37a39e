/**
 * A server's data folder, opened in the order that safety asks for: the lock, the database, its migrations, then the
 * ledger rows that an earlier run has left. Called once, by `server.ts`.
 */

import { closeSync, existsSync, openSync, readSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { settleSwap } from '../backup/swap.ts'
import type { ServeConfig } from '../config.ts'
import { LATEST_MS } from '../domain/id.ts'
import { ServiceError } from '../domain/service-error.ts'
import { createJournal } from '../ledger/journal.ts'
import { createLedger } from '../ledger/ledger.ts'
import { findLost, openMark } from '../ledger/mark.ts'
import { recover } from '../ledger/recover.ts'
import { createRetention } from '../ledger/retention.ts'
import type { Log } from '../log.ts'
import { BACKUPS, removeParts } from '../store/files.ts'
import { checkpointHere, createCheckpointer } from '../store/sqlite/checkpoint.ts'
import { createConfigStore } from '../store/sqlite/config-store.ts'
import { takeLock } from '../store/sqlite/database-file.ts'
import { createIdentityStore } from '../store/sqlite/identity-store.ts'
import { createLedgerStore } from '../store/sqlite/ledger-apply.ts'
import { createLedgerReader } from '../store/sqlite/ledger-reader.ts'
import { MIGRATIONS, migrate, readSchemaState } from '../store/sqlite/migrate.ts'
import { COMMAND_BUSY_MS, databasePath, openDatabase, prepareDataFolder, writeFact } from '../store/sqlite/open.ts'
import { createLedgerUpkeep } from '../store/sqlite/upkeep.ts'
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
  const path = databasePath(dataFolder)
  const writer = openDatabase(path, { busyMs: COMMAND_BUSY_MS })
  cleanup.defer(() => writer.close())
  const { applied, missing } = readSchemaState(writer)
  if (applied.length > 0 && missing.length > 0)
    log.warn('database_updating', 'updating the database to this version; a million requests may take half a minute', {
      migrations: missing.length,
    })
  migrate(writer, dataFolder, startedMs)
  const atStart = createLedgerStore(writer, async () => checkpointHere(writer))
  const { replayed, abandoned, kept } = await recover({ store: atStart, dataFolder, instance, log })
  if (replayed > 0 || abandoned > 0) log.warn('ledger_recovered', 'recovered the ledger', { replayed, abandoned })
  writeFact(writer, 'instance', instance, startedMs)

  return {
    store: createConfigStore(writer),
    identity: createIdentityStore(writer),
    /** From here on the writer never waits inside SQLite: the event loop would wait with it. */
    openLedger({ durability, maxJournalBytes, keepMs, auditMs, diskBytes }: LedgerConfig) {
      writer.run('PRAGMA busy_timeout = 0')
      writer.run('PRAGMA wal_autocheckpoint = 0')
      const checkpointer = createCheckpointer(path, log)
      cleanup.defer(() => checkpointer.close())
      const reader = createLedgerReader(writer)
      const journal = createJournal({
        folder: join(dataFolder, 'journal'),
        instance,
        schema: MIGRATIONS.at(-1)?.name ?? '',
        log,
        maxBytes: maxJournalBytes,
        inherited: kept,
      })
      const files = watchDataFiles({ dataFolder, journal, onWal: checkpointer.noteSize, log })
      cleanup.defer(() => files.stop())
      const mark = openMark(dataFolder, reader.count())
      cleanup.defer(() => mark.close())
      // Whatever has taken the place of the database, the journal may not forget for it.
      const reach = async () => {
        const reached = files.look() ? await checkpointer.run() : 'nowhere'
        return files.look() ? reached : 'nowhere'
      }
      // The journal may forget what outlives the machine, also where that is the log, because somebody always reads in it.
      const checkpoint = async () => (await reach()) !== 'nowhere'
      const ledger = createLedger({
        journal,
        store: createLedgerStore(writer, checkpoint),
        reader,
        durability,
        files,
        mark,
        log,
        onCommit: checkpointer.note,
      })
      cleanup.defer(() => ledger.close())
      // Its first segment is made beside the rest of the start: the first request would wait for it.
      void journal.grow()
      const upkeep = createLedgerUpkeep(path, writer, now)
      cleanup.defer(() => upkeep.close())
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
      'restore_settled',
      'a restore was broken off before it had changed anything; what it had copied is removed',
    )
  if (settled.kind === 'finished')
    log.warn('restore_settled', 'a restore that was broken off is finished', { replaced: settled.replaced })
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
  journal: { isThere(): boolean }
  /** Called with the size of the database's WAL at each look that finds all there. */
  onWal?(bytes: number): void
  log: Log
}

/**
 * Looks every so often whether the files that a server writes are still those that its data folder shows: a file that was deleted or
 * replaced goes on taking what is written to it, and all of that is gone at the next start. The database is open, and in WAL mode: its
 * side files stay the same for as long as it is.
 */
export function watchDataFiles({ dataFolder, journal, onWal, log }: DataFilesDeps): DataFiles {
  const path = databasePath(dataFolder)
  const files = ['', '-wal', '-shm'].map((ending) => ({ path: `${path}${ending}`, ...identify(`${path}${ending}`) }))
  /** What it was when it was last seen whole. */
  let bytes = 0

  const isDatabaseThere = () => {
    if (!files.every(({ path, id }) => identify(path).id === id)) return false
    const { size } = identify(path)
    const isWhole = size >= bytes || (size > 0 && size >= bytesByHeader(path))
    if (isWhole) bytes = size
    return isWhole
  }

  const look = (): boolean => {
    const before = watched.lost
    const lost = !journal.isThere() ? 'journal' : isDatabaseThere() ? null : 'database'
    watched.lost = lost
    if (lost === null) onWal?.(identify(`${path}-wal`).size)
    if (lost === before) return lost === null
    if (lost === null) log.info('data_found', 'the data folder is as it was; requests are taken again')
    else if (before === null)
      log.error(
        'data_lost',
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

/** What a database says itself to be long (sqlite.org/fileformat2, 1.3): it gets shorter where free pages are given back. */
function bytesByHeader(path: string): number {
  const header = Buffer.alloc(32)
  const file = openSync(path, 'r')
  try {
    if (readSync(file, header, 0, header.length, 0) < header.length) return Number.POSITIVE_INFINITY
  } finally {
    closeSync(file)
  }
  if (header.toString('latin1', 0, 15) !== 'SQLite format 3') return Number.POSITIVE_INFINITY
  const pageBytes = header.readUInt16BE(16)
  return header.readUInt32BE(28) * (pageBytes === 1 ? 65_536 : pageBytes)
}

function identify(path: string): { id: string; size: number } {
  const found = statSync(path, { throwIfNoEntry: false })
  return { id: found ? `${found.dev} ${found.ino}` : 'none', size: found?.size ?? 0 }
}
