/**
 * References: `${NAME}` is a variable of the server, `file:PATH` a mounted file, whose path may begin with a variable: `file:${CREDENTIALS_DIRECTORY}/openai`.
 * Files are read with the configuration. Bindings: a stored credential is valid only for one destination and way of sending. To change these, enter it again.
 */

import { readFileSync, realpathSync, statSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { codeOf } from '../domain/error.ts'
import type { CredentialSource, Environment, OpenedCredential } from '../domain/snapshot.ts'
import type { UpstreamRow } from './catalog-rows.ts'
import { storeOf } from './open.ts'

export type CredentialBinding = Pick<UpstreamRow, 'dialect' | 'baseUrl' | 'options'>

export function toCredentialBinding({ dialect, baseUrl, options }: CredentialBinding): unknown[] {
  const { preset, path, auth, service_account, query, headers } = options
  const more = Object.entries({ preset, path, auth, service_account, query: sorted(query), headers: sorted(headers) })
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => [name, value])
  // Older credentials were encrypted without these fields.
  return more.length === 0 ? [dialect, baseUrl] : [dialect, baseUrl, more]
}

export const isSameCredentialBinding = (one: CredentialBinding, other: CredentialBinding): boolean =>
  Bun.deepEquals(toCredentialBinding(one), toCredentialBinding(other))

const sorted = (texts: Record<string, string> | undefined) =>
  texts && Object.entries(texts).sort(([a], [b]) => (a < b ? -1 : 1))

const VARIABLE = /^\$\{([A-Za-z_][A-Za-z0-9_]*)\}$/
const FILE = /^file:((?:\$\{([A-Za-z_][A-Za-z0-9_]*)\})?\/[^\0\n]*)$/

/** null for anything but `${NAME}`. */
export const toVariable = (reference: string): string | null => VARIABLE.exec(reference)?.[1] ?? null

export const isReference = (text: string): boolean => VARIABLE.test(text) || FILE.test(text)

export const toReferences = (ref: string | readonly string[] | null | undefined): readonly string[] =>
  [ref ?? []].flat()

export function toSource(reference: string): Pick<CredentialSource, 'from' | 'name'> {
  const variable = toVariable(reference)
  return variable === null
    ? { from: 'file', name: reference.slice('file:'.length) }
    : { from: 'variable', name: variable }
}

/** @param where location of the environment, for messages. */
export function resolveReference(reference: string, environment: Environment, where: string): OpenedCredential {
  const variable = toVariable(reference)
  if (variable === null) return readFile(reference, environment, where)
  if (OWN_VARIABLES.test(variable)) return { problem: `the variable ${variable} is the server's own secret` }
  const credential = environment[variable]
  return credential ? { credential } : { problem: `the variable ${variable} is not set ${where}` }
}

/** Variables that no reference may use. Otherwise, write access to the configuration, such as in a cluster's PostgreSQL, could send them anywhere. */
const OWN_VARIABLES = /^TOLLGATE_(SECRET|SECRET_PREVIOUS|CLUSTER|LIMITS|OIDC_CLIENT_SECRET)$/
const OWN_FILES = ['secret', 'cluster']

function isOwn(path: string): boolean {
  const real = realpathSync.native(path)
  return OWN_FILES.includes(basename(real)) && storeOf(dirname(real)).exists()
}

/** A service account's has 2,400 characters. */
const MAX_BYTES = 64 * 1024

function readFile(reference: string, environment: Environment, where: string): OpenedCredential {
  const [, named = '', folder] = FILE.exec(reference) ?? []
  const at = folder === undefined ? '' : environment[folder]
  if (folder !== undefined && !at) return { problem: `the variable ${folder} is not set ${where}` }
  const path = folder === undefined ? named : `${at}${named.slice(named.indexOf('}') + 1)}`
  const toProblem = (why: string) => ({ problem: `the file ${path} ${why}` })
  try {
    const stat = statSync(path)
    if (!stat.isFile()) return toProblem('is not a file')
    if (isOwn(path)) return toProblem("is the server's own secret")
    if (stat.size > MAX_BYTES) return toProblem('is too long for a credential')
    // Containers mount secrets world-readable.
    if (stat.mode & 0o002) return toProblem('is world-writable: fix with chmod o-w')
    // Editors add a final line break.
    const text = readFileSync(path, 'utf8').trim()
    if (text === '') return toProblem('is empty')
    if (!/^[\x21-\x7e]+$/.test(text) && !text.startsWith('{')) return toProblem('must hold exactly one credential')
    return { credential: text }
  } catch (error) {
    return toProblem(PROBLEMS[codeOf(error)] ?? `cannot be read (${codeOf(error)})`)
  }
}

const PROBLEMS: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist',
  ENOTDIR: 'does not exist',
  EACCES: 'is not readable by the user of this process',
}
