/** `tollgate admin` in words. `../admin.ts` does what they say. */
import { type Command, Option } from 'commander'
import { ROLES, TOKEN_SCOPES } from '../../domain/roles.ts'
import type { AdminFlags, TokenFlags } from '../admin.ts'
import type { Context } from '../io.ts'

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
