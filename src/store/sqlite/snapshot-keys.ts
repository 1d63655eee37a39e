/**
 * From rows of keys, their secrets and teams to what admits a request: keys by the hash of each secret, teams by id.
 * Called by `snapshot.ts`. Pure.
 */

import type { Budget, Period } from '../../domain/settings.ts'
import type { Key, Secret, Team } from '../../domain/snapshot.ts'
import type { keyModels, keySecrets, keys, teams } from './schema.ts'

/** Converts keys with their allow-lists, found by each of their secrets. */
export function toSecrets(
  keyRows: (typeof keys.$inferSelect)[],
  secretRows: (typeof keySecrets.$inferSelect)[],
  patternRows: (typeof keyModels.$inferSelect)[],
): Map<string, Secret> {
  const byId = new Map<string, Key>()
  for (const row of keyRows) {
    byId.set(row.id, {
      id: row.id,
      name: row.name,
      scope: row.scope,
      teamId: row.teamId,
      expiresMs: row.expiresMs,
      revokedMs: row.revokedMs,
      models: [],
      limits: {
        requestsPerMinute: row.requestsPerMinute,
        tokensPerMinute: row.tokensPerMinute,
        concurrency: row.concurrency,
      },
      budget: toBudget(row),
    })
  }
  for (const row of patternRows) byId.get(row.keyId)?.models.push(row.pattern)
  const secrets = new Map<string, Secret>()
  for (const row of secretRows) {
    const key = byId.get(row.keyId)
    if (key)
      secrets.set(row.hash, {
        key,
        lastFour: row.lastFour,
        expiresMs: row.expiresMs,
      })
  }
  return secrets
}

/** Converts teams, by id. */
export function toTeams(rows: (typeof teams.$inferSelect)[]): Map<string, Team> {
  return new Map(rows.map(({ id, name, ...row }) => [id, { id, name, budget: toBudget(row) }]))
}

/** Reads the budget of a key's or a team's row; null where it has none. */
export function toBudget(row: { budgetNanoUsd: number | null; budgetPeriod: Period | null }): Budget | null {
  return row.budgetNanoUsd === null ? null : { nanoUsd: row.budgetNanoUsd, period: row.budgetPeriod ?? 'total' }
}
