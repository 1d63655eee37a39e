/** The identity store in SQLite. */
import type { Database } from 'bun:sqlite'
import { asc, count, desc, eq } from 'drizzle-orm'
import type { IdentityRows, IdentityStore } from '../identity-store.ts'
import { changerOf, toProposal } from './change.ts'
import { areBefore } from './identity-rows.ts'
import { toKeyReader } from './key-rows.ts'
import { adminPasskeys, adminSessions, admins, adminTokens } from './schema.ts'
import { type Transaction, toTables } from './tables.ts'

export function createIdentityStore(sqlite: Database): IdentityStore {
  const database = toTables(sqlite)
  const readKeys = toKeyReader(sqlite)
  const read = (tx: Transaction): IdentityRows => ({
    ...{ admins: readAdmins(tx), tokens: readTokens(tx) },
    passkeys: () => readPasskeys(tx),
    keyRows: () => readKeys(tx),
  })
  /** If not found, catches up first: another node may have just created the entry. */
  const here = async <T>(find: () => T | null): Promise<T | null> => {
    const found = find()
    if (found !== null) return found
    await changerOf(sqlite).log?.catchUp()
    return find()
  }

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
    findToken: (hash) =>
      here(() => database.select().from(adminTokens).where(eq(adminTokens.hash, hash)).get() ?? null),
    findSession: (hash) =>
      here(
        () =>
          database
            .select({ session: adminSessions, admin: admins })
            .from(adminSessions)
            .innerJoin(admins, eq(admins.id, adminSessions.adminId))
            .where(eq(adminSessions.hash, hash))
            .get() ?? null,
      ),
    readSessions: async (adminId) =>
      database
        .select()
        .from(adminSessions)
        .where(adminId === undefined ? undefined : eq(adminSessions.adminId, adminId))
        .orderBy(desc(adminSessions.seenMs), desc(adminSessions.id))
        .all(),
    sawSession(id, seenMs) {
      const changer = changerOf(sqlite)
      const propose = (tx: Transaction) => {
        const was = tx.select({ ms: adminSessions.seenMs }).from(adminSessions).where(eq(adminSessions.id, id)).get()
        const isNew = was !== undefined && (changer.log === null || Math.abs(seenMs - was.ms) >= SEEN_GRAIN_MS)
        return { value: undefined, write: isNew ? { seen: { id, seenMs } } : null }
      }
      return changer.change({ kind: 'sessions', by: { actor: 'server', nowMs: seenMs }, propose })
    },
    forgetSessions(before) {
      const propose = (tx: Transaction) => {
        const found = tx.select({ id: adminSessions.id }).from(adminSessions).where(areBefore(before)).limit(1).get()
        return { value: undefined, write: found ? { forget: before } : null }
      }
      const by = { actor: 'server', nowMs: before.seenMs }
      return changerOf(sqlite).change({ kind: 'sessions', by, propose })
    },
    changeIdentity: (by, decide) =>
      changerOf(sqlite).change({ kind: 'identity', by, propose: (tx) => toProposal(decide(read(tx))) }),
  }
}

/** Granularity of last use in a cluster, where each update is a change that all nodes apply. */
const SEEN_GRAIN_MS = 3_600_000

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
