/** The door that an authenticator opens: it offers the passkeys that it has for us, and whoever it knows as its owner comes in. */
import type { AuthenticationResponseJSON, PublicKeyCredentialRequestOptionsJSON } from '@simplewebauthn/server'
import { ServiceError } from '../../domain/service-error.ts'
import type { IdentityRows } from '../../store/identity-store.ts'
import { mintSecret } from '../pending.ts'
import { beginSession, type Client, requirePasswords, type SignedIn, type Use } from '../sign-in.ts'
import { ASK_MS, type PasskeyDeps, takeAsked, toUserHandle } from './passkeys.ts'
import { type RelyingParty, verifyUse } from './verify.ts'

/** Begins: what the browser asks authenticators for, whoever that may be, and what it must bring back as a cookie. Throws `password_off`. */
export function beginPasskeySignIn(
  { ways, pendingPasskeys }: PasskeyDeps,
  party: RelyingParty,
  address: string,
  nowMs: number,
): { options: PublicKeyCredentialRequestOptionsJSON; secret: string } {
  requirePasswords(ways)
  const challenge = mintSecret()
  const secret = pendingPasskeys.begin({ challenge, party, forSession: null }, address, nowMs)
  return { options: { rpId: party.id, challenge, timeout: ASK_MS, userVerification: 'required' }, secret }
}

/**
 * Ends it, and opens a session.
 * @param secret what the browser has brought. Throws `password_off`, `challenge_ended`, `sign_in_failed` and `too_many_attempts`.
 */
export async function endPasskeySignIn(
  { store, attempts, ways, pendingPasskeys }: PasskeyDeps,
  { response, secret }: { response: AuthenticationResponseJSON; secret: string | null },
  client: Client,
  nowMs: number,
): Promise<SignedIn> {
  requirePasswords(ways)
  const proved = await attempts.try({ address: client.address, nowMs, by: 'passkey' }, async () => {
    const asked = takeAsked(pendingPasskeys, secret, null, nowMs)
    const found = await store.findPasskey(response.id)
    if (found === null || found.admin.disabledMs !== null) throw refused()
    if (found.passkey.rpId !== asked.party.id) throw refused()
    // Whose it is by the authenticator, which signs nothing of that.
    if (response.response.userHandle !== toUserHandle(found.admin.id)) throw refused()
    const counter = await verifyUse(response, found.passkey, asked).catch(() => {
      throw refused()
    })
    return { ...found, counter }
  })
  const { admin, passkey, counter } = proved
  const toUse = ({ passkeys }: IdentityRows): Use => {
    const now = passkeys().find(({ id }) => id === passkey.id)
    // Removed meanwhile, or used by another who has the same: then one of the two is a copy.
    if (now === undefined || now.counter !== passkey.counter) throw refused()
    return { write: { passkeys: [{ ...now, counter, usedMs: nowMs }] }, detail: { passkey: now.name } }
  }
  const signedIn = await beginSession(store, admin, client, nowMs, toUse)
  attempts.opened(client.address, admin.name)
  return signedIn
}

const refused = () =>
  new ServiceError(
    { kind: 'sign_in_failed' },
    'This passkey does not sign you in: it may have been removed. Use your password.',
  )
