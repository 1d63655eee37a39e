/**
 * Creates and lists teams: keys that share limits, a list of models and a budget. Called by their commands and later the
 * dashboard. Teams are never deleted: the ledger names them. Their names are unique, so that a command may go by them.
 */
import { mintId, toShortId } from '../domain/id.ts'
import { ServiceError } from '../domain/service-error.ts'
import { NO_LIMITS } from '../domain/settings.ts'
import type { Actor, ConfigStore, StoredTeam } from '../store/config-store.ts'
import { type CheckedOptions, checkOptions } from './rules.ts'

/** `models` are patterns over slugs; none = every model of the scope. Null is no limit, no budget. */
export interface TeamOptions extends CheckedOptions {
  name: string
  scope?: 'all' | 'local'
  /** How many keys each of its members may have. */
  maxKeys?: number | null
}

/** What a team has where nothing else is said. */
const DEFAULTS: Omit<StoredTeam, 'id' | 'name' | 'createdMs'> = {
  scope: 'all',
  models: [],
  limits: NO_LIMITS,
  budget: null,
  maxKeys: 10,
  metadata: {},
}

/** Creates a team. Throws `invalid` and `team_exists`. */
export function createTeam(store: ConfigStore, options: TeamOptions, by: Actor): Promise<StoredTeam> {
  return store.changeKeys(by, ({ teams }) => {
    checkOptions(options)
    const team = withOptions({ ...DEFAULTS, id: mintId(by.nowMs), name: options.name, createdMs: by.nowMs }, options)
    requireFreeName(teams, team)
    const record = { action: 'teams.create', subject: team.id, detail: { name: team.name } }
    return { value: team, change: { ...record, write: { teams: [team] } } }
  })
}

/** Lists every team, oldest first. */
export async function listTeams(store: ConfigStore): Promise<StoredTeam[]> {
  return (await store.readKeys()).teams
}

/** The team with what is given of the options; what is not stays. */
function withOptions(team: StoredTeam, given: Partial<TeamOptions>): StoredTeam {
  const { limits } = team
  return {
    ...team,
    name: given.name ?? team.name,
    scope: given.scope ?? team.scope,
    models: given.models === undefined ? team.models : [...new Set(given.models)],
    limits: {
      requestsPerMinute: or(given.requestsPerMinute, limits.requestsPerMinute),
      tokensPerMinute: or(given.tokensPerMinute, limits.tokensPerMinute),
      concurrency: or(given.concurrency, limits.concurrency),
    },
    budget: or(given.budget, team.budget),
    maxKeys: or(given.maxKeys, team.maxKeys),
  }
}

const or = <T>(given: T | undefined, before: T): T => (given === undefined ? before : given)

/** Throws `team_exists` where another team has the name. */
function requireFreeName(teams: readonly StoredTeam[], { id, name }: StoredTeam): void {
  const taken = teams.find((team) => team.name === name && team.id !== id)
  if (taken === undefined) return
  const message = `There is a team '${name}' already (${toShortId(taken.id)}).`
  throw new ServiceError({ kind: 'team_exists', team: name, id: taken.id }, message)
}
