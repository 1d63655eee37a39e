/** The store of files and batches in SQLite. */
import type { Database } from 'bun:sqlite'
import { and, asc, desc, eq, gt, inArray, lt, lte, notInArray, sql } from 'drizzle-orm'
import { FINAL_STATES, type StoredBatch, type StoredFile } from '../../domain/batches.ts'
import type { BatchStore } from '../batch-store.ts'
import { batches, batchFiles } from './batch-schema.ts'
import { untilFree } from './change.ts'
import { toTables } from './tables.ts'

export function createBatchStore(sqlite: Database): BatchStore {
  const database = toTables(sqlite)
  const file = (id: string): StoredFile | null =>
    database.select().from(batchFiles).where(eq(batchFiles.id, id)).get() ?? null
  const write = async (work: () => unknown) => void (await untilFree(work))
  return {
    isEmpty: () =>
      database.select({ id: batchFiles.id }).from(batchFiles).limit(1).get() === undefined &&
      database.select({ id: batches.id }).from(batches).limit(1).get() === undefined,
    file,
    hasFile: (id) => file(id) !== null,
    files: ({ keyId, purpose, after, limit, isOldestFirst }) =>
      database
        .select()
        .from(batchFiles)
        .where(
          and(
            eq(batchFiles.keyId, keyId),
            purpose === null ? sql`${batchFiles.purpose} <> 'hidden'` : eq(batchFiles.purpose, purpose),
            after === null ? undefined : isOldestFirst ? gt(batchFiles.id, after) : lt(batchFiles.id, after),
          ),
        )
        .orderBy(isOldestFirst ? asc(batchFiles.id) : desc(batchFiles.id))
        .limit(limit)
        .all(),
    endedFiles: (nowMs, limit) =>
      database.select().from(batchFiles).where(lte(batchFiles.expiresMs, nowMs)).limit(limit).all(),
    batch: (id): StoredBatch | null => database.select().from(batches).where(eq(batches.id, id)).get() ?? null,
    batches: ({ keyId, api, after, before, limit }) => {
      const rows = database
        .select()
        .from(batches)
        .where(
          and(
            eq(batches.keyId, keyId),
            eq(batches.api, api),
            after === null ? undefined : lt(batches.id, after),
            before === null ? undefined : gt(batches.id, before),
          ),
        )
        .orderBy(before === null ? desc(batches.id) : asc(batches.id))
        .limit(limit)
        .all()
      return before === null ? rows : rows.reverse()
    },
    activeBatches: () =>
      database
        .select()
        .from(batches)
        .where(notInArray(batches.state, [...FINAL_STATES]))
        .orderBy(asc(batches.createdMs), asc(batches.id))
        .all(),
    held(keyId) {
      const files = database
        .select({ files: sql<number>`COUNT(*)`, bytes: sql<number>`COALESCE(SUM(${batchFiles.bytes}), 0)` })
        .from(batchFiles)
        .where(eq(batchFiles.keyId, keyId))
        .get()
      const active = database
        .select({ batches: sql<number>`COUNT(*)` })
        .from(batches)
        .where(and(eq(batches.keyId, keyId), notInArray(batches.state, [...FINAL_STATES])))
        .get()
      const all = database.select({ kept: sql<number>`COUNT(*)` }).from(batches).where(eq(batches.keyId, keyId)).get()
      return { files: 0, bytes: 0, batches: 0, kept: 0, ...files, ...active, ...all }
    },
    totalBytes: () =>
      database
        .select({ bytes: sql<number>`COALESCE(SUM(${batchFiles.bytes}), 0)` })
        .from(batchFiles)
        .get()?.bytes ?? 0,
    addFile: (added) => write(() => database.insert(batchFiles).values(added).onConflictDoNothing().run()),
    removeFile: (id) => write(() => database.delete(batchFiles).where(eq(batchFiles.id, id)).run()),
    putBatch: (batch) =>
      write(() => database.insert(batches).values(batch).onConflictDoUpdate({ target: batches.id, set: batch }).run()),
    removeBatch: (id) => write(() => database.delete(batches).where(eq(batches.id, id)).run()),
    removeBatches: (beforeMs) =>
      write(() =>
        database
          .delete(batches)
          .where(and(inArray(batches.state, [...FINAL_STATES]), lt(batches.createdMs, beforeMs)))
          .run(),
      ),
  }
}
