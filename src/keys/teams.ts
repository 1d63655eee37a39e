/**
 * Creates, shows, changes and lists teams: keys that share limits, a list of models and a budget. Called by commands and the admin
 * API. Teams are never deleted: the ledger names them. Their names are unique, so that a command may go by them.
 */
import { type Difference, requireRevision, toDifference } from '../domain/changes.ts'
import { mintId, toShortId } from '../domain/id.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Actor, KeyStore, StoredTeam } from '../store/config-store.ts'
import { NEW_TEAM, toTeamFields, withTeamChanges } from './changes.ts'
import type { TeamChanges } from './definition.ts'
import { findTeam } from './find.ts'
import { type ListedKey, toListed } from './service.ts'

export interface TeamOptions extends TeamChanges {
  name: string
}

/** Creates a team. Throws `invalid` and `team_exists`. */
export function createTeam(store: KeyStore, options: TeamOptions, by: Actor): Promise<StoredTeam> {
  return store.changeKeys(by, ({ teams }) => {
    const made = { ...NEW_TEAM, id: mintId(by.nowMs), name: options.name, createdMs: by.nowMs }
    const team = changed(made, options, teams)
    const detail = { name: team.name, ...toDifference({}, toTeamFields(team)) }
    return {
      value: team,
      change: { action: 'teams.create' as const, subject: team.id, detail, write: { teams: [team] } },
    }
  })
}

export interface EditedTeam {
  before: StoredTeam
  team: StoredTeam
  /** Null where the team was like that already: then nothing was written. */
  difference: Difference | null
}

/**
 * Changes the team that the text means (`find.ts`): its id, what it has spent and its rates of the last minute stay. Throws
 * `invalid`, `team_not_found`, `team_ambiguous`, `team_exists` and `revision_conflict`.
 */
export function editTeam(store: KeyStore, which: string, changes: TeamChanges, by: Actor): Promise<EditedTeam> {
  return store.changeKeys<EditedTeam>(by, ({ teams }) => {
    const before = findTeam(teams, which)
    requireRevision(by, `The team '${before.name}'`, toTeamFields(before), toTeamFields(before))
    const team = changed(before, changes, teams)
    const difference = toDifference(toTeamFields(before), toTeamFields(team))
    const record = { action: 'teams.edit' as const, subject: team.id, detail: { name: team.name, ...difference } }
    return {
      value: { before, team, difference },
      change: difference === null ? null : { ...record, write: { teams: [team] } },
    }
  })
}

export interface ShownTeam {
  team: StoredTeam
  /** All that there ever were and are of it now, oldest first. */
  keys: ListedKey[]
}

/** The team that the text means (`find.ts`), with its keys. Throws `team_not_found`. */
export async function showTeam(store: KeyStore, which: string, nowMs: number): Promise<ShownTeam> {
  const { keys, teams } = await store.readKeys()
  const team = findTeam(teams, which)
  return { team, keys: keys.filter(({ teamId }) => teamId === team.id).map((key) => toListed(key, teams, nowMs)) }
}

/** Lists every team, oldest first. */
export async function listTeams(store: KeyStore): Promise<StoredTeam[]> {
  return (await store.readKeys()).teams
}

/** What commands take for no team. */
const NO_TEAM = 'none'

/** The team as the changes make it. Throws `invalid`, and `team_exists` where another team has its name. */
function changed(before: StoredTeam, changes: TeamChanges, teams: readonly StoredTeam[]): StoredTeam {
  const team = withTeamChanges(before, changes)
  if (team.name === NO_TEAM && !teams.some(({ id, name }) => id === team.id && name === NO_TEAM)) {
    const message = `The field name is invalid: '${NO_TEAM}' is reserved for keys without a team. Choose another name.`
    throw new ServiceError({ kind: 'invalid', field: 'name' }, message)
  }
  const taken = teams.find(({ id, name }) => name === team.name && id !== team.id)
  if (taken === undefined) return team
  const message = `There is a team '${team.name}' already (${toShortId(taken.id)}).`
  throw new ServiceError({ kind: 'team_exists', team: team.name, id: taken.id }, message)
}
