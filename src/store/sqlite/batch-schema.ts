/** Tables of files and batches; contracts describe the columns. */
import { index, integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import type { BatchDetail, BatchEndpoint, BatchState, FilePurpose, StoredBatch } from '../../domain/batches.ts'

export const batchFiles = sqliteTable(
  'batch_files',
  {
    id: text('id').primaryKey(),
    keyId: text('key_id').notNull(),
    purpose: text('purpose').$type<FilePurpose>().notNull(),
    filename: text('filename').notNull(),
    bytes: integer('bytes').notNull(),
    createdMs: integer('created_ms').notNull(),
    expiresMs: integer('expires_ms'),
  },
  (table) => [index('batch_files_key').on(table.keyId, table.id), index('batch_files_expires').on(table.expiresMs)],
)

export const batches = sqliteTable(
  'batches',
  {
    id: text('id').primaryKey(),
    keyId: text('key_id').notNull(),
    api: text('api').$type<StoredBatch['api']>().notNull(),
    endpoint: text('endpoint').$type<BatchEndpoint>().notNull(),
    inputFileId: text('input_file_id').notNull(),
    state: text('state').$type<BatchState>().notNull(),
    createdMs: integer('created_ms').notNull(),
    expiresMs: integer('expires_ms').notNull(),
    detail: text('detail', { mode: 'json' }).$type<BatchDetail>().notNull(),
  },
  (table) => [index('batches_key').on(table.keyId, table.id), index('batches_state').on(table.state)],
)
