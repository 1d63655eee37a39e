/** `tollgate teams` in words. `../teams.ts` does what they say. */
import type { Command } from 'commander'
import type { Context } from '../io.ts'
import { addTeamOptions, type Flags } from '../key-options.ts'

const WHICH_TEAM = 'its name, or six digits or more of its id'

export function addTeams(program: Command, context: Context): void {
  const teams = program.command('teams').description('make, show and change teams: keys that share limits and a budget')
  addTeamOptions(teams.command('create'), { canBeNone: false })
    .description('make a team; it needs a --name. A request passes the limits of its key and of its team')
    .action(async (flags: Flags) => (await import('../teams.ts')).create(flags, context))
  teams
    .command('list')
    .description('list all teams, oldest first, with what each has spent of its budget')
    .action(async () => (await import('../teams.ts')).list(context))
  teams
    .command('show')
    .description('show all that is known of a team, and its keys')
    .argument('<team>', WHICH_TEAM)
    .action(async (team: string) => (await import('../teams.ts')).show(team, context))
  addTeamOptions(teams.command('edit'), { canBeNone: true })
    .description(
      'change a team; what is not said stays, and so does what it has spent. `none` takes a limit away: --budget none',
    )
    .argument('<team>', WHICH_TEAM)
    .action(async (team: string, flags: Flags) => (await import('../teams.ts')).edit(team, flags, context))
}
