/**
 * What browsers bring from an authenticator (W3C WebAuthn, sections 7.1 and 7.2), checked by `@simplewebauthn/server`. That is large, and
 * loaded by the first who brings something that may be right.
 */
import type { AuthenticationResponseJSON, RegistrationResponseJSON } from '@simplewebauthn/server'
import { once } from '../../domain/once.ts'
import type { StoredPasskey } from '../../store/identity-store.ts'

/** For whom a passkey is: a host by its name, as browsers at its origin say it. */
export interface RelyingParty {
  id: string
  origin: string
}

/** What is asked of an authenticator: to sign this, for us. */
export interface Asked {
  challenge: string
  party: RelyingParty
}

/** What public keys may be, by their numbers (RFC 9053): ES256, EdDSA, RS256. Whatever signs in has one of them. */
export const ALGORITHMS = [-7, -8, -257]

const library = once(async () => {
  // It has to be there before the library is, whose own import of it comes too late in an executable.
  await import('reflect-metadata')
  const [server, helpers] = await Promise.all([
    import('@simplewebauthn/server'),
    import('@simplewebauthn/server/helpers'),
  ])
  return { ...server, ...helpers }
})

/** Checks a new passkey. Throws an error of the library's where anything of it is wrong. */
export async function verifyNew(
  response: RegistrationResponseJSON,
  { challenge, party }: Asked,
): Promise<Pick<StoredPasskey, 'credentialId' | 'publicKey' | 'counter'>> {
  const { verifyRegistrationResponse, isoBase64URL } = await library.get()
  const attestationObject = await withoutAttestation(response.response.attestationObject)
  const { verified, registrationInfo } = await verifyRegistrationResponse({
    response: { ...response, response: { ...response.response, attestationObject } },
    ...{ expectedChallenge: challenge, expectedOrigin: party.origin, expectedRPID: party.id },
    ...{ requireUserVerification: true, supportedAlgorithmIDs: ALGORITHMS },
  })
  if (!verified) throw new Error('it is not verified')
  const { id, publicKey, counter } = registrationInfo.credential
  return { credentialId: id, publicKey: isoBase64URL.fromBuffer(publicKey), counter }
}

/**
 * Nobody asks who has made an authenticator: what it says of that is dropped, as browsers do. Nothing in it is then read, and no list
 * of revoked certificates fetched that it names.
 */
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

/** Checks the use of a passkey, and returns how often it was used by now. Throws an error of the library's where anything is wrong. */
export async function verifyUse(
  response: AuthenticationResponseJSON,
  passkey: StoredPasskey,
  { challenge, party }: Asked,
): Promise<number> {
  const { verifyAuthenticationResponse, isoBase64URL } = await library.get()
  const publicKey = isoBase64URL.toBuffer(passkey.publicKey)
  const { verified, authenticationInfo } = await verifyAuthenticationResponse({
    response,
    ...{ expectedChallenge: challenge, expectedOrigin: party.origin, expectedRPID: party.id },
    credential: { id: passkey.credentialId, publicKey, counter: passkey.counter },
    requireUserVerification: true,
  })
  if (!verified) throw new Error('it is not verified')
  return authenticationInfo.newCounter
}
