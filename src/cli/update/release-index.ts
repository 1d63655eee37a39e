/**
 * Reads a publisher's releases: a signed `latest.json`, and the files next to it. Nothing that a server sends is
 * trusted.
 */

import { createReadStream } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { codeOf, messageOf } from '../../domain/error.ts'
import { isLoopback } from '../../domain/ip.ts'
import { toSizeText } from '../../domain/text.ts'
import { CommandError } from '../command-error.ts'
import { BadSignature, type PublicKey, verifySignature } from './minisign.ts'

export interface ReleaseFile {
  /** Next to the index. */
  name: string
  bytes: number
  /** In hex. */
  sha256: string
}

export interface Release {
  version: string
  commit: string
  /** Name of its newest migration. */
  schema: string
  /** By target. */
  files: Readonly<Record<string, ReleaseFile>>
}

export const unusable = (message: string) => new CommandError('update_unusable', `${message} Nothing was changed.`)

const MAX_INDEX_BYTES = 64 * 1024
const MAX_REDIRECTS = 5
/** Idle timeout of a server. */
const IDLE_MS = 30_000

/** @param from a URL, or a path on this machine. Throws `usage` unless it is HTTPS, a file, or this machine itself. */
export function toSourceUrl(from: string, cwd: string): URL {
  const url = URL.parse(from)
  // `C:\` parses as a URL, too.
  if (url === null || url.protocol.length === 2) return pathToFileURL(from.startsWith('/') ? from : `${cwd}/${from}`)
  if (isSafe(url)) return url
  throw new CommandError('usage', `--from must be a path, or a URL that begins with https:// (got '${from}').`, 2)
}

const isSafe = ({ protocol, hostname }: URL) =>
  protocol === 'https:' || protocol === 'file:' || (protocol === 'http:' && isLoopback(hostname))

/** @throws `update_unusable` unless one of the keys signed it. */
export async function readRelease(index: URL, keys: readonly PublicKey[]): Promise<Release> {
  const [content, signature] = [
    await readWhole(index, MAX_INDEX_BYTES),
    await readWhole(new URL(`${index.href}.minisig`), MAX_INDEX_BYTES),
  ]
  try {
    verifySignature(content, signature.toString(), keys)
  } catch (error) {
    if (error instanceof BadSignature) throw unusable(`The signature of ${index.href} ${error.message}.`)
    throw error
  }
  const release = toRelease(content.toString())
  if (release === null) throw unusable(`${index.href} is not a list of Tollgate releases.`)
  return release
}

function toRelease(text: string): Release | null {
  try {
    const { version, commit, schema, files } = Object(JSON.parse(text))
    const texts = [version, commit, schema]
    if (!texts.every((one) => typeof one === 'string') || !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version)) return null
    const all = Object.entries<Partial<ReleaseFile>>(Object(files))
    const areFiles = all.every(
      ([, { name, bytes, sha256 }]) =>
        /^\w[\w.+-]*$/.test(String(name)) && Number.isSafeInteger(bytes) && /^[0-9a-f]{64}$/.test(String(sha256)),
    )
    return areFiles ? { version, commit, schema, files } : null
  } catch {
    return null
  }
}

async function readWhole(url: URL, maxBytes: number): Promise<Buffer> {
  const pieces: Uint8Array[] = []
  for await (const piece of read(url, maxBytes)) pieces.push(piece)
  return Buffer.concat(pieces)
}

/** Yields at most `maxBytes`. Follows redirects, but never to plain HTTP or a file. @throws `update_unusable`. */
export async function* read(from: URL, maxBytes: number, idleMs = IDLE_MS): AsyncGenerator<Uint8Array> {
  const abort = new AbortController()
  let timer: Timer | undefined
  const wait = () => {
    clearTimeout(timer)
    timer = setTimeout(() => abort.abort(), idleMs)
  }
  try {
    wait()
    let left = maxBytes
    for await (const piece of from.protocol === 'file:' ? createReadStream(from) : await open(from, abort.signal)) {
      left -= piece.length
      if (left < 0) throw unusable(`${from.href} has more than ${toSizeText(maxBytes)}, which is too much.`)
      yield piece
      wait()
    }
  } catch (error) {
    if (error instanceof CommandError) throw error
    const why = abort.signal.aborted ? `nothing came for ${idleMs / 1_000} s` : codeOf(error) || messageOf(error)
    throw unusable(`Can't read ${from.href}: ${why}.`)
  } finally {
    clearTimeout(timer)
    abort.abort()
  }
}

async function open(from: URL, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
  let url = from
  for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
    const response = await fetch(url, {
      ...{ redirect: 'manual', signal, decompress: false },
      headers: { 'user-agent': 'tollgate', 'accept-encoding': 'identity' },
    })
    const { status, body, headers } = response
    if (status === 200 && body !== null) return body
    await body?.cancel()
    const location = headers.get('location')
    if (status < 300 || status > 399 || location === null) throw unusable(`${url.href} returned ${status}.`)
    const next = URL.parse(location, url.href)
    const isKept = next?.protocol === 'https:' || (next?.protocol === url.protocol && next.host === url.host)
    if (next === null || !isKept) throw unusable(`${url.href} redirects to an address without HTTPS.`)
    url = next
  }
  throw unusable(`${from.href} redirects more than ${MAX_REDIRECTS} times.`)
}
