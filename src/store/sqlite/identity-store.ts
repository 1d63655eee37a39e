/** The identity store in SQLite. */
import type { Database } from 'bun:sqlite'
import { and, asc, count, desc, eq, inArray, lt, ne, or } from 'drizzle-orm'
import type { IdentityRows, IdentityStore, IdentityWrite } from '../identity-store.ts'
import { change, type Transaction, toTables, untilFree } from './config-store.ts'
import { toKeyReader, writeKeys } from './key-rows.ts'
import { adminPasskeys, adminSessions, admins, adminTokens } from './schema.ts'

export function createIdentityStore(sqlite: Database): IdentityStore {
  const database = toTables(sqlite)
  const readKeys = toKeyReader(sqlite)
  const read = (tx: Transaction): IdentityRows => ({
    ...{ admins: readAdmins(tx), tokens: readTokens(tx) },
    passkeys: () => readPasskeys(tx),
    keyRows: () => readKeys(tx),
  })

  return {
    readAdmins: async () => readAdmins(database),
    readTokens: async () => readTokens(database),
    readPasskeys: async (adminId) => readPasskeys(database, adminId),
    async countPasskeys() {
      const { adminId } = adminPasskeys
      const counted = database.select({ adminId, passkeys: count() }).from(adminPasskeys).groupBy(adminId).all()
      return new Map(counted.map((row) => [row.adminId, row.passkeys]))
    },
    async findPasskey(credentialId) {
      const found = database
        .select({ passkey: adminPasskeys, admin: admins })
        .from(adminPasskeys)
        .innerJoin(admins, eq(admins.id, adminPasskeys.adminId))
        .where(eq(adminPasskeys.credentialId, credentialId))
        .get()
      return found ?? null
    },
    findToken: async (hash) => database.select().from(adminTokens).where(eq(adminTokens.hash, hash)).get() ?? null,
    async findSession(hash) {
      const found = database
        .select({ session: adminSessions, admin: admins })
        .from(adminSessions)
        .innerJoin(admins, eq(admins.id, adminSessions.adminId))
        .where(eq(adminSessions.hash, hash))
        .get()
      return found ?? null
    },
    readSessions: async (adminId) =>
      database
        .select()
        .from(adminSessions)
        .where(adminId === undefined ? undefined : eq(adminSessions.adminId, adminId))
        .orderBy(desc(adminSessions.seenMs), desc(adminSessions.id))
        .all(),
    sawSession: (id, seenMs) =>
      untilFree(() => void database.update(adminSessions).set({ seenMs }).where(eq(adminSessions.id, id)).run()),
    forgetSessions: ({ createdMs, seenMs }) =>
      untilFree(
        () =>
          void database
            .delete(adminSessions)
            .where(or(lt(adminSessions.createdMs, createdMs), lt(adminSessions.seenMs, seenMs)))
            .run(),
      ),
    changeIdentity: (by, decide) =>
      untilFree(() =>
        change(database, {
          ...{ by, read, decide, write: writeIdentity },
          isNews: ({ keys = [], teams = [] }) => keys.length + teams.length > 0,
        }),
      ),
  }
}

type Reader = Pick<Transaction, 'select'>

const readAdmins = (tx: Reader) => tx.select().from(admins).orderBy(asc(admins.createdMs), asc(admins.id)).all()

const readTokens = (tx: Reader) =>
  tx.select().from(adminTokens).orderBy(asc(adminTokens.createdMs), asc(adminTokens.id)).all()

const readPasskeys = (tx: Reader, adminId?: string) =>
  tx
    .select()
    .from(adminPasskeys)
    .where(adminId === undefined ? undefined : eq(adminPasskeys.adminId, adminId))
    .orderBy(asc(adminPasskeys.createdMs), asc(adminPasskeys.id))
    .all()

function writeIdentity(tx: Transaction, write: IdentityWrite): void {
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
