/** Certificate requests (PKCS #10, RFC 2986) and temporary certificates (X.509, RFC 5280) in DER, for P-256 keys. */
import { createPrivateKey, createPublicKey, generateKeyPairSync, randomBytes, sign } from 'node:crypto'

/** PEM. */
export function makeKey(): string {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
}

/** DER. @param key PEM */
export function toRequest(name: string, key: string): Buffer {
  const info = sequence(INTEGER_0, EMPTY, publicKeyOf(key), of(0xa0, sequence(EXTENSION_REQUEST, set(toNames(name)))))
  return signed(info, key)
}

/** PEM. A temporary certificate, which no client trusts. */
export function toSelfSigned(name: string, key: string, fromMs: number, toMs: number): string {
  const serial = of(0x02, Buffer.concat([Buffer.of(1), randomBytes(8)]))
  const subject = sequence(set(sequence(COMMON_NAME, of(0x0c, Buffer.from('Tollgate, temporary')))))
  const validity = sequence(toTime(fromMs), toTime(toMs))
  const extensions = of(0xa3, toNames(name))
  const info = sequence(VERSION_3, serial, ECDSA_SHA256, subject, validity, subject, publicKeyOf(key), extensions)
  const text = signed(info, key)
    .toString('base64')
    .match(/.{1,64}/g)
  return `-----BEGIN CERTIFICATE-----\n${text?.join('\n')}\n-----END CERTIFICATE-----\n`
}

function of(tag: number, ...parts: Buffer[]): Buffer {
  const body = Buffer.concat(parts)
  const { length } = body
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...size]), body])
}

const sequence = (...parts: Buffer[]) => of(0x30, ...parts)
const set = (...parts: Buffer[]) => of(0x31, ...parts)
const bits = (body: Buffer) => of(0x03, Buffer.of(0), body)
const oid = (hex: string) => of(0x06, Buffer.from(hex, 'hex'))
/** Years from 2050 need another type (RFC 5280, 4.1.2.5). */
const toTime = (ms: number) =>
  of(0x18, Buffer.from(`${new Date(ms).toISOString().replace(/[-:T]/g, '').slice(0, 14)}Z`))

const EMPTY = sequence()
const INTEGER_0 = of(0x02, Buffer.of(0))
const VERSION_3 = of(0xa0, of(0x02, Buffer.of(2)))
const ECDSA_SHA256 = sequence(oid('2a8648ce3d040302'))
const EXTENSION_REQUEST = oid('2a864886f70d01090e')
const SUBJECT_ALT_NAME = oid('551d11')
const COMMON_NAME = oid('550403')

const toNames = (name: string) => sequence(sequence(SUBJECT_ALT_NAME, of(0x04, sequence(of(0x82, Buffer.from(name))))))

const publicKeyOf = (key: string) => createPublicKey(key).export({ type: 'spki', format: 'der' })

const signed = (info: Buffer, key: string) =>
  sequence(info, ECDSA_SHA256, bits(sign('sha256', info, createPrivateKey(key))))
