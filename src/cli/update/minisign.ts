/** Verifies signatures of minisign: Ed25519 over the BLAKE2b-512 hash of a file, and over a trusted comment. */
import { createHash, createPublicKey, verify } from 'node:crypto'

export interface PublicKey {
  /** 8 bytes, in hex. */
  id: string
  bytes: Buffer
}

/** Completes a sentence that begins with the signature. */
export class BadSignature extends Error {
  override name = 'BadSignature'
}

/** `Ed`, the key's ID, and the key. */
const KEY_BYTES = 2 + 8 + 32
/** `ED`, the key's ID, and the signature. */
const SIGNATURE_BYTES = 2 + 8 + 64

/** @param text a public key file, or its last line. Null if invalid. */
export function toPublicKey(text: string): PublicKey | null {
  const bytes = Buffer.from(text.trim().split('\n').at(-1) ?? '', 'base64')
  if (bytes.length !== KEY_BYTES || bytes.toString('latin1', 0, 2) !== 'Ed') return null
  return { id: bytes.toString('hex', 2, 10), bytes: bytes.subarray(10) }
}

/** Returns the trusted comment. @throws a BadSignature unless one of the keys signed the content. */
export function verifySignature(content: Uint8Array, text: string, keys: readonly PublicKey[]): string {
  const [untrusted = '', own = '', trusted = '', global = ''] = text.split(/\r?\n/)
  const bytes = Buffer.from(own, 'base64')
  const comment = trusted.replace(/^trusted comment: /, '')
  if (!untrusted.startsWith('untrusted comment: ') || comment === trusted || bytes.length !== SIGNATURE_BYTES)
    throw new BadSignature('is not a minisign signature')
  // `Ed` signs the file itself, which minisign no longer does.
  if (bytes.toString('latin1', 0, 2) !== 'ED') throw new BadSignature('has an outdated format')
  const key = keys.find(({ id }) => id === bytes.toString('hex', 2, 10))
  if (key === undefined) throw new BadSignature('is by an unknown key')
  const signature = bytes.subarray(10)
  const isValid =
    isSigned(key, createHash('blake2b512').update(content).digest(), signature) &&
    isSigned(key, Buffer.concat([signature, Buffer.from(comment)]), Buffer.from(global, 'base64'))
  if (!isValid) throw new BadSignature("doesn't match")
  return comment
}

function isSigned({ bytes }: PublicKey, content: Buffer, signature: Buffer): boolean {
  const key = createPublicKey({
    key: { kty: 'OKP', crv: 'Ed25519', x: bytes.toString('base64url') },
    format: 'jwk',
  })
  return verify(null, content, key, signature)
}
