/**
 * Passkeys replace the password of users who have one; others sign in through an identity provider. Responses (W3C WebAuthn, sections 7.1 and 7.2) are verified
 * by `@simplewebauthn/server`, which is large and loaded on first use.
 */

import type {
  AuthenticationResponseJSON,
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
  RegistrationResponseJSON,
} from '@simplewebauthn/server'
import { toDifference } from '../domain/changes.ts'
import { mintId } from '../domain/id.ts'
import { once } from '../domain/once.ts'
import type { SignInMethod } from '../domain/roles.ts'
import { ServiceError } from '../domain/service-error.ts'
import { isName, NAME_RULE } from '../keys/definition.ts'
import type { Actor } from '../store/config-store.ts'
import type { IdentityRows, IdentityStore, StoredAdmin, StoredPasskey, StoredSession } from '../store/identity-store.ts'
import type { Attempts } from './attempts.ts'
import { isPassword } from './passwords.ts'
import { mintSecret, type Pending } from './pending.ts'
import { beginSession, type Client, requirePasswords, type SignedIn, type Use } from './sign-in.ts'

/** A pending challenge: to add a passkey in this session, or (null) to sign in. */
export interface PendingPasskey extends Challenge {
  forSession: string | null
}

export interface PasskeyDeps {
  store: IdentityStore
  attempts: Attempts
  ways: readonly SignInMethod[]
  pendingPasskeys: Pending<PendingPasskey>
}

/** Per user. */
const MAX = 20
/** WebAuthn's limit of an ID, 1,023 bytes, in base64url; and more than any public key needs. */
const MAX_CHARACTERS = { credentialId: 1_364, publicKey: 2_000 }
const ASK_MS = 5 * 60_000

/**
 * Starts adding a passkey: returns the browser's options and cookie. Throws `password_off`, `sign_in_failed`, `invalid`, `too_many_passkeys`, and
 * `too_many_attempts`.
 */
export async function beginPasskey(
  { store, attempts, ways, pendingPasskeys }: PasskeyDeps,
  { session, password, party }: { session: StoredSession; password: string; party: RelyingParty },
  address: string,
  nowMs: number,
): Promise<{ options: PublicKeyCredentialCreationOptionsJSON; secret: string }> {
  requirePasswords(ways)
  const admin = (await store.readAdmins()).find(({ id }) => id === session.adminId)
  if (!admin) throw wrongPassword()
  requirePassword(admin)
  await attempts.try({ address, nowMs, by: { password: admin.name, isKnown: true } }, async () => {
    if (!(await isPassword(password, admin.passwordHash))) throw wrongPassword()
  })
  const own = await store.readPasskeys(admin.id)
  requireRoom(own)
  const challenge = mintSecret()
  const secret = await pendingPasskeys.begin({ challenge, party, forSession: session.id }, address, nowMs)
  return { options: toOptions(admin, challenge, party, own), secret }
}

const toOptions = (
  { id, name }: StoredAdmin,
  challenge: string,
  party: RelyingParty,
  own: readonly StoredPasskey[],
): PublicKeyCredentialCreationOptionsJSON => ({
  rp: { id: party.id, name: 'Tollgate' },
  user: { id: toUserHandle(id), name, displayName: name },
  challenge,
  pubKeyCredParams: ALGORITHMS.map((alg) => ({ type: 'public-key', alg })),
  timeout: ASK_MS,
  attestation: 'none',
  // Discoverable, so that no name is typed, and with user verification (finger, face, or PIN).
  authenticatorSelection: { residentKey: 'required', requireResidentKey: true, userVerification: 'required' },
  excludeCredentials: own
    .filter(({ rpId }) => rpId === party.id)
    .map(({ credentialId: id, transports }) => ({ id, type: 'public-key', transports: [...transports] as Transports })),
})

type Transports = NonNullable<RegistrationResponseJSON['response']['transports']>

/** User ID kept by the authenticator. */
const toUserHandle = (adminId: string) => Buffer.from(adminId).toString('base64url')

/**
 * Adds the authenticator's new passkey.
 * @param secret the browser's cookie. Throws `password_off`, `challenge_ended`, `invalid`, and `too_many_passkeys`.
 */
export async function addPasskey(
  { store, ways, pendingPasskeys }: PasskeyDeps,
  { name, response, secret }: { name: string; response: RegistrationResponseJSON; secret: string | null },
  { id: sessionId, adminId }: StoredSession,
  by: Actor,
): Promise<StoredPasskey> {
  requirePasswords(ways)
  requireName(name)
  const asked = await takeChallenge(pendingPasskeys, secret, sessionId, by.nowMs)
  const made = await verifyNew(response, asked).catch(() => {
    throw refused()
  })
  for (const field of ['credentialId', 'publicKey'] as const)
    if (made[field].length > MAX_CHARACTERS[field]) throw refused()
  return store.changeIdentity(by, ({ admins, passkeys }) => {
    const all = passkeys()
    const admin = admins.find(({ id }) => id === adminId)
    // The user may have been disabled or reset meanwhile.
    if (!admin || admin.disabledMs !== null) throw refused()
    requirePassword(admin)
    requireRoom(all.filter((passkey) => passkey.adminId === adminId))
    if (all.some(({ credentialId }) => credentialId === made.credentialId)) throw refused()
    const { transports = [] } = response.response
    const passkey = {
      ...{ id: mintId(by.nowMs), adminId, name, ...made, transports, rpId: asked.party.id },
      ...{ createdMs: by.nowMs, usedMs: null },
    }
    const detail = { name, ...toDifference({}, { host: passkey.rpId }) }
    const change = { action: 'passkeys.create' as const, subject: passkey.id, detail, write: { passkeys: [passkey] } }
    return { value: passkey, change }
  })
}

/** Throws `invalid` and `passkey_not_found`. */
export function renamePasskey(
  store: IdentityStore,
  id: string,
  name: string,
  adminId: string,
  by: Actor,
): Promise<StoredPasskey> {
  requireName(name)
  return store.changeIdentity(by, ({ passkeys }) => {
    const found = find(passkeys(), id, adminId)
    const passkey = { ...found, name }
    const difference = toDifference({ name: found.name }, { name })
    const record = { action: 'passkeys.edit' as const, subject: id, detail: { name, ...difference } }
    return { value: passkey, change: difference && { ...record, write: { passkeys: [passkey] } } }
  })
}

/** Throws `passkey_not_found`. */
export function removePasskey(store: IdentityStore, id: string, adminId: string, by: Actor): Promise<StoredPasskey> {
  return store.changeIdentity(by, ({ passkeys }) => {
    const found = find(passkeys(), id, adminId)
    const record = { action: 'passkeys.remove' as const, subject: id, detail: { name: found.name } }
    return { value: found, change: { ...record, write: { remove: [id] } } }
  })
}

/** Takes a challenge, which can be used once. Throws `challenge_ended`. */
async function takeChallenge(
  pending: Pending<PendingPasskey>,
  secret: string | null,
  session: string | null,
  nowMs: number,
): Promise<Challenge> {
  const found = await pending.take(secret, nowMs, ({ forSession }) => forSession === session)
  if (found !== null) return found
  const message = 'This request expired, was started elsewhere, or is already done. Start again.'
  throw new ServiceError({ kind: 'challenge_ended' }, message)
}

function find(passkeys: readonly StoredPasskey[], wanted: string, adminId: string): StoredPasskey {
  const found = passkeys.find((passkey) => passkey.id === wanted && passkey.adminId === adminId)
  if (found) return found
  throw new ServiceError({ kind: 'passkey_not_found' }, 'Passkey not found. It may have been removed.')
}

function requirePassword({ passwordHash }: StoredAdmin): void {
  if (passwordHash !== null) return
  const message = 'Passkeys replace a password, and you have none: you sign in through the identity provider.'
  throw new ServiceError({ kind: 'invalid', field: 'password' }, message)
}

function requireRoom({ length }: readonly StoredPasskey[]): void {
  if (length < MAX) return
  const message = `You already have ${MAX} passkeys, the maximum. Remove one first.`
  throw new ServiceError({ kind: 'too_many_passkeys', most: MAX }, message)
}

function requireName(name: string): void {
  if (!isName(name)) throw new ServiceError({ kind: 'invalid', field: 'name' }, `The name of a passkey ${NAME_RULE}.`)
}

const wrongPassword = () => new ServiceError({ kind: 'sign_in_failed' }, 'Wrong password.')

const refused = () =>
  new ServiceError({ kind: 'invalid', field: 'response' }, "This passkey can't be added. Try again, or use another.")

/** Starts a sign-in by passkey: returns the browser's options, for any user, and cookie. Throws `password_off`. */
export async function beginPasskeySignIn(
  { ways, pendingPasskeys }: PasskeyDeps,
  party: RelyingParty,
  address: string,
  nowMs: number,
): Promise<{ options: PublicKeyCredentialRequestOptionsJSON; secret: string }> {
  requirePasswords(ways)
  const challenge = mintSecret()
  const secret = await pendingPasskeys.begin({ challenge, party, forSession: null }, address, nowMs)
  return { options: { rpId: party.id, challenge, timeout: ASK_MS, userVerification: 'required' }, secret }
}

/**
 * Completes it and opens a session.
 * @param secret the browser's cookie. Throws `password_off`, `challenge_ended`, `sign_in_failed`, and `too_many_attempts`.
 */
export async function endPasskeySignIn(
  { store, attempts, ways, pendingPasskeys }: PasskeyDeps,
  { response, secret }: { response: AuthenticationResponseJSON; secret: string | null },
  client: Client,
  nowMs: number,
): Promise<SignedIn> {
  requirePasswords(ways)
  const proved = await attempts.try({ address: client.address, nowMs, by: 'passkey' }, async () => {
    const asked = await takeChallenge(pendingPasskeys, secret, null, nowMs)
    const found = await store.findPasskey(response.id)
    if (found === null || found.admin.disabledMs !== null) throw notSignedIn()
    if (found.passkey.rpId !== asked.party.id) throw notSignedIn()
    // The user according to the authenticator; not signed.
    if (response.response.userHandle !== toUserHandle(found.admin.id)) throw notSignedIn()
    const counter = await verifyUse(response, found.passkey, asked).catch(() => {
      throw notSignedIn()
    })
    return { ...found, counter }
  })
  const { admin, passkey, counter } = proved
  const toUse = ({ passkeys }: IdentityRows): Use => {
    const now = passkeys().find(({ id }) => id === passkey.id)
    // Removed meanwhile, or its counter was used elsewhere, so one of two authenticators is a copy.
    if (now === undefined || now.counter !== passkey.counter) throw notSignedIn()
    return { write: { passkeys: [{ ...now, counter, usedMs: nowMs }] }, detail: { passkey: now.name } }
  }
  const signedIn = await beginSession(store, admin, client, nowMs, toUse)
  await attempts.opened(client.address, admin.name)
  return signedIn
}

const notSignedIn = () =>
  new ServiceError(
    { kind: 'sign_in_failed' },
    "This passkey can't sign you in; it may have been removed. Use your password.",
  )

export interface RelyingParty {
  id: string
  origin: string
}

export interface Challenge {
  challenge: string
  party: RelyingParty
}

/** Accepted algorithms (RFC 9053): ES256, EdDSA, RS256. Every authenticator supports one of them. */
const ALGORITHMS = [-7, -8, -257]

const library = once(async () => {
  // Must be loaded first: in a compiled executable, the library's own import comes too late.
  await import('reflect-metadata')
  const [server, helpers] = await Promise.all([
    import('@simplewebauthn/server'),
    import('@simplewebauthn/server/helpers'),
  ])
  return { ...server, ...helpers }
})

/** Throws the library's error if invalid. */
async function verifyNew(
  response: RegistrationResponseJSON,
  { challenge, party }: Challenge,
): Promise<Pick<StoredPasskey, 'credentialId' | 'publicKey' | 'counter'>> {
  const { verifyRegistrationResponse, isoBase64URL } = await library.get()
  const attestationObject = await withoutAttestation(response.response.attestationObject)
  const { verified, registrationInfo } = await verifyRegistrationResponse({
    response: { ...response, response: { ...response.response, attestationObject } },
    ...{ expectedChallenge: challenge, expectedOrigin: party.origin, expectedRPID: party.id },
    ...{ requireUserVerification: true, supportedAlgorithmIDs: ALGORITHMS },
  })
  if (!verified) throw new Error('verification failed')
  const { id, publicKey, counter } = registrationInfo.credential
  return { credentialId: id, publicKey: isoBase64URL.fromBuffer(publicKey), counter }
}

/** Drops the attestation, which we don't need, as browsers do; so nothing in it is parsed, and no revocation list it names is fetched. */
async function withoutAttestation(attestationObject: string): Promise<string> {
  const { decodeAttestationObject, isoBase64URL, isoCBOR } = await library.get()
  const authData = decodeAttestationObject(isoBase64URL.toBuffer(attestationObject)).get('authData')
  const none = new Map<string, string | Uint8Array | Map<string, string>>([
    ['fmt', 'none'],
    ['attStmt', new Map<string, string>()],
    ['authData', authData],
  ])
  return isoBase64URL.fromBuffer(isoCBOR.encode(none))
}

/** Verifies a signature and returns the new counter. Throws the library's error if invalid. */
async function verifyUse(
  response: AuthenticationResponseJSON,
  passkey: StoredPasskey,
  { challenge, party }: Challenge,
): Promise<number> {
  const { verifyAuthenticationResponse, isoBase64URL } = await library.get()
  const publicKey = isoBase64URL.toBuffer(passkey.publicKey)
  const { verified, authenticationInfo } = await verifyAuthenticationResponse({
    response,
    ...{ expectedChallenge: challenge, expectedOrigin: party.origin, expectedRPID: party.id },
    credential: { id: passkey.credentialId, publicKey, counter: passkey.counter },
    requireUserVerification: true,
  })
  if (!verified) throw new Error('verification failed')
  return authenticationInfo.newCounter
}
