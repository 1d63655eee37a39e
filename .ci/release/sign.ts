/** Signs as `minisign -S` does, with a secret key of `minisign -G -W` (without a password). */
import { createHash, createPrivateKey, createPublicKey, type KeyObject, sign } from 'node:crypto'

export interface SigningKey {
  /** 8 bytes. */
  id: Buffer
  secret: KeyObject
  /** The last line of a public key file. */
  publicKey: string
}

/** Algorithm of the signature, key derivation, checksum, salt, and limits of the derivation. */
const HEAD_BYTES = 2 + 2 + 2 + 32 + 8 + 8
/** Then the key's ID, its seed, its public half, and a checksum. */
const FILE_BYTES = HEAD_BYTES + 8 + 32 + 32 + 32

/** @param text a secret key file, or its last line. */
export function toSigningKey(text: string): SigningKey {
  const bytes = Buffer.from(text.trim().split('\n').at(-1) ?? '', 'base64')
  if (bytes.length !== FILE_BYTES || bytes.toString('latin1', 0, 2) !== 'Ed')
    throw new Error('The signing key is not a minisign secret key.')
  if (bytes.readUInt16LE(2) !== 0) throw new Error('The signing key has a password. Create one without: minisign -G -W')
  const [id, seed, half] = [
    bytes.subarray(HEAD_BYTES, HEAD_BYTES + 8),
    bytes.subarray(HEAD_BYTES + 8, HEAD_BYTES + 40),
    bytes.subarray(HEAD_BYTES + 40, HEAD_BYTES + 72),
  ]
  const [d, x] = [seed.toString('base64url'), half.toString('base64url')]
  const secret = createPrivateKey({ key: { kty: 'OKP', crv: 'Ed25519', d, x }, format: 'jwk' })
  if (createPublicKey(secret).export({ format: 'jwk' }).x !== x) throw new Error('The signing key is damaged.')
  return { id, secret, publicKey: Buffer.concat([Buffer.from('Ed'), id, half]).toString('base64') }
}

/** @param comment one line, signed too. Returns the text of a `.minisig` file. */
export function toSignature(content: Uint8Array, comment: string, { id, secret }: SigningKey): string {
  const signature = sign(null, createHash('blake2b512').update(content).digest(), secret)
  const own = Buffer.concat([Buffer.from('ED'), id, signature]).toString('base64')
  const global = sign(null, Buffer.concat([signature, Buffer.from(comment)]), secret).toString('base64')
  return `untrusted comment: signature of a Tollgate release\n${own}\ntrusted comment: ${comment}\n${global}\n`
}
