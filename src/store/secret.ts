/**
 * Keys that encrypt stored credentials: the variable TOLLGATE_SECRET, or else the data folder's file `secret`, which is created on first use with one line per
 * key. During a rotation it has a second line for the old key. The first key encrypts; all decrypt.
 */
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf, messageOf } from '../domain/error.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Environment } from '../domain/snapshot.ts'
import { putFile, syncPath } from './files.ts'

export interface Secret {
  bytes: Uint8Array<ArrayBuffer>
  /** Stored with what it encrypted: 8 hex digits, from which the key cannot be derived. */
  id: string
}

export interface SecretFile {
  /** The first one encrypts; empty if nothing was ever encrypted, or the file is gone. Throws `secret_unusable`. */
  read(): Secret[]
  /** Like `read`, but creates a missing file. */
  need(): Secret[]
  /** Adds a new first key, unless the variable provides it or a rotation is in progress. */
  renew(): void
  /** Drops all but the first key. */
  forget(): void
  /** Location, as part of a sentence. */
  readonly where: string
}

const VARIABLE = 'TOLLGATE_SECRET'
/** The previous TOLLGATE_SECRET, while credentials are still encrypted with it. */
const PREVIOUS = 'TOLLGATE_SECRET_PREVIOUS'
const SECRET_BYTES = 32
/** Too long to guess, if random. */
const MIN_CHARS = 32

export function openSecret(dataFolder: string, environment: Environment): SecretFile {
  const path = join(dataFolder, 'secret')
  const own = environment[VARIABLE]?.trim() || null
  const previous = environment[PREVIOUS]?.trim() || null

  const read = (): Secret[] => {
    const [first, before] = [fromVariable(VARIABLE, own), fromVariable(PREVIOUS, previous)]
    const lines = readLines(path).map(toSecret)
    return [first ?? [], lines, before ?? []].flat()
  }
  const make = () => write(path, [mint()], true)
  const replace = (secrets: readonly Secret[]) => write(path, secrets, false)

  return {
    where: own === null ? `the file ${path}` : VARIABLE,
    read,
    need() {
      if (own === null && readLines(path).length === 0) make()
      return read()
    },
    renew() {
      const lines = readLines(path).map(toSecret)
      // Switches from the variable to the file.
      if (own === null && lines.length === 0 && previous !== null) make()
      // Two are there if a rotation was interrupted.
      if (own === null && lines.length === 1) replace([mint(), ...lines])
    },
    forget() {
      const [first] = readLines(path)
      if (own !== null) rmSync(path, { force: true })
      else if (first !== undefined) replace([toSecret(first)])
      syncPath(dataFolder)
    },
  }
}

const toSecret = (bytes: Uint8Array<ArrayBuffer>): Secret => ({
  bytes,
  id: new Bun.CryptoHasher('sha256').update('tollgate secret').update(bytes).digest('hex').slice(0, 8),
})

const mint = () => toSecret(crypto.getRandomValues(new Uint8Array(SECRET_BYTES)))

function fromVariable(name: string, text: string | null): Secret | null {
  if (text === null) return null
  if (text.length >= MIN_CHARS) return toSecret(new TextEncoder().encode(text))
  throw unusable(name, `${name} is too short: use at least ${MIN_CHARS} characters, e.g. from: openssl rand -hex 32.`)
}

function readLines(path: string): Uint8Array<ArrayBuffer>[] {
  let text: string
  try {
    text = readFileSync(path, 'utf8').trim()
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return []
    throw unusable(path, `Cannot read ${path}: ${messageOf(error)}.`)
  }
  const lines = text.split('\n')
  if (lines.every((line) => /^[\da-f]{64}$/.test(line)))
    return lines.map((line) => new Uint8Array(Buffer.from(line, 'hex')))
  throw unusable(
    path,
    `${path} is damaged: it is not an encryption key that Tollgate created. Restore it from a backup.`,
  )
}

/** @param isNew never replaces a file. */
function write(path: string, secrets: readonly Secret[], isNew: boolean): void {
  const lines = secrets.map(({ bytes }) => `${Buffer.from(bytes).toString('hex')}\n`)
  try {
    putFile(path, lines.join(''), { mode: 0o600, isNew })
  } catch (error) {
    throw unusable(path, `Cannot write ${path}: ${messageOf(error)}.`)
  }
}

const unusable = (path: string, message: string) => new ServiceError({ kind: 'secret_unusable', path }, message)
