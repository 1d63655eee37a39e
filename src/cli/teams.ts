/** `tollgate teams create | list`. Works beside a running server, which takes a change within moments. */
import { toShortId } from '../domain/id.ts'
import { type BudgetStanding, NO_PAST, toStanding } from '../keys/budget.ts'
import { createTeam, listTeams } from '../keys/teams.ts'
import type { StoredTeam } from '../store/config-store.ts'
import { createStandings, toBudgetCell, toBudgetFields, toBudgetWarning } from './budget.ts'
import { type Context, printJson, toPrintable, toShort, toTable, toTime, withStore } from './io.ts'
import { ifGiven, toBudget, toName } from './values.ts'

export async function create(flags: { name?: string; budget?: string }, io: Context): Promise<void> {
  const nowMs = io.nowMs()
  const name = toName(flags.name, 'say who the team is, such as --name research')
  const options = { name, budget: ifGiven(flags.budget, toBudget) }
  const team = await withStore(io, {}, (store) => createTeam(store, options, { actor: 'cli', nowMs }))
  const standing = toStanding(team.budget, NO_PAST, nowMs)
  if (io.json) return printJson(io, toJson(team, standing))
  const id = toShortId(team.id)
  io.stdout(
    `Team ${id} (${toPrintable(name)}) is made. Make keys of it with: tollgate keys create --name NAME --team ${id}\n`,
  )
}

export async function list(io: Context): Promise<void> {
  const all = await withStore(io, { readonly: true }, async (store, sqlite) => {
    const standingOf = await createStandings(sqlite, 'team', io)
    return (await listTeams(store)).map((team) => ({ team, standing: standingOf(team) }))
  })
  if (io.json) return printJson(io, { teams: all.map(({ team, standing }) => toJson(team, standing)) })
  if (all.length === 0) return io.stderr('There are no teams yet. Make one with: tollgate teams create --name NAME\n')
  const rows = all.map(({ team: { id, name, createdMs }, standing }) => [
    toShortId(id),
    toShort(name),
    toBudgetCell(standing),
    toTime(createdMs),
  ])
  io.stdout(toTable(['ID', 'NAME', 'BUDGET', 'CREATED'], rows, io.paint))
  for (const { team, standing } of all) io.stderr(toBudgetWarning(`team ${toPrintable(team.name)}`, standing))
}

/** A team under its columns' names. */
const toJson = (team: StoredTeam, standing: BudgetStanding | null) => ({
  id: team.id,
  name: team.name,
  ...toBudgetFields(standing),
  metadata: team.metadata,
  created_ms: team.createdMs,
})
