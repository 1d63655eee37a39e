/**
 * Encryption keys of stored credentials: TOLLGATE_SECRET, or the data folder's file `secret`, created on first use, with a second line for the old key during a
 * rotation. The first key encrypts; all decrypt.
 */
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf, messageOf } from '../domain/error.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Environment } from '../domain/snapshot.ts'
import { putFile, syncPath } from './files.ts'

export interface Secret {
  bytes: Uint8Array<ArrayBuffer>
  /** 8 hex digits, stored with encrypted data; the key cannot be derived from the ID. */
  id: string
}

export interface SecretFile {
  /** The first key encrypts. Empty if never used, or the file is missing. Throws `secret_unusable`. */
  read(): Secret[]
  need(): Secret[]
  /** Adds a new first key, unless the variable has one or a rotation is in progress. */
  renew(): void
  forget(): void
  /** Where the first key is; part of a sentence. */
  readonly where: string
  /** True if the first key is from the variable. */
  readonly isVariable: boolean
}

const VARIABLE = 'TOLLGATE_SECRET'
/** The old key during a rotation. */
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
    isVariable: own !== null,
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
      // A rotation was interrupted.
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
    throw unusable(path, `Can't read ${path}: ${messageOf(error)}.`)
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
    throw unusable(path, `Can't write ${path}: ${messageOf(error)}.`)
  }
}

const unusable = (path: string, message: string) => new ServiceError({ kind: 'secret_unusable', path }, message)
