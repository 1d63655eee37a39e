/** Certificates in PEM files: reading, and checks before use. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import type { CertificateState } from '../../documents/server.ts'
import { codeOf } from '../../domain/error.ts'
import { isAddress } from '../../domain/ip.ts'
import { toDay } from '../../domain/time.ts'

/** The files of a certificate chain and its private key. */
export interface Pair {
  certFile: string
  keyFile: string
}

/** PEM texts. */
export interface PairText {
  cert: string
  key: string
}

export interface Certificate extends PairText {
  /** DNS names and IP addresses, for which clients accept it. */
  names: readonly string[]
  fromMs: number
  expiresMs: number
}

/** The message names the file and says what to do. */
export class BadCertificate extends Error {}

/** A chain with a dozen intermediates fits many times. */
const MAX_BYTES = 1024 ** 2

/** @throws BadCertificate */
export const readPair = async ({ certFile, keyFile }: Pair): Promise<PairText> => ({
  cert: await read(certFile, '--tls-cert'),
  key: await read(keyFile, '--tls-key'),
})

async function read(path: string, flag: string): Promise<string> {
  try {
    const found = await stat(path)
    if (!found.isFile()) throw new BadCertificate(`${path} (${flag}) isn't a file.`)
    if (found.size > MAX_BYTES) throw new BadCertificate(`${path} (${flag}) is too large for a PEM file.`)
    return await readFile(path, 'utf8')
  } catch (error) {
    if (error instanceof BadCertificate) throw error
    throw new BadCertificate(`Can't read ${path} (${flag}): ${WHY[codeOf(error) ?? ''] ?? String(error)}.`)
  }
}

const WHY: Readonly<Record<string, string>> = {
  ENOENT: 'no such file',
  EACCES: 'permission denied; the user that runs Tollgate must be able to read it',
  ENOTDIR: 'no such file',
}

/** @throws BadCertificate unless clients could accept it at this time. */
export function toCertificate({ cert, key }: PairText, { certFile, keyFile }: Pair, nowMs: number): Certificate {
  const [leaf, ...others] = toChain(cert, certFile)
  const secret = toPrivateKey(key, keyFile)
  if (!leaf.checkPrivateKey(secret)) {
    const isLater = others.some((other) => other.checkPrivateKey(secret))
    const why = isLater ? "the server's own certificate must be the first of the file" : 'they must be a pair'
    throw new BadCertificate(`The key in ${keyFile} doesn't match the certificate in ${certFile}: ${why}.`)
  }
  const expiresMs = leaf.validToDate.getTime()
  if (expiresMs <= nowMs)
    throw new BadCertificate(`The certificate in ${certFile} expired on ${toDay(expiresMs)}. Renew it.`)
  return { cert, key, names: toNames(leaf), fromMs: leaf.validFromDate.getTime(), expiresMs }
}

function toChain(text: string, file: string): [X509Certificate, ...X509Certificate[]] {
  const blocks = text.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? []
  try {
    const [leaf, ...others] = blocks.map((block) => new X509Certificate(block))
    if (leaf) return [leaf, ...others]
  } catch {}
  throw new BadCertificate(`${file} has no valid PEM certificate.`)
}

function toPrivateKey(text: string, file: string) {
  try {
    return createPrivateKey(text)
  } catch {
    throw new BadCertificate(`${file} has no valid PEM private key without a passphrase.`)
  }
}

/** Clients read only the subject alternative names (RFC 9110, 4.3.4). */
const toNames = ({ subjectAltName }: X509Certificate) =>
  (subjectAltName ?? '').split(', ').flatMap((entry) => {
    const [, kind, name = ''] = /^(DNS|IP Address):([\w.:*-]+)$/.exec(entry) ?? []
    return kind === undefined ? [] : [name.toLowerCase()]
  })

/** One entry per name for SNI; the first certificate is also for clients without SNI or with another name. */
export function toServed(certificates: readonly Certificate[]) {
  const named = certificates.flatMap(({ cert, key, names }) =>
    names.filter((name) => !isAddress(name)).map((serverName) => ({ serverName, cert, key })),
  )
  const [first] = certificates
  return first ? [{ cert: first.cert, key: first.key }, ...named] : []
}

/** `https` origins of the certificates' names, except wildcards. */
export const toOrigins = (certificates: readonly Certificate[], port: number): string[] =>
  certificates.flatMap(({ names }) => names.filter((name) => !name.includes('*')).map((name) => toOrigin(name, port)))

export const toOrigin = (host: string, port: number) =>
  new URL(`https://${host.includes(':') ? `[${host}]` : host}:${port}`).origin

export const toState = ({ names, fromMs, expiresMs }: Certificate, problem: string | null): CertificateState => ({
  names: [...names],
  valid_from_ms: fromMs,
  expires_ms: expiresMs,
  problem,
})
