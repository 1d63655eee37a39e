/**
 * What seals the credentials that were typed in: the variable TOLLGATE_SECRET, else the data folder's file `secret`, which is made when
 * it is first needed and has one line; while it is being replaced, one more for what it replaces. The first one seals, all of them open.
 */
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf, messageOf } from '../domain/error.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { Environment } from '../domain/snapshot.ts'
import { putFile, syncPath } from './files.ts'

export interface Secret {
  bytes: Uint8Array<ArrayBuffer>
  /** By which what it has sealed knows it, 8 hex digits; nothing leads back from it. */
  id: string
}

export interface SecretFile {
  /** The first one seals; none where nothing was ever sealed, or the file is gone. Throws `secret_unusable`. */
  read(): Secret[]
  /** As `read`, and makes the file where there is none at all. */
  need(): Secret[]
  /** Makes a new one, which seals from now on, beside those that there are; not where the variable has it, or one is new already. */
  renew(): void
  /** All but the one that seals are forgotten. */
  forget(): void
  /** Where it is, in words that go on a sentence. */
  readonly where: string
}

const VARIABLE = 'TOLLGATE_SECRET'
/** What TOLLGATE_SECRET was before, for as long as something is sealed with that. */
const PREVIOUS = 'TOLLGATE_SECRET_PREVIOUS'
const SECRET_BYTES = 32
/** Nobody guesses a text of so many characters that was made by chance. */
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
      // From a variable back to a file.
      if (own === null && lines.length === 0 && previous !== null) make()
      // Two are there where a renewal was cut off.
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
  throw unusable(name, `${name} is too short: give it ${MIN_CHARS} characters or more, as by: openssl rand -hex 32.`)
}

/** None where there is no file. */
function readLines(path: string): Uint8Array<ArrayBuffer>[] {
  let text: string
  try {
    text = readFileSync(path, 'utf8').trim()
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return []
    throw unusable(path, `The file ${path} cannot be read: ${messageOf(error)}.`)
  }
  const lines = text.split('\n')
  if (lines.every((line) => /^[\da-f]{64}$/.test(line)))
    return lines.map((line) => new Uint8Array(Buffer.from(line, 'hex')))
  throw unusable(path, `The file ${path} is not as Tollgate has made it. Put it back from a copy.`)
}

/** @param isNew never over another one. */
function write(path: string, secrets: readonly Secret[], isNew: boolean): void {
  const lines = secrets.map(({ bytes }) => `${Buffer.from(bytes).toString('hex')}\n`)
  try {
    putFile(path, lines.join(''), { mode: 0o600, isNew })
  } catch (error) {
    throw unusable(path, `The file ${path} cannot be written: ${messageOf(error)}.`)
  }
}

const unusable = (path: string, message: string) => new ServiceError({ kind: 'secret_unusable', path }, message)
