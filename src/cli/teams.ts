/** `tollgate teams create | list | show | edit`. Works beside a running server, which uses a change when the command returns. */
import { type TeamDocument, toTeamDocument } from '../documents/key.ts'
import { toShortId } from '../domain/id.ts'
import type { ListedKey } from '../keys/service.ts'
import { toFirstStanding } from '../keys/standing.ts'
import { createTeam, editTeam, listTeams, showTeam } from '../keys/teams.ts'
import type { StoredTeam } from '../store/config-store.ts'
import type { Store } from '../store/store.ts'
import { createStandings } from './budget.ts'
import { usageError } from './command-error.ts'
import {
  type Context,
  printJson,
  toDescribedTable,
  toFactLines,
  toPrintable,
  toShort,
  toTime,
  withStore,
} from './io.ts'
import { findUnmatchedAfter, findUnmatchedNow, toPatterns, warnOf } from './key-models.ts'
import { type Flags, toTeamChanges } from './key-options.ts'
import {
  type Fact,
  toBudgetCell,
  toBudgetWarning,
  toChangeLines,
  toRules,
  toSpentFacts,
  toSpentText,
  toTeamFacts,
} from './key-text.ts'
import { toName } from './values.ts'

/** Makes the documents of teams, as they stand now. @param id of the only one that will be asked for. */
async function createDocuments(opened: Store, io: Context, id?: string) {
  const standingOf = await createStandings(opened, 'team', io, id)
  return (team: StoredTeam) => toTeamDocument(team, standingOf(team))
}

export async function create(flags: Flags, io: Context): Promise<void> {
  const nowMs = io.nowMs()
  const name = toName(flags.name?.at(-1), 'say who the team is, such as --name research')
  const options = { ...toTeamChanges(flags, { canBeNone: false }, nowMs), name }
  const { made, unmatched } = await withStore(io, {}, async (store) => {
    const made = await createTeam(store, options, { actor: 'cli', nowMs })
    return { made, unmatched: await findUnmatchedNow(made, store, io) }
  })
  const team = toTeamDocument(made, toFirstStanding(made, nowMs))
  if (io.json) return printJson(io, { ...team, ...toPatterns(unmatched) })
  warnOf(unmatched, io)
  const advice = `Make keys of it with: tollgate keys create --name NAME --team ${toShortId(team.id)}`
  io.stdout(`${toTeamName(team)} is made. ${advice}\n`)
}

/** Such as `Team 3f2a91bc (Blue)`. */
const toTeamName = ({ id, name }: TeamDocument) => `Team ${toShortId(id)} (${toPrintable(name)})`

export async function list(io: Context): Promise<void> {
  const teams = await withStore(io, { readonly: true }, async (store, opened) => {
    const toDocument = await createDocuments(opened, io)
    return (await listTeams(store)).map(toDocument)
  })
  if (io.json) return printJson(io, { teams })
  if (teams.length === 0) return io.stderr('There are no teams yet. Make one with: tollgate teams create --name NAME\n')
  const rows = teams.map((team) => [
    toShortId(team.id),
    toShort(team.name),
    toBudgetCell(team),
    toTime(team.created_ms),
  ])
  const notes = teams.map((team) => [toRules(team), toSpentText(team)])
  io.stdout(toDescribedTable(['ID', 'NAME', 'BUDGET', 'CREATED'], rows, notes, io.paint))
  for (const team of teams) io.stderr(toBudgetWarning(`team ${toPrintable(team.name)}`, team))
}

export async function show(which: string, io: Context): Promise<void> {
  const nowMs = io.nowMs()
  await withStore(io, { readonly: true }, async (store, opened) => {
    const { team: found, keys } = await showTeam(store, which, nowMs)
    const team = (await createDocuments(opened, io, found.id))(found)
    if (!io.json) return io.stdout(toTeamText(team, keys))
    printJson(io, { ...team, keys: keys.map(({ id, name, status }) => ({ id, name, status })) })
  })
}

type Listed = Pick<ListedKey, 'id' | 'name' | 'status'>

/** All that is known of a team, a line each, its keys among it. */
function toTeamText(team: TeamDocument, keys: readonly Listed[]): string {
  const [living, ended] = [keys.filter(isActive), keys.filter((key) => !isActive(key))]
  const facts: Fact[] = [
    ['id', team.id],
    ...toTeamFacts(team).slice(1),
    ...toSpentFacts(team),
    ['keys', toNames(living)],
    ...(ended.length === 0 ? [] : [['ended keys', toNames(ended)] as const]),
    ['created', toTime(team.created_ms)],
  ]
  return toFactLines(toTeamName(team), facts)
}

const isActive = ({ status }: Listed) => status === 'active'

const toNames = (keys: readonly Listed[]) => keys.map(({ id, name }) => `${name} (${toShortId(id)})`).join(', ') || '-'

export async function edit(which: string, flags: Flags, io: Context): Promise<void> {
  const nowMs = io.nowMs()
  const changes = toTeamChanges(flags, { canBeNone: true }, nowMs)
  if (Object.keys(changes).length === 0) throw usageError('Say what to change, such as --rpm 600 or --budget none.')
  await withStore(io, {}, async (store, opened) => {
    const edited = await editTeam(store, which, changes, { actor: 'cli', nowMs })
    const changed = Object.keys(edited.difference?.after ?? {})
    const unmatched = await findUnmatchedAfter(changed, edited.team, store, io)
    const toDocument = await createDocuments(opened, io, edited.team.id)
    const [before, team] = [toDocument(edited.before), toDocument(edited.team)]
    if (io.json) return printJson(io, { ...team, changed, ...toPatterns(unmatched) })
    warnOf(unmatched, io)
    io.stdout(
      edited.difference === null
        ? `${toTeamName(team)} is like that already.\n`
        : toChangeLines(toTeamName(before), toTeamFacts(before), toTeamFacts(team)),
    )
  })
}
