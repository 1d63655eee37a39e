/** `tollgate keys`, `teams` and `admin` in words; the files of those names beside this folder do what they say. */
import { type Command, Option } from 'commander'
import { ROLES, TOKEN_SCOPES } from '../../domain/roles.ts'
import type { AdminFlags, TokenFlags } from '../admin.ts'
import type { Context } from '../io.ts'
import { addKeyOptions, addTeamOptions, type Flags } from '../key-fields.ts'

const WHICH_KEY = 'its name, six digits or more of its id, or the last four characters of the key itself'

export function addKeys(program: Command, context: Context): void {
  const keys = program.command('keys').description('make, show, change and revoke keys')
  addKeyOptions(keys.command('create'), { canBeNone: false })
    .description('make a key and print it, once; it needs a --name')
    .action(async (flags: Flags) => (await import('../keys.ts')).create(flags, context))
  keys
    .command('list')
    .description('list the keys that let somebody in, oldest first, with what each has spent, and its last use')
    .option('--all', 'revoked and expired ones, too')
    .action(async (flags: { all?: boolean }) => (await import('../keys.ts')).list(flags, context))
  keys
    .command('show')
    .description('show all that is known of a key')
    .argument('<key>', WHICH_KEY)
    .action(async (key: string) => (await import('../keys.ts')).show(key, context))
  addKeyOptions(keys.command('edit'), { canBeNone: true })
    .description(
      'change a key; what is not said stays, and so does what it has spent. `none` takes a limit away: --budget none',
    )
    .argument('<key>', WHICH_KEY)
    .action(async (key: string, flags: Flags) => (await import('../keys.ts')).edit(key, flags, context))
  keys
    .command('rotate')
    .description('give a key a new secret and print it, once; the one before works on for a while')
    .argument('<key>', WHICH_KEY)
    .option(
      '--overlap <time>',
      'how long both work, such as 7d; 0 ends the one before at once, as where it leaked (default 24h)',
    )
    .action(async (key: string, flags: { overlap?: string }) =>
      (await import('../keys.ts')).rotate(key, flags, context),
    )
  keys
    .command('revoke')
    .description('stop a key for good, with all of its secrets')
    .argument('<key>', WHICH_KEY)
    .action(async (key: string) => (await import('../keys.ts')).revoke(key, context))
}

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

const WHO = 'their name, or their whole id'

export function addAdmin(program: Command, context: Context): void {
  const admin = program.command('admin').description('who may sign in to the dashboard, and tokens for scripts')
  admin
    .command('code')
    .description(
      'show the code by which the first owner signs in: good for 15 minutes and one use. The server must run',
    )
    .action(async () => (await import('../admin.ts')).showCode(context))
  admin
    .command('list')
    .description('list all who may sign in, oldest first')
    .action(async () => (await import('../admin.ts')).list(context))
  admin
    .command('create')
    .description('let somebody sign in: prints a code that lets them set a password, within a week')
    .argument('<name>', 'what they sign in with, such as an address of mail')
    .addOption(new Option('--role <role>', 'what they may do').choices(ROLES).default('viewer'))
    .option('--team <team>', 'of a member: the team that keys of their own are of')
    .action(async (name: string, flags: AdminFlags) => (await import('../admin.ts')).create(name, flags, context))
  admin
    .command('edit')
    .description(
      'change what somebody may do, or disable them: then they are signed out, and keys of their own revoked',
    )
    .argument('<who>', WHO)
    .addOption(new Option('--role <role>', 'what they may do').choices(ROLES))
    .option('--team <team>', 'of a member: the team that keys of their own are of')
    .option('--disable', 'nobody signs in as them any more')
    .option('--enable', 'they may sign in again')
    .action(async (who: string, flags: AdminFlags) => (await import('../admin.ts')).edit(who, flags, context))
  admin
    .command('reset')
    .description('for whoever has lost the password: ends it, passkeys and sessions, and prints a code for a new one')
    .argument('<who>', WHO)
    .action(async (who: string) => (await import('../admin.ts')).reset(who, context))
  addTokens(admin, context)
}

function addTokens(admin: Command, context: Context): void {
  const token = admin.command('token').description('tokens with which scripts use the admin API')
  token
    .command('create')
    .description('make a token; it is shown once')
    .argument('<name>', 'what it is for')
    .addOption(
      new Option('--scope <scope>', 'read: as a viewer; write: as an editor').choices(TOKEN_SCOPES).default('read'),
    )
    .option('--expires <when>', 'when it ends: a time from now such as 90d, or a day (default: never)')
    .action(async (name: string, flags: TokenFlags) => (await import('../admin.ts')).createOne(name, flags, context))
  token
    .command('list')
    .description('list all tokens, oldest first')
    .action(async () => (await import('../admin.ts')).listTokens(context))
  token
    .command('revoke')
    .description('end a token now, for good')
    .argument('<token>', 'its name, or its whole id')
    .action(async (which: string) => (await import('../admin.ts')).revokeOne(which, context))
}
