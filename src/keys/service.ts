/**
 * Creates, revokes and lists keys. Called by the keys command, `serve` (for the first key) and later the dashboard.
 * Keys are revoked and never deleted: the ledger names them. A secret leaves this file once, from `createKey`.
 */
import { asc, eq } from 'drizzle-orm'
import { mintId } from '../domain/id.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Budget } from '../domain/settings.ts'
import type { Store } from '../store/sqlite/open.ts'
import { changeConfig } from '../store/sqlite/revision.ts'
import { keyModels, keySecrets, keys } from '../store/sqlite/schema.ts'
import { findTeam, listTeams } from './teams.ts'
import { hashToken, mintToken, toMasked } from './token.ts'

export interface KeyOptions {
  name: string
  /** Allow-list patterns over slugs; none = every model of the scope. */
  models?: string[]
  scope?: 'all' | 'local'
  /** A team's id or name. */
  team?: string
  expiresMs?: number
  requestsPerMinute?: number
  tokensPerMinute?: number
  concurrency?: number
  budget?: Budget
  metadata?: Record<string, string>
}

/** A key as it is listed: the columns of its row, its team's name, its patterns and what is shown of its secret. */
export type ListedKey = typeof keys.$inferSelect & {
  team: string | null
  models: string[]
  /** Last four characters of each of its secrets, newest last. */
  lastFours: string[]
  status: 'active' | 'revoked' | 'expired'
}

export interface Actor {
  /** For the audit row: `cli`, `server`, or an administrator's id. */
  actor: string
  nowMs: number
}

/** Creates a key and returns it with its secret, which nobody can ever show again. Throws for an unknown team. */
export function createKey(
  store: Store,
  options: KeyOptions,
  { actor, nowMs }: Actor,
): { key: ListedKey; secret: string } {
  const id = mintId(nowMs)
  const secret = mintToken()
  const lastFour = secret.slice(-4)
  const models = [...new Set(options.models ?? [])]
  const detail = { name: options.name, key: toMasked(lastFour) }
  return changeConfig(store, { actor, action: 'keys.create', subject: id, detail, nowMs }, (tx) => {
    const team = options.team === undefined ? null : findTeam(tx, options.team)
    const row = tx
      .insert(keys)
      .values({
        id,
        name: options.name,
        scope: options.scope ?? 'all',
        teamId: team?.id ?? null,
        expiresMs: options.expiresMs ?? null,
        requestsPerMinute: options.requestsPerMinute ?? null,
        tokensPerMinute: options.tokensPerMinute ?? null,
        concurrency: options.concurrency ?? null,
        budgetNanoUsd: options.budget?.nanoUsd ?? null,
        budgetPeriod: options.budget?.period ?? null,
        metadata: options.metadata ?? {},
        createdMs: nowMs,
      })
      .returning()
      .get()
    tx.insert(keySecrets)
      .values({ hash: hashToken(secret), keyId: id, lastFour, createdMs: nowMs })
      .run()
    for (const pattern of models) tx.insert(keyModels).values({ keyId: id, pattern }).run()
    const key = { ...row, team: team?.name ?? null, models, lastFours: [lastFour], status: toStatus(row, nowMs) }
    return { key, secret }
  })
}

/** Lists every key there ever was, oldest first. */
export function listKeys(store: Pick<Store, 'select'>, nowMs: number): ListedKey[] {
  const patterns = Map.groupBy(store.select().from(keyModels).all(), (row) => row.keyId)
  const secrets = Map.groupBy(
    store.select().from(keySecrets).orderBy(asc(keySecrets.createdMs)).all(),
    (row) => row.keyId,
  )
  const teamNames = new Map(listTeams(store).map(({ id, name }) => [id, name]))
  return store
    .select()
    .from(keys)
    .orderBy(asc(keys.createdMs), asc(keys.id))
    .all()
    .map((row) => ({
      ...row,
      team: row.teamId === null ? null : (teamNames.get(row.teamId) ?? null),
      models: (patterns.get(row.id) ?? []).map(({ pattern }) => pattern),
      lastFours: (secrets.get(row.id) ?? []).map(({ lastFour }) => lastFour),
      status: toStatus(row, nowMs),
    }))
}

/**
 * Revokes a key by its id or by what is shown of it (`sk-tg-…abcd`, or its last four). Revoking twice is no error.
 * Throws where no key, or more than one, is meant.
 */
export function revokeKey(
  store: Store,
  name: string,
  { actor, nowMs }: Actor,
): { key: ListedKey; alreadyRevoked: boolean } {
  const found = findKey(listKeys(store, nowMs), name)
  if (found.revokedMs !== null) return { key: found, alreadyRevoked: true }
  const change = { actor, action: 'keys.revoke', subject: found.id, detail: { name: found.name }, nowMs }
  changeConfig(store, change, (tx) => tx.update(keys).set({ revokedMs: nowMs }).where(eq(keys.id, found.id)).run())
  return { key: { ...found, revokedMs: nowMs, status: 'revoked' }, alreadyRevoked: false }
}

function toStatus(row: { revokedMs: number | null; expiresMs: number | null }, nowMs: number): ListedKey['status'] {
  if (row.revokedMs !== null) return 'revoked'
  return row.expiresMs !== null && row.expiresMs <= nowMs ? 'expired' : 'active'
}

function findKey(all: ListedKey[], name: string): ListedKey {
  const byId = all.find((key) => key.id === name.toLowerCase())
  if (byId) return byId
  const lastFour = /^(?:sk-tg-(?:…|\.\.\.)?)?([A-Za-z0-9]{4})$/.exec(name)?.[1]
  const matches = all.filter((key) => lastFour !== undefined && key.lastFours.includes(lastFour))
  const [only] = matches
  if (matches.length === 1 && only) return only
  if (lastFour !== undefined && matches.length > 1)
    throw new ServiceError({ kind: 'key_ambiguous', lastFour }, `More than one key ends in ${lastFour}.`)
  throw new ServiceError({ kind: 'key_not_found', key: shown(name) }, `There is no key '${shown(name)}'.`)
}

/** Somebody may have pasted the secret itself. */
const shown = (name: string) => (name.startsWith('sk-tg-') ? toMasked(name.slice(-4)) : name.slice(0, 64))
