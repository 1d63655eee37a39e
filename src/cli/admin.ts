/**
 * `tollgate admin`: who may sign in to the dashboard, and tokens for scripts. Codes and tokens are printed once, alone on their line,
 * and never logged.
 */

import type { AdminDocument, CodedDocument } from '../documents/people.ts'
import { toDefined } from '../domain/changes.ts'
import { toShortId } from '../domain/id.ts'
import type { Role, TokenScope } from '../domain/roles.ts'
import { count } from '../domain/text.ts'
import { toDay } from '../domain/time.ts'
import { type AdminClient, answerOf, withAdmin } from './admin-client.ts'
import { usageError } from './command-error.ts'
import { askSetupCode } from './control-client.ts'
import { type Context, printJson, toPrintable, toShort, toTable, toTime } from './io.ts'
import { toExpiry } from './values.ts'

export interface AdminFlags {
  role?: Role
  team?: string
  disable?: boolean
  enable?: boolean
}

export interface TokenFlags {
  scope: TokenScope
  expires?: string
}

export async function showCode(io: Context): Promise<void> {
  const code = await askSetupCode(io.dataFolder)
  if (io.json) return printJson(io, { code })
  io.stderr('Open /admin/setup of the server in a browser and enter this code, within 15 minutes:\n')
  io.stdout(`${code}\n`)
}

export async function list(io: Context): Promise<void> {
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

export async function create(name: string, { role = 'viewer', team }: AdminFlags, io: Context) {
  const made = await change(io, ({ api }) => answerOf(api.admins.post({ name, role, team: team ?? null })))
  printCode(made, `${toAdminName(made)} may sign in`, io)
}

export async function edit(who: string, { role, team, disable, enable }: AdminFlags, io: Context): Promise<void> {
  if (disable && enable) throw usageError('--disable and --enable are the opposite of each other: give one of them.')
  const changes = toDefined({ role, team, disabled: disable || enable ? disable === true : undefined })
  if (Object.keys(changes).length === 0) throw usageError('Say what to change, such as --role editor or --disable.')
  const edited = await change(io, ({ api }) => answerOf(api.admins({ id: encodeURIComponent(who) }).patch(changes)))
  if (io.json) return printJson(io, edited)
  const { changed, role: is, status, keys_revoked: revoked, keys_moved: moved } = edited
  if (changed.length === 0) return io.stdout(`${toAdminName(edited)} is like that already.\n`)
  io.stdout(`${toAdminName(edited)}: ${is}, ${status}.\n`)
  if (revoked > 0) io.stdout(`Revoked ${count(revoked, 'key')}.\n`)
  if (moved > 0) io.stdout(`Moved ${count(moved, 'key')} to that team.\n`)
}

export async function reset(who: string, io: Context): Promise<void> {
  const id = encodeURIComponent(who)
  const coded = await change(io, ({ operator }) => answerOf(operator.admins({ id }).reset.post()))
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

export async function createOne(name: string, { scope, expires }: TokenFlags, io: Context): Promise<void> {
  const expires_ms = expires === undefined ? null : toExpiry(expires, io.nowMs())
  const made = await change(io, ({ api }) => answerOf(api.tokens.post({ name, scope, expires_ms })))
  if (io.json) return printJson(io, made)
  io.stderr(`Token ${toTokenName(made)}, to ${scope}. Keep it now; it is not shown again:\n`)
  io.stdout(`${made.token}\n`)
}

export async function listTokens(io: Context): Promise<void> {
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

export async function revokeOne(which: string, io: Context): Promise<void> {
  const id = encodeURIComponent(which)
  const revoked = await change(io, ({ api }) => answerOf(api.tokens({ id }).revoke.post()))
  if (io.json) return printJson(io, revoked)
  io.stdout(`Token ${toTokenName(revoked)} is revoked.\n`)
}

/** Such as `ann (4f9a21c8)`. */
const toAdminName = ({ id, name }: Pick<AdminDocument, 'id' | 'name'>) => `${toPrintable(name)} (${toShortId(id)})`

/** Such as `4f9a21c8 (ci)`. */
const toTokenName = ({ id, name }: { id: string; name: string }) => `${toShortId(id)} (${toPrintable(name)})`
