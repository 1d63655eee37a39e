/** `tollgate teams` in words. `../teams.ts` does what they say. */
import type { Command } from 'commander'
import type { Context } from '../io.ts'
import { BUDGET } from '../key-options.ts'

export function addTeams(program: Command, context: Context): void {
  const teams = program.command('teams').description('make and list teams: keys that share a budget')
  teams
    .command('create')
    .description('make a team')
    .option('--name <name>', 'what it is called (required); no two have the same name')
    .option('--budget <usd>', `of all its keys together: ${BUDGET}`)
    .action(async (flags: { name?: string; budget?: string }) => (await import('../teams.ts')).create(flags, context))
  teams
    .command('list')
    .description('list all teams, oldest first')
    .action(async () => (await import('../teams.ts')).list(context))
}
