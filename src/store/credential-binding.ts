/**
 * Where the credential of an upstream comes from, and where it goes. It comes from a reference: `${NAME}` is a variable of the
 * server, `file:PATH` a file of its machine, such as a container or systemd mounts, which may begin with the variable of a folder:
 * `file:${CREDENTIALS_DIRECTORY}/openai`. Files are read when the configuration is: at the start, at a reload, after a change.
 * It goes to a place: whoever changes that has to have the credential.
 */

import { readFileSync, statSync } from 'node:fs'
import { codeOf } from '../domain/error.ts'
import type { CredentialSource, Environment, OpenedCredential } from '../domain/snapshot.ts'
import type { UpstreamRow } from './catalog-rows.ts'

export type CredentialBinding = Pick<UpstreamRow, 'dialect' | 'baseUrl' | 'options'>

/** What makes a place: the same for as long as the credential goes to the same address in the same manner. */
export function toCredentialBinding({ dialect, baseUrl, options }: CredentialBinding): unknown[] {
  const { preset, path, auth, service_account, query, headers } = options
  const more = Object.entries({ preset, path, auth, service_account, query: sorted(query), headers: sorted(headers) })
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => [name, value])
  // Credentials of upstreams that say none of it were sealed when there was none of it to say.
  return more.length === 0 ? [dialect, baseUrl] : [dialect, baseUrl, more]
}

/** Whether a credential would go where it went. */
export const isSameCredentialBinding = (one: CredentialBinding, other: CredentialBinding): boolean =>
  Bun.deepEquals(toCredentialBinding(one), toCredentialBinding(other))

const sorted = (texts: Record<string, string> | undefined) =>
  texts && Object.entries(texts).sort(([a], [b]) => (a < b ? -1 : 1))

const VARIABLE = /^\$\{([A-Za-z_][A-Za-z0-9_]*)\}$/
const FILE = /^file:((?:\$\{([A-Za-z_][A-Za-z0-9_]*)\})?\/[^\0\n]*)$/

/** The variable's name in a reference such as `${OPENAI_API_KEY}`, or null where the text is no such reference. */
export const toVariable = (reference: string): string | null => VARIABLE.exec(reference)?.[1] ?? null

export const isReference = (text: string): boolean => VARIABLE.test(text) || FILE.test(text)

/** Every reference that a row or an entry has. */
export const toReferences = (ref: string | readonly string[] | null | undefined): readonly string[] =>
  [ref ?? []].flat()

/** What a reference names. */
export function toSource(reference: string): Pick<CredentialSource, 'from' | 'name'> {
  const variable = toVariable(reference)
  return variable === null
    ? { from: 'file', name: reference.slice('file:'.length) }
    : { from: 'variable', name: variable }
}

/** @param where that environment is, in words for an administrator. */
export function resolveReference(reference: string, environment: Environment, where: string): OpenedCredential {
  const variable = toVariable(reference)
  if (variable === null) return readFile(reference, environment, where)
  const credential = environment[variable]
  return credential ? { credential } : { problem: `the variable ${variable} is not set ${where}` }
}

/** No credential is longer; a service account's has 2,400 characters. */
const MAX_BYTES = 64 * 1024

function readFile(reference: string, environment: Environment, where: string): OpenedCredential {
  const [, named = '', folder] = FILE.exec(reference) ?? []
  const at = folder === undefined ? '' : environment[folder]
  if (folder !== undefined && !at) return { problem: `the variable ${folder} is not set ${where}` }
  const path = folder === undefined ? named : `${at}${named.slice(named.indexOf('}') + 1)}`
  const toProblem = (why: string) => ({ problem: `the file ${path} ${why}` })
  try {
    const stat = statSync(path)
    if (!stat.isFile()) return toProblem('is no file')
    if (stat.size > MAX_BYTES) return toProblem('is too long for a credential')
    // Containers mount theirs so that everybody in there may read them.
    if (stat.mode & 0o002) return toProblem('may be written by everybody: take that right away with chmod o-w')
    // A line break at its end is the editor's.
    const text = readFileSync(path, 'utf8').trim()
    if (text === '') return toProblem('is empty')
    if (!/^[\x21-\x7e]+$/.test(text) && !text.startsWith('{')) return toProblem('holds more than one credential alone')
    return { credential: text }
  } catch (error) {
    return toProblem(PROBLEMS[codeOf(error)] ?? `cannot be read (${codeOf(error)})`)
  }
}

const PROBLEMS: Readonly<Record<string, string>> = {
  ENOENT: 'is not there',
  ENOTDIR: 'is not there',
  EACCES: 'may not be read by the user of this process',
}
