/** The contract of a store of files and batches, without their contents. */
import type { FilePurpose, StoredBatch, StoredFile } from '../domain/batches.ts'

export interface FileQuery {
  keyId: string
  purpose: FilePurpose | null
  /** ID of the last one seen. */
  after: string | null
  limit: number
  isOldestFirst: boolean
}

export interface BatchQuery {
  keyId: string
  api: StoredBatch['api']
  after: string | null
  before: string | null
  limit: number
}

/** Batches of a key. */
export interface Held {
  files: number
  bytes: number
  /** Batches that have not ended. */
  batches: number
  /** All batches. */
  kept: number
}

/** Reading is synchronous. Writing rejects with the database's error. */
export interface BatchStore {
  /** True without files and batches. */
  isEmpty(): boolean
  file(id: string): StoredFile | null
  files(query: FileQuery): StoredFile[]
  /** Expired files. */
  endedFiles(nowMs: number, limit: number): StoredFile[]
  hasFile(id: string): boolean
  batch(id: string): StoredBatch | null
  /** Newest first. */
  batches(query: BatchQuery): StoredBatch[]
  /** Not ended, oldest first. */
  activeBatches(): StoredBatch[]
  held(keyId: string): Held
  /** Total size, bytes. */
  totalBytes(): number
  addFile(file: StoredFile): Promise<void>
  removeFile(id: string): Promise<void>
  /** Adds or replaces the batch. */
  putBatch(batch: StoredBatch): Promise<void>
  removeBatch(id: string): Promise<void>
  /** Removes batches that ended before. */
  removeBatches(beforeMs: number): Promise<void>
}
