/**
 * Creates, finds and lists teams: keys that share a budget. Called by the teams command, by `service.ts` for a key that
 * names its team, and later the dashboard. Names are unique, so that a command may name a team by either.
 */
import { asc, eq, or } from 'drizzle-orm'
import { mintId } from '../domain/id.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Budget } from '../domain/settings.ts'
import type { Store } from '../store/sqlite/open.ts'
import { changeConfig } from '../store/sqlite/revision.ts'
import { teams } from '../store/sqlite/schema.ts'
import type { Actor } from './service.ts'

export interface TeamOptions {
  name: string
  budget?: Budget
  metadata?: Record<string, string>
}

export type Team = typeof teams.$inferSelect

/** Creates a team. Throws where there is one of that name already. */
export function createTeam(store: Store, options: TeamOptions, { actor, nowMs }: Actor): Team {
  const id = mintId(nowMs)
  const change = { actor, action: 'teams.create', subject: id, detail: { name: options.name }, nowMs }
  return changeConfig(store, change, (tx) => {
    const there = tx.select().from(teams).where(eq(teams.name, options.name)).get()
    if (there)
      throw new ServiceError(
        { kind: 'team_exists', team: options.name, id: there.id },
        `There is a team '${options.name}' already (${there.id}).`,
      )
    return tx
      .insert(teams)
      .values({
        id,
        name: options.name,
        budgetNanoUsd: options.budget?.nanoUsd ?? null,
        budgetPeriod: options.budget?.period ?? null,
        metadata: options.metadata ?? {},
        createdMs: nowMs,
      })
      .returning()
      .get()
  })
}

/** Lists every team, oldest first. */
export function listTeams(store: Pick<Store, 'select'>): Team[] {
  return store.select().from(teams).orderBy(asc(teams.createdMs), asc(teams.id)).all()
}

/** Finds a team by its id or its name, and by its id if both could be meant. Throws where there is none. */
export function findTeam(store: Pick<Store, 'select'>, idOrName: string): Team {
  const matches = store
    .select()
    .from(teams)
    .where(or(eq(teams.id, idOrName), eq(teams.name, idOrName)))
    .all()
  const found = matches.find(({ id }) => id === idOrName) ?? matches[0]
  if (found) return found
  throw new ServiceError({ kind: 'team_not_found', team: idOrName }, `There is no team '${idOrName}'.`)
}
