/**
 * `tollgate admin`: dashboard users and admin API tokens. Codes and tokens are printed once, on their own line, never
 * logged.
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

const WHO = 'user name or full ID'
const NEVER_NONE = { canBeNone: false }
const [{ name: ADMIN_NAME, ...ADMIN_OPTIONS }, { name: TOKEN_NAME, ...TOKEN_OPTIONS }] = [ADMIN_FIELDS, TOKEN_FIELDS]

export function addAdmin(group: Command, context: Context): void {
  group
    .command('code')
    .description('print a one-time setup code for the first owner (valid 15 minutes; server must be running)')
    .addHelpText('after', toExamples('admin code', 'admin code --data /var/lib/tollgate'))
    .action(() => showCode(context))
  group
    .command('list')
    .description('list users, oldest first')
    .addHelpText('after', toExamples('admin list', 'admin list --json'))
    .action(() => list(context))
  addOptions(group.command('create'), ADMIN_OPTIONS, NEVER_NONE)
    .description('invite a user; prints a code valid for one week')
    .argument('<name>', ADMIN_NAME.option.help)
    .addHelpText(
      'after',
      toExamples('admin create ann@example.com --role editor', 'admin create bob --role member --team research'),
    )
    .action((name: string, flags: AnyFlags) => create(name, flags, context))
  addOptions(group.command('edit'), ADMIN_CHANGES, NEVER_NONE)
    .description("change a user's role or disable them (signs them out and revokes their keys)")
    .argument('<user>', WHO)
    .addHelpText('after', toExamples('admin edit ann@example.com --role owner', 'admin edit bob --disable'))
    .action((who: string, flags: AnyFlags) => edit(who, flags, context))
  group
    .command('reset')
    .description("reset a user's password, passkeys, and sessions; prints a new code")
    .argument('<user>', WHO)
    .addHelpText('after', toExamples('admin reset ann@example.com', 'admin reset bob --json'))
    .action((who: string) => reset(who, context))
  addTokens(group, context)
}

function addTokens(group: Command, context: Context): void {
  const token = group.command('token').description('manage admin API tokens')
  addOptions(token.command('create'), TOKEN_OPTIONS, NEVER_NONE)
    .description('create a token and print it once')
    .argument('<name>', TOKEN_NAME.option.help)
    .addHelpText(
      'after',
      toExamples('admin token create grafana', 'admin token create deploy --scope write --expires 90d'),
    )
    .action((name: string, flags: AnyFlags) => createOne(name, flags, context))
  token
    .command('list')
    .description('list tokens, oldest first')
    .addHelpText('after', toExamples('admin token list', 'admin token list --json'))
    .action(() => listTokens(context))
  token
    .command('revoke')
    .description('permanently revoke a token')
    .argument('<token>', 'token name or full ID')
    .addHelpText('after', toExamples('admin token revoke grafana', 'admin token revoke deploy --json'))
    .action((which: string) => revokeOne(which, context))
}

async function showCode(io: Context): Promise<void> {
  const { code, url } = await askSetupCode(io.dataFolder)
  if (io.json) return printJson(io, { code, url })
  if (url) io.stderr(`Open ${url} in a browser within 15 minutes, or enter this code at /admin/setup:\n`)
  else io.stderr('Open /admin/setup in a browser and enter this code within 15 minutes:\n')
  io.stdout(`${code}\n`)
}

async function list(io: Context): Promise<void> {
  const { admins, teams } = await withAdmin(io, { readonly: true }, async ({ api }) => ({
    ...(await answerOf(api.admins.get())),
    ...(io.json ? { teams: [] } : await answerOf(api.teams.get())),
  }))
  if (io.json) return printJson(io, { admins })
  if (admins.length === 0) return io.stderr('No users yet. Get a setup code for the first owner: tollgate admin code\n')
  const names = new Map(teams.map(({ id, name }) => [id, name]))
  const rows = admins.map((admin) => [
    ...[toShortId(admin.id), toShort(admin.name), admin.role],
    toShort(admin.team_id === null ? '-' : (names.get(admin.team_id) ?? '-')),
    ...[admin.status, String(admin.passkeys || '-'), toTime(admin.created_ms)],
  ])
  io.stdout(toTable(['ID', 'NAME', 'ROLE', 'TEAM', 'STATUS', 'PASSKEYS', 'CREATED (UTC)'], rows, io.paint))
}

const change = <T>(io: Context, work: (client: AdminClient) => Promise<T>) => withAdmin(io, {}, work)

async function create(name: string, flags: AnyFlags, io: Context): Promise<void> {
  const { role = 'viewer', ...said } = toTypedChanges(ADMIN_OPTIONS, flags, NEVER_NONE, io.nowMs())
  const made = await change(io, ({ api }) => answerOf(api.admins.post({ ...said, name, role })))
  printCode(made, `Created user ${toAdminName(made)}`, io)
}

async function edit(who: string, flags: AnyFlags, io: Context): Promise<void> {
  const changes = toTypedChanges(ADMIN_CHANGES, flags, NEVER_NONE, io.nowMs())
  if (Object.keys(changes).length === 0)
    throw usageError('Nothing to change. Pass an option, e.g. --role editor or --disable.')
  const edited = await change(io, ({ api }) => answerOf(api.admins(idOf(who)).patch(changes)))
  if (io.json) return printJson(io, edited)
  const { changed, role: is, status, keys_revoked: revoked, keys_moved: moved } = edited
  if (changed.length === 0) return io.stdout(`No changes to ${toAdminName(edited)}.\n`)
  io.stdout(`${toAdminName(edited)}: ${is}, ${status}.\n`)
  if (revoked > 0) io.stdout(`Revoked ${count(revoked, 'key')}.\n`)
  if (moved > 0) io.stdout(`Moved ${count(moved, 'key')} to the new team.\n`)
}

async function reset(who: string, io: Context): Promise<void> {
  const coded = await change(io, ({ operator }) => answerOf(operator.admins(idOf(who)).reset.post()))
  printCode(coded, `Reset ${toAdminName(coded)}: signed out everywhere, password and passkeys removed`, io)
}

function printCode(coded: CodedDocument, what: string, io: Context): void {
  if (io.json) {
    printJson(io, coded)
    return
  }
  const { code, code_expires_ms: expiresMs } = coded
  const until = expiresMs === null ? '' : `, valid until ${toTime(expiresMs)} UTC`
  io.stderr(`${what}. One-time code to set a password at /admin${until}:\n`)
  io.stdout(`${code}\n`)
}

async function createOne(name: string, flags: AnyFlags, io: Context): Promise<void> {
  const { scope = 'read', expiresMs = null } = toTypedChanges(TOKEN_OPTIONS, flags, NEVER_NONE, io.nowMs())
  const made = await change(io, ({ api }) => answerOf(api.tokens.post({ name, scope, expires_ms: expiresMs })))
  if (io.json) return printJson(io, made)
  io.stderr(`Created token ${toTokenName(made)} with scope ${scope}. Save it now; it won't be shown again:\n`)
  io.stdout(`${made.token}\n`)
}

async function listTokens(io: Context): Promise<void> {
  const { tokens } = await withAdmin(io, { readonly: true }, ({ api }) => answerOf(api.tokens.get()))
  if (io.json) return printJson(io, { tokens })
  if (tokens.length === 0) return io.stderr('No tokens yet. Create one: tollgate admin token create NAME\n')
  const rows = tokens.map(({ id, name, scope, token, created_ms, expires_ms, revoked_ms }) => [
    ...[toShortId(id), toShort(name), token.slice(token.indexOf('…')), scope, toTime(created_ms)],
    revoked_ms !== null ? 'revoked' : expires_ms === null ? '-' : toDay(expires_ms),
  ])
  io.stdout(toTable(['ID', 'NAME', 'TOKEN', 'SCOPE', 'CREATED (UTC)', 'EXPIRES'], rows, io.paint))
}

async function revokeOne(which: string, io: Context): Promise<void> {
  const { before, token } = await change(io, async ({ api }) => ({
    before: (await answerOf(api.tokens.get())).tokens,
    token: await answerOf(api.tokens(idOf(which)).revoke.post()),
  }))
  const isRevoked = before.some(({ id, revoked_ms: atMs }) => id === token.id && atMs !== null)
  if (io.json) return printJson(io, { ...token, already_revoked: isRevoked })
  io.stdout(isRevoked ? `Token ${toTokenName(token)} is already revoked.\n` : `Revoked token ${toTokenName(token)}.\n`)
}

/** Such as `ann (4f9a21c8)`. */
const toAdminName = ({ id, name }: Pick<AdminDocument, 'id' | 'name'>) => `${toPrintable(name)} (${toShortId(id)})`

/** Such as `4f9a21c8 (ci)`. */
const toTokenName = ({ id, name }: { id: string; name: string }) => `${toShortId(id)} (${toPrintable(name)})`
