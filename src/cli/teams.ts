/** `tollgate teams create | list`. Works beside a running server, which takes a change within moments. */
import type { Command } from 'commander'
import { type BudgetStanding, toStanding } from '../keys/budget.ts'
import type { StoredTeam } from '../store/config-store.ts'
import { createStandings, toBudgetCell, toBudgetFields, toBudgetWarning } from './budget.ts'
import { type Io, printJson, sharedOptions, toDataFolder, withStore } from './io.ts'
import { toPrintable, toTable, toTime } from './text.ts'
import { toBudget, toName } from './values.ts'

interface CreateOptions {
  name?: string
  budget?: string
}

/** Adds the group to the program. */
export function addTeamsCommands(program: Command, io: Io): void {
  const teams = program.command('teams').description('make and list teams: keys that share a budget')
  teams
    .command('create')
    .description('make a team')
    .option('--name <name>', 'what it is called (required); no two have the same name')
    .option('--budget <usd>', 'of all its keys together: 20/month, 0.10/day, or 5 in total')
    .action((options: CreateOptions, command: Command) => create(options, command, io))
  teams
    .command('list')
    .description('list all teams, oldest first')
    .action((_options: unknown, command: Command) => list(command, io))
}

async function create(given: CreateOptions, command: Command, io: Io): Promise<void> {
  const nowMs = io.nowMs()
  const name = toName(given.name, 'say who the team is, such as --name research')
  const options = { name, ...(given.budget === undefined ? {} : { budget: toBudget(given.budget) }) }
  const { createTeam } = await import('../keys/service.ts')
  const team = await withStore(command, io, {}, (store) => createTeam(store, options, { actor: 'cli', nowMs }))
  // It has no keys yet that could have spent anything.
  const standing = toStanding(team.budget, () => 0, nowMs)
  if (sharedOptions(command).json) return printJson(io, toJson(team, standing))
  io.stdout(
    `Team ${team.id} (${toPrintable(name)}) is made. Make keys of it with: tollgate keys create --name NAME --team ${team.id}\n`,
  )
}

async function list(command: Command, io: Io): Promise<void> {
  const { listTeams } = await import('../keys/service.ts')
  const all = await withStore(command, io, { readonly: true }, async (store, sqlite) => {
    const standingOf = await createStandings(sqlite, 'team', toDataFolder(command, io), io)
    return (await listTeams(store)).map((team) => ({ team, standing: standingOf(team) }))
  })
  if (sharedOptions(command).json)
    return printJson(io, { teams: all.map(({ team, standing }) => toJson(team, standing)) })
  if (all.length === 0) return io.stderr('There are no teams yet. Make one with: tollgate teams create --name NAME\n')
  const rows = all.map(({ team, standing }) => [
    team.id,
    toPrintable(team.name),
    toBudgetCell(standing),
    toTime(team.createdMs),
  ])
  io.stdout(toTable(['ID', 'NAME', 'BUDGET', 'CREATED'], rows))
  for (const { team, standing } of all) {
    const warning = toBudgetWarning(`team ${toPrintable(team.name)}`, standing)
    if (warning) io.stderr(warning)
  }
}

/** A team under its columns' names. */
const toJson = (team: StoredTeam, standing: BudgetStanding | null) => ({
  id: team.id,
  name: team.name,
  ...toBudgetFields(standing),
  metadata: team.metadata,
  created_ms: team.createdMs,
})
