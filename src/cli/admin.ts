/**
 * `tollgate admin`: who may sign in to the dashboard, and tokens for scripts. Codes and tokens are printed once, alone on their line,
 * and never logged.
 */

import type { Command } from 'commander'
import type { AdminDocument, CodedDocument } from '../documents/people.ts'
import { toShortId } from '../domain/id.ts'
import { count } from '../domain/text.ts'
import { toDay } from '../domain/time.ts'
import { ADMIN_CHANGES, ADMIN_FIELDS, TOKEN_FIELDS } from '../identity/definition.ts'
import { type AdminClient, answerOf, idOf, withAdmin } from './admin-client.ts'
import { usageError } from './command-error.ts'
import { askSetupCode } from './control-client.ts'
import { type Context, printJson, toExamples, toPrintable, toShort, toTable, toTime } from './io.ts'
import { type AnyFlags, addOptions, toTypedChanges } from './key-fields.ts'

const WHO = 'their name, or their whole id'
const NEVER_NONE = { canBeNone: false }
/** What commands take as their argument, and the rest, as options. */
const [{ name: ADMIN_NAME, ...ADMIN_OPTIONS }, { name: TOKEN_NAME, ...TOKEN_OPTIONS }] = [ADMIN_FIELDS, TOKEN_FIELDS]

export function addAdmin(group: Command, context: Context): void {
  group
    .command('code')
    .description(
      'show the code by which the first owner signs in: good for 15 minutes and one use. The server must run',
    )
    .addHelpText('after', toExamples('admin code', 'admin code --data /var/lib/tollgate'))
    .action(() => showCode(context))
  group
    .command('list')
    .description('list all who may sign in, oldest first')
    .addHelpText('after', toExamples('admin list', 'admin list --json'))
    .action(() => list(context))
  addOptions(group.command('create'), ADMIN_OPTIONS, NEVER_NONE)
    .description('let somebody sign in: prints a code that lets them set a password, within a week')
    .argument('<name>', ADMIN_NAME.option.help)
    .addHelpText(
      'after',
      toExamples('admin create ann@example.com --role editor', 'admin create bob --role member --team research'),
    )
    .action((name: string, flags: AnyFlags) => create(name, flags, context))
  addOptions(group.command('edit'), ADMIN_CHANGES, NEVER_NONE)
    .description(
      'change what somebody may do, or disable them: then they are signed out, and keys of their own revoked',
    )
    .argument('<who>', WHO)
    .addHelpText('after', toExamples('admin edit ann@example.com --role owner', 'admin edit bob --disable'))
    .action((who: string, flags: AnyFlags) => edit(who, flags, context))
  group
    .command('reset')
    .description('for whoever has lost the password: ends it, passkeys and sessions, and prints a code for a new one')
    .argument('<who>', WHO)
    .addHelpText('after', toExamples('admin reset ann@example.com', 'admin reset bob --json'))
    .action((who: string) => reset(who, context))
  addTokens(group, context)
}

function addTokens(group: Command, context: Context): void {
  const token = group.command('token').description('tokens with which scripts use the admin API')
  addOptions(token.command('create'), TOKEN_OPTIONS, NEVER_NONE)
    .description('make a token; it is shown once')
    .argument('<name>', TOKEN_NAME.option.help)
    .addHelpText(
      'after',
      toExamples('admin token create grafana', 'admin token create deploy --scope write --expires 90d'),
    )
    .action((name: string, flags: AnyFlags) => createOne(name, flags, context))
  token
    .command('list')
    .description('list all tokens, oldest first')
    .addHelpText('after', toExamples('admin token list', 'admin token list --json'))
    .action(() => listTokens(context))
  token
    .command('revoke')
    .description('end a token now, for good')
    .argument('<token>', 'its name, or its whole id')
    .addHelpText('after', toExamples('admin token revoke grafana', 'admin token revoke deploy --json'))
    .action((which: string) => revokeOne(which, context))
}

async function showCode(io: Context): Promise<void> {
  const code = await askSetupCode(io.dataFolder)
  if (io.json) return printJson(io, { code })
  io.stderr('Open /admin/setup of the server in a browser and enter this code, within 15 minutes:\n')
  io.stdout(`${code}\n`)
}

async function list(io: Context): Promise<void> {
  const { admins, teams } = await withAdmin(io, { readonly: true }, async ({ api }) => ({
    ...(await answerOf(api.admins.get())),
    ...(io.json ? { teams: [] } : await answerOf(api.teams.get())),
  }))
  if (io.json) return printJson(io, { admins })
  if (admins.length === 0) return io.stderr('Nobody may sign in yet. Make the first owner with: tollgate admin code\n')
  const names = new Map(teams.map(({ id, name }) => [id, name]))
  const rows = admins.map((admin) => [
    ...[toShortId(admin.id), toShort(admin.name), admin.role],
    toShort(admin.team_id === null ? '-' : (names.get(admin.team_id) ?? '-')),
    ...[admin.status, String(admin.passkeys || '-'), toTime(admin.created_ms)],
  ])
  io.stdout(toTable(['ID', 'NAME', 'ROLE', 'TEAM', 'STATUS', 'PASSKEYS', 'CREATED'], rows, io.paint))
}

const change = <T>(io: Context, work: (client: AdminClient) => Promise<T>) => withAdmin(io, {}, work)

async function create(name: string, flags: AnyFlags, io: Context): Promise<void> {
  const { role = 'viewer', ...said } = toTypedChanges(ADMIN_OPTIONS, flags, NEVER_NONE, io.nowMs())
  const made = await change(io, ({ api }) => answerOf(api.admins.post({ ...said, name, role })))
  printCode(made, `${toAdminName(made)} may sign in`, io)
}

async function edit(who: string, flags: AnyFlags, io: Context): Promise<void> {
  const changes = toTypedChanges(ADMIN_CHANGES, flags, NEVER_NONE, io.nowMs())
  if (Object.keys(changes).length === 0) throw usageError('Say what to change, such as --role editor or --disable.')
  const edited = await change(io, ({ api }) => answerOf(api.admins(idOf(who)).patch(changes)))
  if (io.json) return printJson(io, edited)
  const { changed, role: is, status, keys_revoked: revoked, keys_moved: moved } = edited
  if (changed.length === 0) return io.stdout(`${toAdminName(edited)} is like that already.\n`)
  io.stdout(`${toAdminName(edited)}: ${is}, ${status}.\n`)
  if (revoked > 0) io.stdout(`Revoked ${count(revoked, 'key')}.\n`)
  if (moved > 0) io.stdout(`Moved ${count(moved, 'key')} to that team.\n`)
}

async function reset(who: string, io: Context): Promise<void> {
  const coded = await change(io, ({ operator }) => answerOf(operator.admins(idOf(who)).reset.post()))
  printCode(coded, `${toAdminName(coded)} is signed out everywhere, and the old password and passkeys have ended`, io)
}

function printCode(coded: CodedDocument, what: string, io: Context): void {
  if (io.json) {
    printJson(io, coded)
    return
  }
  const { code, code_expires_ms: expiresMs } = coded
  const until = expiresMs === null ? '' : ` until ${toTime(expiresMs)} UTC`
  io.stderr(`${what}. This code sets a password at /admin, once,${until}:\n`)
  io.stdout(`${code}\n`)
}

async function createOne(name: string, flags: AnyFlags, io: Context): Promise<void> {
  const { scope = 'read', expiresMs = null } = toTypedChanges(TOKEN_OPTIONS, flags, NEVER_NONE, io.nowMs())
  const made = await change(io, ({ api }) => answerOf(api.tokens.post({ name, scope, expires_ms: expiresMs })))
  if (io.json) return printJson(io, made)
  io.stderr(`Token ${toTokenName(made)}, to ${scope}. Keep it now; it is not shown again:\n`)
  io.stdout(`${made.token}\n`)
}

async function listTokens(io: Context): Promise<void> {
  const { tokens } = await withAdmin(io, { readonly: true }, ({ api }) => answerOf(api.tokens.get()))
  if (io.json) return printJson(io, { tokens })
  if (tokens.length === 0)
    return io.stderr('There are no tokens yet. Make one with: tollgate admin token create NAME\n')
  const rows = tokens.map(({ id, name, scope, token, created_ms, expires_ms, revoked_ms }) => [
    ...[toShortId(id), toShort(name), token.slice(token.indexOf('…')), scope, toTime(created_ms)],
    revoked_ms !== null ? 'revoked' : expires_ms === null ? '-' : toDay(expires_ms),
  ])
  io.stdout(toTable(['ID', 'NAME', 'TOKEN', 'SCOPE', 'CREATED', 'UNTIL'], rows, io.paint))
}

async function revokeOne(which: string, io: Context): Promise<void> {
  const revoked = await change(io, ({ api }) => answerOf(api.tokens(idOf(which)).revoke.post()))
  if (io.json) return printJson(io, revoked)
  io.stdout(`Token ${toTokenName(revoked)} is revoked.\n`)
}

/** Such as `ann (4f9a21c8)`. */
const toAdminName = ({ id, name }: Pick<AdminDocument, 'id' | 'name'>) => `${toPrintable(name)} (${toShortId(id)})`

/** Such as `4f9a21c8 (ci)`. */
const toTokenName = ({ id, name }: { id: string; name: string }) => `${toShortId(id)} (${toPrintable(name)})`
