/**
 * A software authenticator (W3C WebAuthn, with the CTAP CBOR it needs) and its browser; it makes one passkey, and lies
 * on request.
 */
import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import type {
  AuthenticationResponseJSON,
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
  RegistrationResponseJSON,
} from '@simplewebauthn/server'

export interface Lies {
  origin?: string
  rpId?: string
  challenge?: string
  type?: string
  /** True if no finger, face, or PIN was checked. */
  isUnverified?: boolean
  counter?: number
  userHandle?: string
  id?: string
  /** Replaces the attestation `none`, for example with `packed`. */
  attestation?: [format: string, statement: Map<CborKey, Cbor>]
}

const FLAGS = { present: 1, verified: 4, attested: 64 }

export function createAuthenticator(at: string) {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const { x = '', y = '' } = publicKey.export({ format: 'jwk' })
  const credentialId = randomBytes(32)
  const id = credentialId.toString('base64url')
  // RFC 9052, 9053: an elliptic key, ES256, P-256, and its point.
  const coseKey = toCbor(
    new Map<CborKey, Cbor>([
      ...([1, 3, -1].map((key, i) => [key, [2, -7, 1][i] ?? 0]) as [number, number][]),
      ...[[-2, Buffer.from(x, 'base64url')] as const, [-3, Buffer.from(y, 'base64url')] as const],
    ]),
  )
  let counter = 0
  let userHandle = ''

  const toClientData = (type: string, challenge: string, lies: Lies) =>
    Buffer.from(
      JSON.stringify({
        ...{ type: lies.type ?? type, challenge: lies.challenge ?? challenge },
        ...{ origin: lies.origin ?? at, crossOrigin: false },
      }),
    )

  const toAuthData = (rpId: string | undefined, flags: number, lies: Lies, attested = Buffer.alloc(0)) => {
    const head = Buffer.alloc(5)
    head.writeUInt8(FLAGS.present | (lies.isUnverified ? 0 : FLAGS.verified) | flags)
    head.writeUInt32BE(lies.counter ?? counter, 1)
    return Buffer.concat([sha256(lies.rpId ?? rpId ?? ''), head, attested])
  }

  return {
    /** Creates its passkey. */
    create(options: PublicKeyCredentialCreationOptionsJSON, lies: Lies = {}): RegistrationResponseJSON {
      userHandle = options.user.id
      const length = Buffer.alloc(2)
      length.writeUInt16BE(credentialId.length)
      const attested = Buffer.concat([Buffer.alloc(16), length, credentialId, coseKey])
      const authData = toAuthData(options.rp.id, FLAGS.attested, lies, attested)
      const [format, statement] = lies.attestation ?? ['none', new Map()]
      const attestationObject = toCbor(
        new Map<CborKey, Cbor>([
          ['fmt', format],
          ['attStmt', statement],
          ['authData', authData],
        ]),
      )
      const clientData = toClientData('webauthn.create', options.challenge, lies)
      return {
        ...{ id, rawId: id, type: 'public-key', clientExtensionResults: {} },
        response: {
          clientDataJSON: clientData.toString('base64url'),
          attestationObject: attestationObject.toString('base64url'),
          transports: ['internal'],
        },
      }
    },
    /** Signs in with it. */
    use(options: PublicKeyCredentialRequestOptionsJSON, lies: Lies = {}): AuthenticationResponseJSON {
      counter++
      const authData = toAuthData(options.rpId, 0, lies)
      const clientData = toClientData('webauthn.get', options.challenge, lies)
      const signature = sign('sha256', Buffer.concat([authData, sha256(clientData)]), privateKey)
      const usedId = lies.id ?? id
      return {
        ...{ id: usedId, rawId: usedId, type: 'public-key', clientExtensionResults: {} },
        response: {
          clientDataJSON: clientData.toString('base64url'),
          authenticatorData: authData.toString('base64url'),
          signature: signature.toString('base64url'),
          userHandle: lies.userHandle ?? userHandle,
        },
      }
    },
    id,
    get userHandle() {
      return userHandle
    },
  }
}

export type Authenticator = ReturnType<typeof createAuthenticator>

const sha256 = (data: string | Buffer) => createHash('sha256').update(data).digest()

export type CborKey = string | number
export type Cbor = string | number | Uint8Array | Map<CborKey, Cbor>

function toCbor(value: Cbor): Buffer {
  if (typeof value === 'number') return value >= 0 ? toHead(0, value) : toHead(1, -1 - value)
  if (typeof value === 'string') return Buffer.concat([toHead(3, Buffer.byteLength(value)), Buffer.from(value)])
  if (value instanceof Uint8Array) return Buffer.concat([toHead(2, value.length), value])
  const pairs = [...value].flatMap(([key, one]) => [toCbor(key), toCbor(one)])
  return Buffer.concat([toHead(5, value.size), ...pairs])
}

function toHead(major: number, count: number): Buffer {
  if (count < 24) return Buffer.from([(major << 5) | count])
  if (count < 256) return Buffer.from([(major << 5) | 24, count])
  return Buffer.from([(major << 5) | 25, count >> 8, count & 255])
}
