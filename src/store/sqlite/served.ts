/** The database of a running server, its only user. */
import type { ServedStore, ServeOptions } from '../store.ts'
import { createAlertStore } from './alert-store.ts'
import { createBatchStore } from './batch-store.ts'
import { type Checkpointer, checkpointHere, createCheckpointer } from './checkpoint.ts'
import { createConfigStore } from './config-store.ts'
import { watchFiles } from './files.ts'
import { createIdentityStore } from './identity-store.ts'
import { createLeases, createLedgerWriter } from './ledger-apply.ts'
import { createLedgerReader } from './ledger-reader.ts'
import { MIGRATIONS, migrate, readSchemaState } from './migrate.ts'
import { writeVersion } from './migration-copies.ts'
import { COMMAND_BUSY_MS, openDatabase } from './open.ts'
import { createOutbox, createOutboxNotes, forgetOutbox } from './outbox.ts'
import { readPosition } from './position.ts'
import { createRefusalWriter } from './refusals.ts'
import { toTables } from './tables.ts'
import { createLedgerUpkeep } from './upkeep.ts'

export function openServed(
  path: string,
  dataFolder: string,
  { version, startedMs, hasJoined = false, now, log }: ServeOptions,
): ServedStore {
  using opening = new DisposableStack()
  const writer = openDatabase(path, { busyMs: COMMAND_BUSY_MS })
  opening.defer(() => writer.close())
  const { applied, missing } = readSchemaState(writer)
  if (applied.length > 0 && missing.length > 0)
    log.warn(
      'database_updating',
      'copying the database to backups/ and migrating it; a million requests take up to half a minute',
      {
        migrations: missing.length,
      },
    )
  migrate(writer, dataFolder, startedMs, MIGRATIONS, version)
  writeVersion(writer, version)
  const upkeep = createLedgerUpkeep(path, writer, now)
  opening.defer(upkeep.close)
  let checkpointer: Checkpointer | null = null
  let isThere = () => true
  const schema = MIGRATIONS.at(-1)?.name ?? ''
  opening.defer(() => checkpointer?.close())
  const notes = createOutboxNotes(writer, hasJoined)
  const opened = opening.move()

  return {
    config: createConfigStore(writer),
    identity: createIdentityStore(writer),
    alerts: createAlertStore(writer),
    batches: createBatchStore(writer),
    ledger: createLedgerReader(writer),
    writer: createLedgerWriter(writer, notes),
    refusals: createRefusalWriter(writer, notes),
    ship(isNode) {
      notes.isOn = isNode
      if (!isNode) forgetOutbox(writer)
      return isNode ? createOutbox(writer) : null
    },
    leases: createLeases(writer),
    hasPosition: () => readPosition(toTables(writer)) !== null,
    loadReplica: async () => (await import('./replica.ts')).createReplica(path, writer, schema),
    loadCopy: async () => (await import('./ledger-target.ts')).createLedgerTarget(writer),
    upkeep,
    schema,
    begin() {
      writer.run('PRAGMA busy_timeout = 0')
      writer.run('PRAGMA wal_autocheckpoint = 0')
      checkpointer = createCheckpointer(path, log)
      isThere = watchFiles(path, checkpointer.noteSize)
    },
    isThere: () => isThere(),
    checkpoint: async () => checkpointer?.run() ?? (checkpointHere(writer) ? 'file' : 'nowhere'),
    noteCommit: () => checkpointer?.note(),
    close: () => opened.dispose(),
  }
}
