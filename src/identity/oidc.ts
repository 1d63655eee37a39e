/**
 * Sign-in through an identity provider, whose claims identify the user and their role. Users are matched by issuer and subject; role and team follow the claims
 * at each sign-in.
 */
import { type ServeConfig, toVariableName } from '../config.ts'
import type { ClaimRole, SignInMethod } from '../domain/roles.ts'
import { ServiceError, toBadConfig } from '../domain/service-error.ts'
import type { IdentityStore, StoredAdmin } from '../store/identity-store.ts'
import { decideAdmin, decideEdit, isSameMailbox, toCreation, toSignInName, toTeamId } from './admins.ts'
import type { Attempts } from './attempts.ts'
import type { PendingSignIn, Provider } from './oidc-provider.ts'
import type { SetupCode } from './passwords.ts'
import { mintSecret, type Pending } from './pending.ts'
import { beginSession, type Client, type SignedIn } from './sign-in.ts'

export interface OidcSettings {
  issuer: string
  clientId: string
  clientSecret: string
  /** Claim with the user's roles, such as `groups`, or a path, such as `realm_access.roles`. */
  claim: string
  /** The first match decides. */
  roles: readonly ClaimRole[]
}

type Given = Pick<
  ServeConfig,
  'oidcIssuer' | 'oidcClientId' | 'oidcClientSecret' | 'oidcClaim' | 'oidcRoles' | 'passwordSignIn'
>

/** Null if not configured. Throws `bad_config` if a setting is missing, or no one could sign in. */
export function toOidcSettings(given: Given): OidcSettings | null {
  const { oidcIssuer: issuer, oidcClientId: clientId, oidcClientSecret: clientSecret, oidcRoles: roles } = given
  if (issuer === null && clientId === null && roles.length === 0) {
    if (given.passwordSignIn) return null
    throw toBadConfig(['--password-sign-in is off and --oidc-issuer is not set: no one could sign in.'])
  }
  const problems: string[] = []
  if (issuer === null) problems.push('--oidc-issuer is required: the URL of the identity provider.')
  if (clientId === null) problems.push("--oidc-client-id is required: this server's ID at the identity provider.")
  if (clientSecret === null)
    problems.push(`The variable ${SECRET_VARIABLE} is required: the client secret for --oidc-client-id.`)
  if (roles.length === 0) problems.push('--oidc-role is required, or no one can sign in. Example: admins=owner.')
  if (issuer === null || clientId === null || clientSecret === null || roles.length === 0) throw toBadConfig(problems)
  return { issuer, clientId, clientSecret, claim: given.oidcClaim, roles }
}

const SECRET_VARIABLE = toVariableName('oidc-client-secret')

export const toSignInMethods = ({ passwordSignIn }: Given, oidc: OidcSettings | null): SignInMethod[] => [
  ...(passwordSignIn ? (['password'] as const) : []),
  ...(oidc === null ? [] : (['oidc'] as const)),
]

/** Claims of a verified ID token (OpenID Connect Core 1.0, section 2). */
export type Claims = Readonly<Record<string, unknown>> & { iss: string; sub: string }

export interface Claimed {
  /** Issuer and subject, separated by a space, which neither contains. */
  subject: string
  /** Name to use here; null if the provider gives none. */
  name: string | null
  /** True if the name is an email address that the provider has verified. */
  isNameProved: boolean
  /** Null if no value of the claim has a role. */
  role: ClaimRole | null
  isClaimThere: boolean
}

function toClaimed(claims: Claims, { claim, roles }: Pick<OidcSettings, 'claim' | 'roles'>): Claimed {
  const { iss, sub, email, email_verified: isProved, preferred_username: username } = claims
  const said = findClaim(claims, claim)
  const values = [said].flat()
  const isNameProved = typeof email === 'string' && isProved === true
  return {
    subject: `${iss} ${sub}`,
    name: isNameProved ? email : typeof username === 'string' ? username : null,
    isNameProved,
    role: roles.find(({ value }) => values.includes(value)) ?? null,
    isClaimThere: said !== undefined,
  }
}

/** A claim of this name (some are URLs), or a nested one, as in `realm_access.roles`. */
export function findClaim(claims: Readonly<Record<string, unknown>>, claim: string): unknown {
  if (Object.hasOwn(claims, claim)) return claims[claim]
  let found: unknown = claims
  for (const name of claim.split('.')) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, name)) return undefined
    found = (found as Record<string, unknown>)[name]
  }
  return found
}

export interface OidcDeps {
  store: IdentityStore
  attempts: Attempts
  setupCode: SetupCode
  settings: OidcSettings
  provider: Provider
  pending: Pending<PendingSignIn>
}

/** Returns where to send the browser, and its cookie. Throws as the provider does. */
export async function beginOidc(
  { provider, pending }: OidcDeps,
  redirectUri: string,
  { address, sessionId }: Client,
  nowMs: number,
): Promise<{ location: URL; secret: string }> {
  const checks = { state: mintSecret(), nonce: mintSecret(), codeVerifier: mintSecret() }
  const signIn: PendingSignIn = { ...checks, redirectUri, sessionId }
  const location = await provider.toSignInUrl(signIn)
  return { location, secret: await pending.begin(signIn, address, nowMs) }
}

/**
 * Completes a sign-in and opens a session.
 * @param secret the browser's cookie. @param url the URL it returned to. Throws `sign_in_ended`, `no_role`, `admin_disabled`, `admin_exists`, `invalid`,
 * `team_not_found`, `team_ambiguous`, and `too_many_attempts`, and as the provider does.
 */
export async function endOidc(
  { store, attempts, setupCode, settings, provider, pending }: OidcDeps,
  { secret, url }: { secret: string | null; url: URL },
  client: Client,
  nowMs: number,
): Promise<SignedIn> {
  // Limited, since forged returns cause provider requests and log lines.
  const { begun, claims } = await attempts.try(
    { address: client.address, nowMs, by: 'provider' },
    async () => {
      // A wrong state leaves the sign-in pending: any page could send a browser here with one.
      const found = await pending.take(secret, nowMs, ({ state }) => state === url.searchParams.get('state'))
      if (found === null) throw new ServiceError({ kind: 'sign_in_ended' }, ENDED)
      return { begun: found, claims: await provider.redeem(url, found) }
    },
    (error) => !isForgiven(error, url),
  )
  const admin = await admit(store, toClaimed(claims, settings), settings.claim, nowMs)
  if (admin.role === 'owner') await setupCode.end()
  return beginSession(store, admin, { ...client, sessionId: client.sessionId ?? begun.sessionId }, nowMs)
}

/** Errors that don't count as failed attempts: an unknown sign-in, an unreachable provider, or a user who canceled there. */
const isForgiven = (error: unknown, { searchParams }: URL) =>
  error instanceof ServiceError &&
  ['sign_in_ended', searchParams.has('code') ? 'provider_unavailable' : 'sign_in_failed'].includes(error.failure.kind)

const ENDED = 'This sign-in was started in another browser, has expired, or was already used. Start again.'

async function admit(store: IdentityStore, claimed: Claimed, claim: string, nowMs: number): Promise<StoredAdmin> {
  const by = { actor: 'oidc', nowMs }
  if (claimed.role === null) {
    await endSessions(store, claimed, nowMs)
    throw new ServiceError({ kind: 'no_role' }, claimed.isClaimThere ? NO_ROLE : toUnsaid(claim))
  }
  const { role, team } = claimed.role
  return store.changeIdentity<StoredAdmin>(by, ({ admins, keyRows }) => {
    const found = find(admins, claimed)
    const is = { role, teamId: toTeamId(role, team, keyRows), oidcSubject: claimed.subject }
    if (found === null) {
      const admin = { ...decideAdmin(admins, { name: toName(claimed), role, team }, by, keyRows), ...is }
      return { value: admin, change: { ...toCreation(admin), write: { admins: [admin] } } }
    }
    // The first sign-in by the provider replaces the invitation code.
    const isFirst = found.oidcSubject === null
    const admin = { ...found, ...is, ...(isFirst ? { codeHash: null, codeExpiresMs: null } : {}) }
    return { value: admin, change: decideEdit(found, admin, keyRows, by).change }
  })
}

/**
 * Finds a user by issuer and subject, or an invited one by a name that the provider has verified. Throws `admin_disabled`, and `admin_exists` if another user
 * has the name.
 */
function find(admins: readonly StoredAdmin[], claimed: Claimed): StoredAdmin | null {
  const known = admins.find(({ oidcSubject }) => oidcSubject === claimed.subject)
  const { name: claimedName } = claimed
  const named = known ?? admins.find(({ name }) => claimedName !== null && name === toSignInName(claimedName))
  if (named === undefined) return null
  const isVouched = claimed.isNameProved && claimedName !== null && isSameMailbox(named.name, claimedName)
  if (known === undefined && !(isVouched && isOpen(named))) {
    const message = `A user named '${named.name}' already exists with another sign-in method. Ask an owner.`
    throw new ServiceError({ kind: 'admin_exists', admin: named.name }, message)
  }
  if (named.disabledMs !== null)
    throw new ServiceError({ kind: 'admin_disabled', admin: named.name }, 'Your account is disabled. Ask an owner.')
  return named
}

const isOpen = ({ passwordHash, oidcSubject }: StoredAdmin) => passwordHash === null && oidcSubject === null

function toName({ name }: Claimed): string {
  if (name !== null) return name
  const message = 'The identity provider sent no name for you: neither a verified email address nor a user name.'
  throw new ServiceError({ kind: 'invalid', field: 'name' }, message)
}

/** Ends the sessions of a user who lost their role; recorded only if there were any. */
async function endSessions(store: IdentityStore, { subject }: Claimed, nowMs: number): Promise<void> {
  const found = (await store.readAdmins()).find(({ oidcSubject }) => oidcSubject === subject)
  if (found === undefined || (await store.readSessions(found.id)).length === 0) return
  const detail = { name: found.name, reason: 'the identity provider no longer gives them a role' }
  const change = { action: 'sessions.end' as const, subject: found.id, detail, write: { end: { of: [found.id] } } }
  await store.changeIdentity({ actor: 'oidc', nowMs }, () => ({ value: null, change }))
}

const NO_ROLE =
  'The identity provider signed you in, but you have no role here. Administrators assign roles with --oidc-role.'

/** Many providers send a claim only if configured to. */
const toUnsaid = (claim: string) =>
  `The identity provider signed you in, but did not send the claim '${claim}'. An administrator must configure it there, or name another with --oidc-claim.`
