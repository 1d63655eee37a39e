/** Typed access to the tables. May use the server's writer: nothing may wait within a transaction. */
import type { Database } from 'bun:sqlite'
import { eq } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/bun-sqlite'
import { settings } from './schema.ts'

export const toTables = (sqlite: Database) => drizzle(sqlite)

export type Connection = ReturnType<typeof toTables>
export type Transaction = Parameters<Parameters<Connection['transaction']>[0]>[0]

/** 0 before the first change. */
export function readRevision(tx: Pick<Transaction, 'select'>): number {
  return Number(tx.select().from(settings).where(eq(settings.key, 'config_revision')).get()?.value ?? 0)
}
