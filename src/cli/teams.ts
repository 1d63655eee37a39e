/** `tollgate teams create | list | show | edit`. Works beside a running server, which uses a change when the command returns. */
import { toTeamDocument } from '../documents/key.ts'
import { toShortId } from '../domain/id.ts'
import { toFirstStanding } from '../keys/standing.ts'
import { createTeam, editTeam, listTeams, showTeam } from '../keys/teams.ts'
import { createStandings, toBudgetWarning } from './budget.ts'
import { usageError } from './command-error.ts'
import { type Context, printJson, toPrintable, withStore } from './io.ts'
import { findUnmatchedAfter, findUnmatchedNow, toPatterns, warnOf } from './key-models.ts'
import type { Flags } from './shared-options.ts'
import { toTeamChanges } from './team-options.ts'
import { toTeamChangeText, toTeamName, toTeamTable, toTeamText } from './team-text.ts'
import { toName } from './values.ts'

export async function create(flags: Flags, io: Context): Promise<void> {
  const nowMs = io.nowMs()
  const name = toName(flags.name?.at(-1), 'say who the team is, such as --name research')
  const options = { ...toTeamChanges(flags, { canBeNone: false }, nowMs), name }
  const { team, unmatched } = await withStore(io, {}, async (store) => {
    const made = await createTeam(store, options, { actor: 'cli', nowMs })
    return { team: made, unmatched: await findUnmatchedNow(made, store, io) }
  })
  if (io.json) return printJson(io, { ...toTeamDocument(team, toFirstStanding(team, nowMs)), ...toPatterns(unmatched) })
  warnOf(unmatched, io)
  const advice = `Make keys of it with: tollgate keys create --name NAME --team ${toShortId(team.id)}`
  io.stdout(`${toTeamName(team)} is made. ${advice}\n`)
}

export async function list(io: Context): Promise<void> {
  const all = await withStore(io, { readonly: true }, async (store, sqlite) => {
    const standingOf = await createStandings(sqlite, 'team', io)
    return (await listTeams(store)).map((team) => ({ team, standing: standingOf(team) }))
  })
  if (io.json) return printJson(io, { teams: all.map(({ team, standing }) => toTeamDocument(team, standing)) })
  if (all.length === 0) return io.stderr('There are no teams yet. Make one with: tollgate teams create --name NAME\n')
  io.stdout(toTeamTable(all, io.paint))
  for (const { team, standing } of all) io.stderr(toBudgetWarning(`team ${toPrintable(team.name)}`, standing))
}

export async function show(which: string, io: Context): Promise<void> {
  const nowMs = io.nowMs()
  await withStore(io, { readonly: true }, async (store, sqlite) => {
    const { team, keys } = await showTeam(store, which, nowMs)
    const standing = (await createStandings(sqlite, 'team', io, team.id))(team)
    if (!io.json) return io.stdout(toTeamText(team, keys, standing))
    printJson(io, {
      ...toTeamDocument(team, standing),
      keys: keys.map(({ id, name, status }) => ({ id, name, status })),
    })
  })
}

export async function edit(which: string, flags: Flags, io: Context): Promise<void> {
  const nowMs = io.nowMs()
  const changes = toTeamChanges(flags, { canBeNone: true }, nowMs)
  if (Object.keys(changes).length === 0) throw usageError('Say what to change, such as --rpm 600 or --budget none.')
  await withStore(io, {}, async (store, sqlite) => {
    const { before, team, difference } = await editTeam(store, which, changes, { actor: 'cli', nowMs })
    const changed = Object.keys(difference?.after ?? {})
    const unmatched = await findUnmatchedAfter(changed, team, store, io)
    if (io.json) {
      const standing = (await createStandings(sqlite, 'team', io, team.id))(team)
      return printJson(io, { ...toTeamDocument(team, standing), changed, ...toPatterns(unmatched) })
    }
    warnOf(unmatched, io)
    io.stdout(difference === null ? `${toTeamName(team)} is like that already.\n` : toTeamChangeText(before, team))
  })
}
