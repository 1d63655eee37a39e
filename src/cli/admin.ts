/**
 * `tollgate admin`: who may sign in to the dashboard, and tokens for scripts. Codes and tokens are printed once, alone on their line,
 * and never logged.
 */

import { toAdminDocument, toAdminDocuments, toTokenDocument } from '../documents/people.ts'
import { toShortId } from '../domain/id.ts'
import type { Role, TokenScope } from '../domain/roles.ts'
import { toDay } from '../domain/time.ts'
import { type AdminChanges, editAdmin, inviteAdmin, resetAdmin, statusOf } from '../identity/admins.ts'
import { createToken, revokeToken } from '../identity/principal.ts'
import { listTeams } from '../keys/teams.ts'
import type { IdentityStore, StoredAdmin } from '../store/identity-store.ts'
import { usageError } from './command-error.ts'
import { type Context, printJson, toPrintable, toShort, toTable, toTime, withStore } from './io.ts'
import { askSetupCode } from './live.ts'
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

const withIdentity = <T>(io: Context, work: (store: IdentityStore) => Promise<T>) =>
  withStore(io, {}, (_, { identity }) => work(identity))

export async function showCode(io: Context): Promise<void> {
  const code = await askSetupCode(io.dataFolder)
  if (io.json) return printJson(io, { code })
  io.stderr('Open /admin/setup of the server in a browser and enter this code, within 15 minutes:\n')
  io.stdout(`${code}\n`)
}

export async function list(io: Context): Promise<void> {
  const { admins, passkeys, teams } = await withStore(io, { readonly: true }, async (store, { identity }) => {
    const names = new Map((await listTeams(store)).map(({ id, name }) => [id, name]))
    return { admins: await identity.readAdmins(), passkeys: await identity.countPasskeys(), teams: names }
  })
  if (io.json) return printJson(io, { admins: toAdminDocuments(admins, passkeys) })
  if (admins.length === 0) return io.stderr('Nobody may sign in yet. Make the first owner with: tollgate admin code\n')
  const rows = admins.map((admin) => [
    ...[toShortId(admin.id), toShort(admin.name), admin.role],
    toShort(admin.teamId === null ? '-' : (teams.get(admin.teamId) ?? '-')),
    ...[statusOf(admin), String(passkeys.get(admin.id) ?? '-'), toTime(admin.createdMs)],
  ])
  io.stdout(toTable(['ID', 'NAME', 'ROLE', 'TEAM', 'STATUS', 'PASSKEYS', 'CREATED'], rows, io.paint))
}

export async function create(name: string, { role = 'viewer', team }: AdminFlags, io: Context) {
  const by = { actor: 'cli', nowMs: io.nowMs() }
  const { admin, code } = await withIdentity(io, (store) => inviteAdmin(store, { name, role, team: team ?? null }, by))
  printCode(admin, code, `${toAdminName(admin)} may sign in`, io)
}

export async function edit(who: string, { role, team, disable, enable }: AdminFlags, io: Context): Promise<void> {
  if (disable && enable) throw usageError('--disable and --enable are the opposite of each other: give one of them.')
  const changes: AdminChanges = {
    ...(role === undefined ? {} : { role }),
    ...(team === undefined ? {} : { team }),
    ...(disable || enable ? { disabled: disable === true } : {}),
  }
  if (Object.keys(changes).length === 0) throw usageError('Say what to change, such as --role editor or --disable.')
  const by = { actor: 'cli', nowMs: io.nowMs() }
  const { admin, difference, revoked, moved, passkeys } = await withIdentity(io, async (store) => {
    const edited = await editAdmin(store, who, changes, by)
    return { ...edited, passkeys: (await store.countPasskeys()).get(edited.admin.id) ?? 0 }
  })
  if (io.json)
    return printJson(io, {
      ...toAdminDocument(admin, passkeys),
      changed: Object.keys(difference?.after ?? {}),
      keys_revoked: revoked.length,
      keys_moved: moved.length,
    })
  if (difference === null) return io.stdout(`${toAdminName(admin)} is like that already.\n`)
  io.stdout(`${toAdminName(admin)}: ${admin.role}, ${statusOf(admin)}.\n`)
  for (const [what, keys] of [
    ['revoked', revoked],
    ['moved to that team', moved],
  ] as const)
    if (keys.length > 0) io.stdout(`Keys ${what}: ${keys.map(({ name }) => toPrintable(name)).join(', ')}.\n`)
}

export async function reset(who: string, io: Context): Promise<void> {
  const by = { actor: 'cli', nowMs: io.nowMs() }
  const { admin, code } = await withIdentity(io, (store) => resetAdmin(store, who, by))
  printCode(
    admin,
    code,
    `${toAdminName(admin)} is signed out everywhere, and the old password and passkeys have ended`,
    io,
  )
}

function printCode(admin: StoredAdmin, code: string, what: string, io: Context): void {
  if (io.json) {
    // Whoever has a code has no passkeys: a reset removes them.
    printJson(io, { ...toAdminDocument(admin, 0), code, code_expires_ms: admin.codeExpiresMs })
    return
  }
  const until = admin.codeExpiresMs === null ? '' : ` until ${toTime(admin.codeExpiresMs)} UTC`
  io.stderr(`${what}. This code sets a password at /admin, once,${until}:\n`)
  io.stdout(`${code}\n`)
}

export async function createOne(name: string, { scope, expires }: TokenFlags, io: Context): Promise<void> {
  const nowMs = io.nowMs()
  const expiresMs = expires === undefined ? null : toExpiry(expires, nowMs)
  const { token, secret } = await withIdentity(io, (store) =>
    createToken(store, { name, scope, expiresMs }, { actor: 'cli', nowMs }),
  )
  if (io.json) return printJson(io, { ...toTokenDocument(token), token: secret })
  io.stderr(`Token ${toShortId(token.id)} (${toPrintable(name)}), to ${scope}. Keep it now; it is not shown again:\n`)
  io.stdout(`${secret}\n`)
}

export async function listTokens(io: Context): Promise<void> {
  const tokens = await withStore(io, { readonly: true }, (_, { identity }) => identity.readTokens())
  if (io.json) return printJson(io, { tokens: tokens.map(toTokenDocument) })
  if (tokens.length === 0)
    return io.stderr('There are no tokens yet. Make one with: tollgate admin token create NAME\n')
  const rows = tokens.map(({ id, name, scope, lastFour, createdMs, expiresMs, revokedMs }) => [
    ...[toShortId(id), toShort(name), `…${lastFour}`, scope, toTime(createdMs)],
    revokedMs !== null ? 'revoked' : expiresMs === null ? '-' : toDay(expiresMs),
  ])
  io.stdout(toTable(['ID', 'NAME', 'TOKEN', 'SCOPE', 'CREATED', 'UNTIL'], rows, io.paint))
}

export async function revokeOne(which: string, io: Context): Promise<void> {
  const by = { actor: 'cli', nowMs: io.nowMs() }
  const token = await withIdentity(io, (store) => revokeToken(store, which, by))
  if (io.json) return printJson(io, toTokenDocument(token))
  io.stdout(`Token ${toShortId(token.id)} (${toPrintable(token.name)}) is revoked.\n`)
}

/** Such as `ann (4f9a21c8)`. */
const toAdminName = ({ id, name }: StoredAdmin) => `${toPrintable(name)} (${toShortId(id)})`
