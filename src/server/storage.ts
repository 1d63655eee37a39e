/**
 * A server's data folder, opened in the order that safety asks for: the lock, the database, its migrations, then the
 * ledger rows that an earlier run has left. Called once, by `server.ts`.
 */
import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import type { ServeConfig } from '../config.ts'
import { messageOf } from '../domain/error.ts'
import { ServiceError } from '../domain/service-error.ts'
import { createLedger, type Ledger } from '../ledger/ledger.ts'
import { recover } from '../ledger/recover.ts'
import { createSpool } from '../ledger/spool.ts'
import type { Log } from '../log.ts'
import type { ConfigStore } from '../store/config-store.ts'
import { createCheckpointer } from '../store/sqlite/checkpoint.ts'
import { createConfigStore } from '../store/sqlite/config-store.ts'
import { writeFacts } from '../store/sqlite/facts.ts'
import { takeLock } from '../store/sqlite/lock.ts'
import { migrate } from '../store/sqlite/migrate.ts'
import { COMMAND_BUSY_MS, databasePath, openDatabase, prepareDataFolder } from '../store/sqlite/open.ts'

export interface StorageOptions {
  dataFolder: string
  /** Id of this run in the ledger. */
  instance: string
  startedMs: number
  log: Log
}

export interface Storage {
  /** The one connection that writes. */
  writer: Database
  store: ConfigStore
  /** Opens the ledger. From then on the writer never waits inside SQLite: the event loop would wait with it. */
  openLedger(durability: ServeConfig['durability']): Ledger
}

/** Eight megabytes of zeros can wait until the first answers are out; a group that needs them earlier makes them. */
const SPOOL_DELAY_MS = 100

/** Throws where the folder is served already, or its database cannot be used. What is opened is closed by `cleanup`. */
export function openStorage(options: StorageOptions, cleanup: AsyncDisposableStack): Storage {
  const { dataFolder, instance, startedMs, log } = options
  prepareDataFolder(dataFolder)
  cleanup.defer(takeLock(dataFolder))
  const path = databasePath(dataFolder)
  const writer = openWriter(path)
  cleanup.defer(() => writer.close())
  const spoolFolder = join(dataFolder, 'spool')
  const spool = createSpool({ folder: spoolFolder, instance })
  cleanup.defer(() => spool.close())
  migrate(writer, dataFolder, startedMs)
  const recovered = recover(writer, spool, spoolFolder, instance, log)
  if (recovered.replayed > 0 || recovered.abandoned > 0)
    log.warn('ledger_recovered', 'recovered the ledger', { ...recovered })
  writeFacts(writer, instance, startedMs)

  return {
    writer,
    store: createConfigStore(writer),
    openLedger(durability) {
      if (durability === 'power') writer.run('PRAGMA synchronous = FULL')
      writer.run('PRAGMA busy_timeout = 0')
      writer.run('PRAGMA wal_autocheckpoint = 0')
      const checkpointer = createCheckpointer(path, log)
      cleanup.defer(() => checkpointer.close())
      const ledger = createLedger({
        writer,
        spool,
        log,
        onCommit: checkpointer.note,
        checkpoint: checkpointer.run,
      })
      cleanup.defer(() => ledger.close())
      const preparing = setTimeout(() => {
        spool
          .prepare()
          .catch((error) => log.error('journal_failed', 'the spool could not be prepared', { error: String(error) }))
      }, SPOOL_DELAY_MS)
      cleanup.defer(() => clearTimeout(preparing))
      return ledger
    },
  }
}

function openWriter(path: string): Database {
  try {
    return openDatabase(path, { busyMs: COMMAND_BUSY_MS })
  } catch (error) {
    throw new ServiceError({ kind: 'database_unusable', path }, `Cannot open ${path}: ${messageOf(error)}.`)
  }
}
