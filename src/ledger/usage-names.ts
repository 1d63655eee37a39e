/** Between what people call keys, teams and models, and what the ledger has of them: the filter of a report, and the names of its groups. Pure. */
import { findKey, findTeam, SYSTEM } from '../keys/find.ts'
import type { Configuration } from '../store/config-store.ts'
import type { Dimension, UsageCell, UsageFilter } from '../store/usage-store.ts'

/** A group: of its dimensions those that were asked for. Names are those of today; null where there is none, for a team or a user nobody's. */
export interface UsageGroup {
  key?: { id: string; name: string | null }
  team?: { id: string; name: string | null } | null
  model?: string
  upstream?: string
  endpoint?: string
  user?: string | null
  dayMs?: number
  hourMs?: number
}

/** What names are looked for in. */
export type Names = Pick<Configuration, 'keys' | 'teams' | 'aliases'>

/** Throws `key_not_found`, `key_ambiguous`, `team_not_found` and `team_ambiguous`. */
export function toIds(where: UsageFilter, { keys, teams, aliases }: Names, nowMs: number): UsageFilter {
  return {
    ...where,
    keys: (where.keys ?? []).map((text) => (text === SYSTEM ? SYSTEM : findKey(keys, text, nowMs).id)),
    teams: (where.teams ?? []).map((text) => findTeam(teams, text).id),
    models: (where.models ?? []).map((text) => aliases.find(({ alias }) => alias === text)?.model ?? text),
  }
}

/** From the values of a group to what is said of it. */
export function createNaming(by: readonly Dimension[], { keys, teams }: Names) {
  const namesOf = (rows: readonly { id: string; name: string }[]) => new Map(rows.map(({ id, name }) => [id, name]))
  const [keyNames, teamNames] = [namesOf(keys), namesOf(teams)]
  const named: Record<Dimension, (value: string | number) => UsageGroup> = {
    key: (id) => ({ key: { id: String(id), name: keyNames.get(String(id)) ?? null } }),
    team: (id) => ({ team: id === '' ? null : { id: String(id), name: teamNames.get(String(id)) ?? null } }),
    model: (model) => ({ model: String(model) }),
    upstream: (upstream) => ({ upstream: String(upstream) }),
    endpoint: (endpoint) => ({ endpoint: String(endpoint) }),
    user: (user) => ({ user: user === '' ? null : String(user) }),
    day: (ms) => ({ dayMs: Number(ms) }),
    hour: (ms) => ({ hourMs: Number(ms) }),
  }
  return (of: UsageCell['of']): UsageGroup =>
    Object.assign({}, ...by.map((dimension, i) => named[dimension](of[i] ?? '')))
}
