/**
 * Creates and lists teams: keys that share a budget. Called by the teams command, by `service.ts` for a key that names its
 * team, and later the dashboard. Names are unique, so that a command may name a team by either.
 */
import { mintId } from '../domain/id.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Budget } from '../domain/settings.ts'
import type { Actor, ConfigStore, StoredTeam } from '../store/config-store.ts'
import { checkOptions } from './rules.ts'

export interface TeamOptions {
  name: string
  budget?: Budget
  metadata?: Record<string, string>
}

/** Creates a team. Throws `invalid` and `team_exists`. */
export function createTeam(store: ConfigStore, options: TeamOptions, by: Actor): Promise<StoredTeam> {
  const { name, budget = null, metadata = {} } = options
  return store.changeKeys(by, ({ teams }) => {
    checkOptions(options)
    const taken = teams.find((team) => team.name === name)
    if (taken)
      throw new ServiceError(
        { kind: 'team_exists', team: name, id: taken.id },
        `There is a team '${name}' already (${taken.id}).`,
      )
    const team: StoredTeam = { id: mintId(by.nowMs), name, budget, metadata, createdMs: by.nowMs }
    const record = { action: 'teams.create', subject: team.id, detail: { name } }
    return { value: team, change: { ...record, write: { teams: [team] } } }
  })
}

/** Lists every team, oldest first. */
export async function listTeams(store: ConfigStore): Promise<StoredTeam[]> {
  return (await store.readKeys()).teams
}

/** The team of this id or name, of this id if both could be meant. Throws `team_not_found`. */
export function findTeam(teams: readonly StoredTeam[], idOrName: string): StoredTeam {
  const team = teams.find(({ id }) => id === idOrName) ?? teams.find(({ name }) => name === idOrName)
  if (team) return team
  throw new ServiceError({ kind: 'team_not_found', team: idOrName }, `There is no team '${idOrName}'.`)
}
