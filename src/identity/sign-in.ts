/**
 * Sign-in by setup code, invitation or reset code, or password. Each opens a session, whose secret the caller sets as a cookie; the browser's previous session
 * ends. Failures are counted (`attempts.ts`), and don't reveal what was wrong.
 */
import { mintId } from '../domain/id.ts'
import type { SignInMethod } from '../domain/roles.ts'
import { ServiceError } from '../domain/service-error.ts'
import { hashToken } from '../keys/token.ts'
import type { Actor } from '../store/config-store.ts'
import type { IdentityRows, IdentityStore, IdentityWrite, StoredAdmin, StoredSession } from '../store/identity-store.ts'
import { decideAdmin, isOwnerAt, toCreation, toSignInName } from './admins.ts'
import type { Attempts } from './attempts.ts'
import { hashCode, hashPassword, isPassword, requireGoodPassword, requireTyped, type SetupCode } from './passwords.ts'
import { mintSecret } from './pending.ts'
import { forgetOver } from './principal.ts'

export interface SignInDeps {
  store: IdentityStore
  attempts: Attempts
  setupCode: SetupCode
  ways: readonly SignInMethod[]
}

/** The client, and the session its browser had. */
export interface Client {
  address: string
  agent: string
  sessionId: string | null
}

export interface SignedIn {
  admin: StoredAdmin
  session: StoredSession
  secret: string
}

export interface Credentials {
  name: string
  password: string
}

/** True if an owner can sign in; before that, the setup code creates the first. */
export const isSetUp = (admins: readonly StoredAdmin[], ways: readonly SignInMethod[]): boolean =>
  admins.some((admin) => isOwnerAt(ways, admin))

/** Throws `password_off` if password sign-in is disabled, which includes passkeys. */
export function requirePasswords(ways: readonly SignInMethod[]): void {
  if (ways.includes('password')) return
  const message =
    'Password and passkey sign-in is disabled: use the identity provider. If it fails permanently, restart the server with --password-sign-in on; users without a password get a code from `tollgate admin reset`.'
  throw new ServiceError({ kind: 'password_off' }, message)
}

/** Creates the first owner. Throws `password_off`, `code_wrong`, `already_set_up`, `invalid`, and `too_many_attempts`. */
export async function setUp(
  { store, attempts, setupCode, ways }: SignInDeps,
  { code, ...credentials }: Credentials & { code: string },
  client: Client,
  nowMs: number,
): Promise<SignedIn> {
  requirePasswords(ways)
  const name = toSignInName(credentials.name)
  requireTyped({ code, name, password: credentials.password })
  requireGoodPassword(credentials.password, name)
  const by = { actor: 'setup', nowMs }
  const signedIn = await attempts.try({ address: client.address, nowMs, by: 'code' }, async () => {
    if (!(await setupCode.isRight(code, nowMs))) throw wrongCode()
    const passwordHash = await hashPassword(credentials.password)
    return store.changeIdentity(by, ({ admins, keyRows }) => {
      if (isSetUp(admins, ways))
        throw new ServiceError({ kind: 'already_set_up' }, 'There is an owner already. Sign in.')
      const admin = { ...decideAdmin(admins, { name, role: 'owner' }, by, keyRows), passwordHash }
      const opened = open(admin, client, nowMs)
      const write = { admins: [admin], begin: opened.session, end: toEnded(client) }
      return { value: opened, change: { ...toCreation(admin), write } }
    })
  })
  await setupCode.end()
  await attempts.opened(client.address, name)
  return signedIn
}

/** Throws `password_off`, `sign_in_failed`, and `too_many_attempts`. */
export async function signIn(deps: SignInDeps, typed: Credentials, client: Client, nowMs: number): Promise<SignedIn> {
  const { store, attempts } = deps
  requirePasswords(deps.ways)
  const name = toSignInName(typed.name)
  requireTyped({ name, password: typed.password })
  const found = (await store.readAdmins()).find((admin) => admin.name === name)
  const by = { password: name, isKnown: found !== undefined }
  const proved = await attempts.try({ address: client.address, nowMs, by }, async () => {
    const isRight = await isPassword(typed.password, found?.passwordHash ?? null)
    if (!isRight || found === undefined || found.disabledMs !== null) throw signInFailed()
    return found
  })
  return beginSession(store, proved, client, nowMs)
}

/** Sets a password by code and signs in. Throws `password_off`, `code_wrong`, `invalid`, and `too_many_attempts`. */
export async function useCode(
  { store, attempts, ways }: SignInDeps,
  { code, password, ...typed }: Credentials & { code: string },
  client: Client,
  nowMs: number,
): Promise<SignedIn> {
  requirePasswords(ways)
  const name = toSignInName(typed.name)
  requireTyped({ name, code, password })
  requireGoodPassword(password, name)
  const isTheirs = (admin: StoredAdmin) =>
    admin.name === name && admin.disabledMs === null && isInForce(admin, code, nowMs)
  const signedIn = await attempts.try({ address: client.address, nowMs, by: 'code' }, async () => {
    // Checked first, so that guesses cost no hash.
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
  await attempts.opened(client.address, name)
  return signedIn
}

export interface Use {
  write: Pick<IdentityWrite, 'passkeys'>
  detail: Record<string, string>
}

/**
 * Opens a session for a verified user. Throws `sign_in_failed` if their password or status changed meanwhile.
 * @param toUse reads the current state of what they signed in with; may throw.
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
    // Disabled or reset meanwhile, which ends all of their sessions.
    if (!admin || admin.disabledMs !== null || admin.passwordHash !== proved.passwordHash) throw signInFailed()
    const opened = open(admin, client, nowMs)
    const use = toUse(rows)
    const detail = { name: admin.name, address: client.address, agent: opened.session.agent, ...use.detail }
    const write = { ...use.write, begin: opened.session, end: toEnded(client) }
    return { value: opened, change: { action: 'sessions.begin', subject: admin.id, detail, write } }
  })
}

/** Also ends all other sessions. Throws `sign_in_failed`, `invalid`, and `too_many_attempts`. */
export async function changePassword(
  { store, attempts }: Pick<SignInDeps, 'store' | 'attempts'>,
  { session, old, password }: { session: StoredSession; old: string; password: string },
  address: string,
  by: Actor,
): Promise<void> {
  const found = (await store.readAdmins()).find(({ id }) => id === session.adminId)
  if (!found) throw signInFailed()
  requireTyped({ password })
  requireGoodPassword(password, found.name)
  await attempts.try({ address, nowMs: by.nowMs, by: { password: found.name, isKnown: true } }, async () => {
    if (!(await isPassword(old, found.passwordHash))) throw signInFailed('Wrong current password.')
  })
  const passwordHash = await hashPassword(password)
  await store.changeIdentity(by, ({ admins }) => {
    const admin = admins.find(({ id }) => id === found.id)
    // Another was set during the check.
    if (!admin || admin.passwordHash !== found.passwordHash)
      throw signInFailed('The password was changed in the meantime.')
    const record = { action: 'admins.password' as const, subject: admin.id, detail: { name: admin.name } }
    const write = { admins: [{ ...admin, passwordHash }], end: { of: [admin.id], keep: session.id } }
    return { value: null, change: { ...record, write } }
  })
}

/** The browser's previous session, of any user. */
const toEnded = ({ sessionId }: Client) => ({ ids: sessionId === null ? [] : [sessionId] })

function open(admin: StoredAdmin, { address, agent }: Client, nowMs: number): SignedIn {
  const secret = mintSecret()
  const begun = { id: mintId(nowMs), adminId: admin.id, createdMs: nowMs, seenMs: nowMs }
  return { admin, session: { ...begun, hash: hashToken(secret), address, agent: agent.slice(0, 200) }, secret }
}

const isInForce = ({ codeHash, codeExpiresMs }: StoredAdmin, code: string, nowMs: number) =>
  codeHash !== null && codeExpiresMs !== null && nowMs < codeExpiresMs && hashCode(code) === codeHash

const wrongCode = () =>
  new ServiceError({ kind: 'code_wrong' }, 'This code is wrong, expired, or already used. Ask for a new one.')

const signInFailed = (message = 'Wrong name or password.') => new ServiceError({ kind: 'sign_in_failed' }, message)
