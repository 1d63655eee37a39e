/** `tollgate teams`. */

import type { Command } from 'commander'
import type { KeyDocument, TeamDocument } from '../documents/key.ts'
import { toShortId } from '../domain/id.ts'
import { toBody } from '../keys/changes.ts'
import { answerOf, idOf, readReport, withAdmin } from './admin-client.ts'
import { usageError } from './command-error.ts'
import {
  type Context,
  printJson,
  toDescribedTable,
  toExamples,
  toFactLines,
  toPrintable,
  toShort,
  toTime,
} from './io.ts'
import {
  addTeamOptions,
  type Fact,
  type Flags,
  printEdit,
  toBudgetCell,
  toBudgetWarning,
  toIfMatch,
  toRefusedFacts,
  toRules,
  toSpentFacts,
  toSpentText,
  toTeamChanges,
  toTeamFacts,
  warnOf,
} from './key-fields.ts'
import { toName } from './values.ts'

const WHICH_TEAM = 'team name, or 6+ digits of its ID'

export function addTeams(group: Command, context: Context): void {
  addTeamOptions(group.command('create'), { canBeNone: false })
    .description('create a team (requires --name); its limits apply on top of those of its keys')
    .addHelpText(
      'after',
      toExamples(
        'teams create --name research',
        "teams create --name research --budget 200/month --rpm 600 --model 'openai/*'",
      ),
    )
    .action((flags: Flags) => create(flags, context))
  group
    .command('list')
    .description('list teams with budget and spend')
    .addHelpText('after', toExamples('teams list', 'teams list --json'))
    .action(() => list(context))
  group
    .command('show')
    .description("show a team's settings, spend, and keys")
    .argument('<team>', WHICH_TEAM)
    .addHelpText('after', toExamples('teams show research', 'teams show 4f9a21c8 --json'))
    .action((team: string) => show(team, context))
  addTeamOptions(group.command('edit'), { canBeNone: true })
    .description('edit a team; omitted options and spend are unchanged. Use `none` to remove a limit')
    .argument('<team>', WHICH_TEAM)
    .addHelpText(
      'after',
      toExamples('teams edit research --budget 300/month --rpm none', 'teams edit 4f9a21c8 --name lab --scope local'),
    )
    .action((team: string, flags: Flags) => edit(team, flags, context))
}

export async function create(flags: Flags, io: Context): Promise<void> {
  const name = toName(flags.name?.at(-1), 'pass a name, e.g. --name research')
  const body = { ...toBody(toTeamChanges(flags, { canBeNone: false }, io.nowMs())), name }
  const team = await withAdmin(io, {}, ({ api }) => answerOf(api.teams.post(body)))
  if (io.json) return printJson(io, team)
  warnOf(team.warnings, io)
  const advice = `Add a key: tollgate keys create --name NAME --team ${toShortId(team.id)}`
  io.stdout(`Created team ${toNamed(team)}. ${advice}\n`)
}

/** Such as `3f2a91bc (Blue)`. */
const toNamed = ({ id, name }: TeamDocument) => `${toShortId(id)} (${toPrintable(name)})`

export async function list(io: Context): Promise<void> {
  const { teams } = await readReport(io, ({ api }) => answerOf(api.teams.get()))
  if (io.json) return printJson(io, { teams })
  if (teams.length === 0) return io.stderr('No teams yet. Create one: tollgate teams create --name NAME\n')
  const rows = teams.map((team) => [
    ...[toShortId(team.id), toShort(team.name)],
    ...[toBudgetCell(team), toTime(team.created_ms)],
  ])
  const notes = teams.map((team) => [toRules(team), toSpentText(team)])
  io.stdout(toDescribedTable(['ID', 'NAME', 'BUDGET', 'CREATED (UTC)'], rows, notes, io.paint))
  for (const team of teams) io.stderr(toBudgetWarning(`team ${toPrintable(team.name)}`, team))
}

export async function show(which: string, io: Context): Promise<void> {
  const { keys, ...team } = await readReport(io, ({ api }) => answerOf(api.teams(idOf(which)).get()))
  if (!io.json) return io.stdout(toTeamText(team, keys))
  printJson(io, { ...team, keys: keys.map(({ id, name, status }) => ({ id, name, status })) })
}

type Listed = Pick<KeyDocument, 'id' | 'name' | 'status'>

function toTeamText(team: TeamDocument, keys: readonly Listed[]): string {
  const [living, ended] = [keys.filter(isActive), keys.filter((key) => !isActive(key))]
  const facts: Fact[] = [
    ['ID', team.id],
    ...toTeamFacts(team).slice(1),
    ...toSpentFacts(team),
    ...toRefusedFacts(team),
    ['keys', toNames(living)],
    ...(ended.length === 0 ? [] : [['inactive keys', toNames(ended)] as const]),
    ['created', `${toTime(team.created_ms)} UTC`],
  ]
  return toFactLines(`Team ${toNamed(team)}`, facts)
}

const isActive = ({ status }: Listed) => status === 'active'

const toNames = (keys: readonly Listed[]) => keys.map(({ id, name }) => `${name} (${toShortId(id)})`).join(', ') || '-'

export async function edit(which: string, flags: Flags, io: Context): Promise<void> {
  const changes = toTeamChanges(flags, { canBeNone: true }, io.nowMs())
  if (Object.keys(changes).length === 0)
    throw usageError('Nothing to change. Pass an option, e.g. --rpm 600 or --budget none.')
  const { before, team } = await withAdmin(io, {}, async ({ api }) => {
    const before = io.json ? null : await answerOf(api.teams(idOf(which)).get())
    const id = before === null ? idOf(which) : { id: before.id }
    return { before, team: await answerOf(api.teams(id).patch(toBody(changes), toIfMatch(before))) }
  })
  printEdit<TeamDocument>(io, before, team, (one) => `team ${toNamed(one)}`, toTeamFacts)
}
