/**
 * The door that an identity provider keeps: a browser is sent there and comes back with a code, whose claims say who somebody is and
 * what they may do here. They are known by issuer and subject; role and team follow the claims at each sign-in.
 */
import { type ServeConfig, toVariableName } from '../config.ts'
import type { ClaimRole, SignInMethod } from '../domain/roles.ts'
import { ServiceError } from '../domain/service-error.ts'
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
  /** The claim that says what somebody is, such as `groups`, or a path to it, such as `realm_access.roles`. */
  claim: string
  /** The first whose value somebody has decides. */
  roles: readonly ClaimRole[]
}

type Given = Pick<
  ServeConfig,
  'oidcIssuer' | 'oidcClientId' | 'oidcClientSecret' | 'oidcClaim' | 'oidcRoles' | 'passwordSignIn'
>

/** Null where nobody signs in so. Throws `bad_config` where a part is missing, or nobody could sign in at all. */
export function toOidcSettings(given: Given): OidcSettings | null {
  const { oidcIssuer: issuer, oidcClientId: clientId, oidcClientSecret: clientSecret, oidcRoles: roles } = given
  if (issuer === null && clientId === null && roles.length === 0) {
    if (given.passwordSignIn) return null
    throw toBadConfig(['--password-sign-in is off and there is no --oidc-issuer: nobody could sign in.'])
  }
  const problems: string[] = []
  if (issuer === null) problems.push('--oidc-issuer is missing: the URL of the identity provider.')
  if (clientId === null) problems.push('--oidc-client-id is missing: what the identity provider calls this server.')
  if (clientSecret === null)
    problems.push(`${SECRET_VARIABLE} is missing in the environment: the secret that goes with --oidc-client-id.`)
  if (roles.length === 0)
    problems.push('--oidc-role is missing: without one, nobody may sign in. Such as admins=owner.')
  if (issuer === null || clientId === null || clientSecret === null || roles.length === 0) throw toBadConfig(problems)
  return { issuer, clientId, clientSecret, claim: given.oidcClaim, roles }
}

const SECRET_VARIABLE = toVariableName('oidc-client-secret')

const toBadConfig = (problems: readonly string[]) =>
  new ServiceError({ kind: 'bad_config', problems }, problems.join('\n'))

export const toSignInMethods = ({ passwordSignIn }: Given, oidc: OidcSettings | null): SignInMethod[] => [
  ...(passwordSignIn ? (['password'] as const) : []),
  ...(oidc === null ? [] : (['oidc'] as const)),
]

/** What an ID token holds (OpenID Connect Core 1.0, section 2), its issuer, audience, times and signature being checked. */
export type Claims = Readonly<Record<string, unknown>> & { iss: string; sub: string }

export interface Claimed {
  /** Issuer and subject, with a space between: neither has one. */
  subject: string
  /** What they would be called here; null where the provider says nothing that could be. */
  name: string | null
  /** Whether the provider has made sure that the name is theirs, as it is an address of mail. */
  isNameProved: boolean
  /** Null where none of the values that have a role is among theirs. */
  role: ClaimRole | null
  /** Whether the provider says anything of what they are. */
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

/** A claim of that very name (some are URLs), or else what is within others, as `realm_access.roles` is. */
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

/** Begins: where the browser goes, and what it must bring back as a cookie. Throws as the provider does. */
export async function beginOidc(
  { provider, pending }: OidcDeps,
  redirectUri: string,
  { address, sessionId }: Client,
  nowMs: number,
): Promise<{ location: URL; secret: string }> {
  const checks = { state: mintSecret(), nonce: mintSecret(), codeVerifier: mintSecret() }
  const signIn: PendingSignIn = { ...checks, redirectUri, sessionId }
  const location = await provider.toSignInUrl(signIn)
  return { location, secret: pending.begin(signIn, address, nowMs) }
}

/**
 * Ends it, and opens a session.
 * @param secret what the browser has brought. @param url where it came back to. Throws `sign_in_ended`, `no_role`, `admin_disabled`,
 * `admin_exists`, `invalid`, `team_not_found`, `team_ambiguous` and `too_many_attempts`, and as the provider does.
 */
export async function endOidc(
  { store, attempts, setupCode, settings, provider, pending }: OidcDeps,
  { secret, url }: { secret: string | null; url: URL },
  client: Client,
  nowMs: number,
): Promise<SignedIn> {
  // Whoever makes up what comes back has the provider asked or the log written.
  const { begun, claims } = await attempts.try(
    { address: client.address, nowMs, by: 'provider' },
    async () => {
      // A state that is wrong leaves it to whom it belongs: any page could send a browser here with one.
      const found = pending.take(secret, nowMs, ({ state }) => state === url.searchParams.get('state'))
      if (found === null) throw new ServiceError({ kind: 'sign_in_ended' }, ENDED)
      return { begun: found, claims: await provider.redeem(url, found) }
    },
    (error) => !isForgiven(error, url),
  )
  const admin = await admit(store, toClaimed(claims, settings), settings.claim, nowMs)
  if (admin.role === 'owner') setupCode.end()
  return beginSession(store, admin, { ...client, sessionId: client.sessionId ?? begun.sessionId }, nowMs)
}

/** A sign-in that is none, a code that could not be asked for, or somebody who thought better of it there. */
const isForgiven = (error: unknown, { searchParams }: URL) =>
  error instanceof ServiceError &&
  ['sign_in_ended', searchParams.has('code') ? 'provider_unavailable' : 'sign_in_failed'].includes(error.failure.kind)

const ENDED = 'This sign-in was not begun in this browser, has ended, or was used already: begin again.'

/** Who they are here: made at their first sign-in. */
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
    // Whoever has come by the provider for the first time needs no code to come in.
    const isFirst = found.oidcSubject === null
    const admin = { ...found, ...is, ...(isFirst ? { codeHash: null, codeExpiresMs: null } : {}) }
    return { value: admin, change: decideEdit(found, admin, keyRows, by).change }
  })
}

/**
 * By issuer and subject; else somebody who was let in under that name and can do nothing yet, where the provider vouches for it.
 * Throws `admin_disabled`, and `admin_exists` for the name of somebody else.
 */
function find(admins: readonly StoredAdmin[], claimed: Claimed): StoredAdmin | null {
  const known = admins.find(({ oidcSubject }) => oidcSubject === claimed.subject)
  const { name: claimedName } = claimed
  const named = known ?? admins.find(({ name }) => claimedName !== null && name === toSignInName(claimedName))
  if (named === undefined) return null
  const isVouched = claimed.isNameProved && claimedName !== null && isSameMailbox(named.name, claimedName)
  if (known === undefined && !(isVouched && isOpen(named))) {
    const message = `There is somebody called '${named.name}' here already, who signs in otherwise: ask an owner.`
    throw new ServiceError({ kind: 'admin_exists', admin: named.name }, message)
  }
  if (named.disabledMs !== null)
    throw new ServiceError(
      { kind: 'admin_disabled', admin: named.name },
      'You may not sign in here any more: ask an owner.',
    )
  return named
}

const isOpen = ({ passwordHash, oidcSubject }: StoredAdmin) => passwordHash === null && oidcSubject === null

function toName({ name }: Claimed): string {
  if (name !== null) return name
  const message =
    'The identity provider does not say what to call you: an address of mail that it has checked, or a user name.'
  throw new ServiceError({ kind: 'invalid', field: 'name' }, message)
}

/** Of somebody who may no longer be here: as often as they try, that is on record once. */
async function endSessions(store: IdentityStore, { subject }: Claimed, nowMs: number): Promise<void> {
  const found = (await store.readAdmins()).find(({ oidcSubject }) => oidcSubject === subject)
  if (found === undefined || (await store.readSessions(found.id)).length === 0) return
  const detail = { name: found.name, reason: 'the identity provider gives them no role any more' }
  const change = { action: 'sessions.end' as const, subject: found.id, detail, write: { end: { of: [found.id] } } }
  await store.changeIdentity({ actor: 'oidc', nowMs }, () => ({ value: null, change }))
}

const NO_ROLE =
  'The identity provider has signed you in, and gives you no role here. Whoever runs this server says with --oidc-role who has one.'

/** What a provider says must often be asked of it first, where it is set up. */
const toUnsaid = (claim: string) =>
  `The identity provider has signed you in, and does not say what you are: there is no claim '${claim}'. Whoever runs this server has it give one, or names another with --oidc-claim.`
