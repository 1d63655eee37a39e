/** Rows of users, their sessions, passkeys, and tokens. */
import { and, eq, inArray, lt, ne, or, type SQL } from 'drizzle-orm'
import type { SessionWrite } from '../config-entry.ts'
import type { IdentityWrite } from '../identity-store.ts'
import { writeKeys } from './key-rows.ts'
import { adminPasskeys, adminSessions, admins, adminTokens } from './schema.ts'
import type { Transaction } from './tables.ts'

export function writeIdentity(tx: Transaction, write: IdentityWrite): void {
  writeKeys(tx, write)
  for (const row of write.admins ?? [])
    tx.insert(admins).values(row).onConflictDoUpdate({ target: admins.id, set: row }).run()
  for (const row of write.tokens ?? [])
    tx.insert(adminTokens).values(row).onConflictDoUpdate({ target: adminTokens.id, set: row }).run()
  for (const row of write.passkeys ?? [])
    tx.insert(adminPasskeys).values(row).onConflictDoUpdate({ target: adminPasskeys.id, set: row }).run()
  if (write.remove)
    tx.delete(adminPasskeys)
      .where(inArray(adminPasskeys.id, [...write.remove]))
      .run()
  const { ids = [], of = [], keep = '' } = write.end ?? {}
  if (ids.length > 0)
    tx.delete(adminSessions)
      .where(inArray(adminSessions.id, [...ids]))
      .run()
  if (of.length > 0)
    tx.delete(adminSessions)
      .where(and(inArray(adminSessions.adminId, [...of]), ne(adminSessions.id, keep)))
      .run()
  if (write.begin) tx.insert(adminSessions).values(write.begin).run()
}

export function writeSessions(tx: Transaction, { seen, forget }: SessionWrite): void {
  if (seen) tx.update(adminSessions).set({ seenMs: seen.seenMs }).where(eq(adminSessions.id, seen.id)).run()
  if (forget) tx.delete(adminSessions).where(areBefore(forget)).run()
}

export const areBefore = ({ createdMs, seenMs }: NonNullable<SessionWrite['forget']>): SQL | undefined =>
  or(lt(adminSessions.createdMs, createdMs), lt(adminSessions.seenMs, seenMs))
