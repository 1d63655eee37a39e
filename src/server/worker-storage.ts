/** Storage of a worker: its own journal, which the keeper applies, and the database, read-only. */
import { join } from 'node:path'
import type { ServeConfig } from '../config.ts'
import type { Link } from '../domain/link.ts'
import { Cursor } from '../ledger/cursor.ts'
import { createJournal } from '../ledger/journal.ts'
import { createLedgerOver, type Ledger, type OnTimed } from '../ledger/ledger.ts'
import { createWorkerApplier, REMOVED, toWorkerShare } from '../ledger/worker-applier.ts'
import type { Log } from '../log.ts'
import { removeDrainingLock, takeDrainingLock } from '../store/data-folder.ts'
import { storeOf } from '../store/open.ts'
import type { Store } from '../store/store.ts'
import { type DataFiles, watchDataFiles } from './storage.ts'

export interface WorkerStorageOptions extends Pick<ServeConfig, 'durability' | 'maxJournalBytes'> {
  dataFolder: string
  instance: string
  /** Link to the keeper, which calls `OtherJournals.add`. */
  link: Link
  log: Log
  onTimed?: OnTimed
}

export interface WorkerStorage {
  store: Store
  /** Without `unapplied`: only the keeper knows the total spend. */
  ledger: Ledger
  files: DataFiles
}

/** Throws a ServiceError if the database can't be read. `cleanup` closes everything; after that, the keeper may adopt the journal. */
export async function openWorkerStorage(
  options: WorkerStorageOptions,
  cleanup: AsyncDisposableStack,
): Promise<WorkerStorage> {
  const { dataFolder, instance, link, durability, maxJournalBytes, log, onTimed } = options
  const unlock = takeDrainingLock(dataFolder, instance)
  if (unlock === null) throw new Error('the lock of this worker is taken')
  cleanup.defer(() => {
    unlock()
    removeDrainingLock(dataFolder, instance)
  })
  const store = storeOf(dataFolder).open({ readonly: true })
  cleanup.defer(() => store.close())
  const cursor = new Cursor()
  const journal = createJournal({
    folder: join(dataFolder, 'journal'),
    ...{ instance, log, schema: store.schema, maxBytes: maxJournalBytes },
    ...{ cursors: [cursor], isTaken: false, onRemoved: (segment) => link.tell(REMOVED, [segment]) },
  })
  const served = store.identify()
  const isThere = () => identityOf(store) === served
  const files = watchDataFiles({ dataFolder, store: { isThere }, journal, log })
  cleanup.defer(() => files.stop())
  const ledger = createLedgerOver({
    applier: createWorkerApplier({ journal, cursor, link, log }),
    reader: store.ledger,
    ...{ journal, durability, files, log, share: toWorkerShare(cursor, link) },
    ...(onTimed && { onTimed }),
  })
  cleanup.defer(() => ledger.close())
  // Prepares the first segment, so that the first request needn't wait.
  void journal.grow()
  return { store, ledger, files }
}

/** Null if the database is missing. */
function identityOf(store: Store): string | null {
  try {
    return store.identify()
  } catch {
    return null
  }
}
