/**
 * The doors: the first owner's code, an invitation's or a reset's code, a password. Each opens a session, whose secret the caller
 * puts into a cookie; the session that was there before ends. Failures are counted (`attempts.ts`), and tell nobody what was wrong.
 */
import { mintId } from '../domain/id.ts'
import type { SignInMethod } from '../domain/roles.ts'
import { ServiceError } from '../domain/service-error.ts'
import { hashToken } from '../keys/token.ts'
import type { Actor } from '../store/config-store.ts'
import type { IdentityRows, IdentityStore, IdentityWrite, StoredAdmin, StoredSession } from '../store/identity-store.ts'
import { decideAdmin, isOwnerAt, toCreation, toSignInName } from './admins.ts'
import type { Attempts } from './attempts.ts'
import { hashCode, hashPassword, isPassword, requireGoodPassword, type SetupCode } from './passwords.ts'
import { mintSecret } from './pending.ts'
import { forgetOver } from './principal.ts'

export interface SignInDeps {
  store: IdentityStore
  attempts: Attempts
  setupCode: SetupCode
  /** How people sign in here. */
  ways: readonly SignInMethod[]
}

/** Where somebody is, and with what; and the session that the same browser had. */
export interface Client {
  address: string
  agent: string
  sessionId: string | null
}

export interface SignedIn {
  admin: StoredAdmin
  session: StoredSession
  /** For the cookie. */
  secret: string
}

export interface Credentials {
  name: string
  password: string
}

/** Whether somebody can sign in as an owner: before, the setup code makes the first. */
export const isSetUp = (admins: readonly StoredAdmin[], ways: readonly SignInMethod[]): boolean =>
  admins.some((admin) => isOwnerAt(ways, admin))

/** Throws `password_off` where nobody signs in with a password, nor then with a passkey, which stands in for one. */
export function requirePasswords(ways: readonly SignInMethod[]): void {
  if (ways.includes('password')) return
  const message =
    'Nobody signs in with a password or a passkey here: use the identity provider. Where that fails for good, whoever runs this server starts it with --password-sign-in on; a code of `tollgate admin reset` then lets in who has no password.'
  throw new ServiceError({ kind: 'password_off' }, message)
}

/** Makes the first owner. Throws `password_off`, `code_wrong`, `already_set_up`, `invalid` and `too_many_attempts`. */
export async function setUp(
  { store, attempts, setupCode, ways }: SignInDeps,
  { code, ...credentials }: Credentials & { code: string },
  client: Client,
  nowMs: number,
): Promise<SignedIn> {
  requirePasswords(ways)
  const name = toSignInName(credentials.name)
  requireGoodPassword(credentials.password, name)
  const by = { actor: 'setup', nowMs }
  const signedIn = await attempts.try({ address: client.address, nowMs, by: 'code' }, async () => {
    if (!setupCode.isRight(code, nowMs)) throw wrongCode()
    const passwordHash = await hashPassword(credentials.password)
    return store.changeIdentity(by, ({ admins, keyRows }) => {
      if (isSetUp(admins, ways))
        throw new ServiceError({ kind: 'already_set_up' }, 'There is an owner already: sign in.')
      const admin = { ...decideAdmin(admins, { name, role: 'owner' }, by, keyRows), passwordHash }
      const opened = open(admin, client, nowMs)
      const write = { admins: [admin], begin: opened.session, end: toEnded(client) }
      return { value: opened, change: { ...toCreation(admin), write } }
    })
  })
  setupCode.end()
  attempts.opened(client.address, name)
  return signedIn
}

/** Throws `password_off`, `sign_in_failed` and `too_many_attempts`. */
export async function signIn(deps: SignInDeps, typed: Credentials, client: Client, nowMs: number): Promise<SignedIn> {
  const { store, attempts } = deps
  requirePasswords(deps.ways)
  const name = toSignInName(typed.name)
  const found = (await store.readAdmins()).find((admin) => admin.name === name)
  const by = { password: name, isKnown: found !== undefined }
  const proved = await attempts.try({ address: client.address, nowMs, by }, async () => {
    const isRight = await isPassword(typed.password, found?.passwordHash ?? null)
    if (!isRight || found === undefined || found.disabledMs !== null) throw signInFailed()
    return found
  })
  return beginSession(store, proved, client, nowMs)
}

/** Sets the password that somebody's code is for, and signs them in. Throws `password_off`, `code_wrong`, `invalid` and `too_many_attempts`. */
export async function useCode(
  { store, attempts, ways }: SignInDeps,
  { code, password, ...typed }: Credentials & { code: string },
  client: Client,
  nowMs: number,
): Promise<SignedIn> {
  requirePasswords(ways)
  const name = toSignInName(typed.name)
  requireGoodPassword(password, name)
  const isTheirs = (admin: StoredAdmin) =>
    admin.name === name && admin.disabledMs === null && isInForce(admin, code, nowMs)
  const signedIn = await attempts.try({ address: client.address, nowMs, by: 'code' }, async () => {
    // A guess costs no hash, whoever it is of.
    const known = (await store.readAdmins()).find(isTheirs)
    if (known === undefined) throw wrongCode()
    const passwordHash = await hashPassword(password)
    return store.changeIdentity({ actor: known.id, nowMs }, ({ admins }) => {
      const found = admins.find(isTheirs)
      if (found === undefined) throw wrongCode()
      const admin = { ...found, passwordHash, codeHash: null, codeExpiresMs: null }
      const opened = open(admin, client, nowMs)
      const record = { action: 'admins.password' as const, subject: admin.id, detail: { name } }
      const write = { admins: [admin], begin: opened.session, end: { ...toEnded(client), of: [admin.id] } }
      return { value: opened, change: { ...record, write } }
    })
  })
  attempts.opened(client.address, name)
  return signedIn
}

/** What becomes of that by which somebody has come in, and what is on record of it. */
export interface Use {
  write: Pick<IdentityWrite, 'passkeys'>
  detail: Record<string, string>
}

/**
 * Opens a session for somebody who has proved who they are. Throws `sign_in_failed` where that has changed meanwhile.
 * @param toUse what they came in by, as it is by now; it may refuse.
 */
export async function beginSession(
  store: IdentityStore,
  proved: Pick<StoredAdmin, 'id' | 'passwordHash'>,
  client: Client,
  nowMs: number,
  toUse: (rows: IdentityRows) => Use = () => ({ write: {}, detail: {} }),
): Promise<SignedIn> {
  await forgetOver(store, nowMs)
  return store.changeIdentity({ actor: proved.id, nowMs }, (rows) => {
    const admin = rows.admins.find((one) => one.id === proved.id)
    // Disabled meanwhile, or given a code in place of the password: then no session of theirs is left.
    if (!admin || admin.disabledMs !== null || admin.passwordHash !== proved.passwordHash) throw signInFailed()
    const opened = open(admin, client, nowMs)
    const use = toUse(rows)
    const detail = { name: admin.name, address: client.address, agent: opened.session.agent, ...use.detail }
    const write = { ...use.write, begin: opened.session, end: toEnded(client) }
    return { value: opened, change: { action: 'sessions.begin', subject: admin.id, detail, write } }
  })
}

/** Changes one's own password; all other sessions end. Throws `sign_in_failed`, `invalid` and `too_many_attempts`. */
export async function changePassword(
  { store, attempts }: Pick<SignInDeps, 'store' | 'attempts'>,
  { session, old, password }: { session: StoredSession; old: string; password: string },
  address: string,
  by: Actor,
): Promise<void> {
  const found = (await store.readAdmins()).find(({ id }) => id === session.adminId)
  if (!found) throw signInFailed()
  requireGoodPassword(password, found.name)
  await attempts.try({ address, nowMs: by.nowMs, by: { password: found.name, isKnown: true } }, async () => {
    if (!(await isPassword(old, found.passwordHash))) throw signInFailed('The old password is wrong.')
  })
  const passwordHash = await hashPassword(password)
  await store.changeIdentity(by, ({ admins }) => {
    const admin = admins.find(({ id }) => id === found.id)
    // Another was set while this one was being checked.
    if (!admin || admin.passwordHash !== found.passwordHash) throw signInFailed('The password was changed meanwhile.')
    const record = { action: 'admins.password' as const, subject: admin.id, detail: { name: admin.name } }
    const write = { admins: [{ ...admin, passwordHash }], end: { of: [admin.id], keep: session.id } }
    return { value: null, change: { ...record, write } }
  })
}

/** The session that the browser had before, whoever's that was. */
const toEnded = ({ sessionId }: Client) => ({ ids: sessionId === null ? [] : [sessionId] })

function open(admin: StoredAdmin, { address, agent }: Client, nowMs: number): SignedIn {
  const secret = mintSecret()
  const begun = { id: mintId(nowMs), adminId: admin.id, createdMs: nowMs, seenMs: nowMs }
  return { admin, session: { ...begun, hash: hashToken(secret), address, agent: agent.slice(0, 200) }, secret }
}

const isInForce = ({ codeHash, codeExpiresMs }: StoredAdmin, code: string, nowMs: number) =>
  codeHash !== null && codeExpiresMs !== null && nowMs < codeExpiresMs && hashCode(code) === codeHash

const wrongCode = () =>
  new ServiceError({ kind: 'code_wrong' }, 'This code is wrong, was used already, or has ended: ask for a new one.')

const signInFailed = (message = 'The name or the password is wrong.') =>
  new ServiceError({ kind: 'sign_in_failed' }, message)
