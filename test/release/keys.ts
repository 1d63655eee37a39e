/** Key pairs as `minisign -G -W` writes them. */
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { type SigningKey, toSigningKey } from '../../.ci/release/sign.ts'

/** The secret key file's text. */
export function makeSecretKey(): string {
  const { d = '', x = '' } = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })
  const bytes = Buffer.concat([
    Buffer.from('Ed\0\0B2'),
    Buffer.alloc(32 + 8 + 8),
    randomBytes(8),
    ...[d, x].map((half) => Buffer.from(half, 'base64url')),
    // A checksum, which only minisign reads.
    Buffer.alloc(32),
  ])
  return `untrusted comment: minisign secret key\n${bytes.toString('base64')}\n`
}

export const makeKey = (): SigningKey => toSigningKey(makeSecretKey())
