/** Finds the cluster's URL: `--cluster`, TOLLGATE_CLUSTER, or the file written by `tollgate cluster join`. */
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { messageOf } from '../domain/error.ts'
import { toPostgresUrl } from '../domain/postgres-url.ts'
import { toBadConfig } from '../domain/service-error.ts'
import type { Environment } from '../domain/snapshot.ts'
import { putFile } from '../store/files.ts'

/** @param text a URL, or the path of a file that has one. Throws a ServiceError that doesn't include the URL. */
export function readClusterUrl(text: string): string {
  if (!text.startsWith('/')) return text
  let url: string
  try {
    url = readFileSync(text, 'utf8').trim()
  } catch (error) {
    throw toBadConfig([`Can't read the URL of the cluster from ${text}: ${messageOf(error)}.`])
  }
  if (toPostgresUrl(url) !== null) return url
  throw toBadConfig([`${text} must have the URL of PostgreSQL, e.g. postgres://tollgate@db.internal/tollgate.`])
}

/** For commands, which don't have the server's flags. Null if no URL is known. Throws a ServiceError. */
export function findClusterUrl(dataFolder: string, environment: Environment): string | null {
  const known = environment.TOLLGATE_CLUSTER || findJoined(dataFolder)
  return known === null ? null : readClusterUrl(known)
}

const fileOf = (dataFolder: string) => join(dataFolder, 'cluster')

/** Path of the file with the URL; null if `tollgate cluster join` hasn't run in this folder. */
export const findJoined = (dataFolder: string): string | null =>
  existsSync(fileOf(dataFolder)) ? fileOf(dataFolder) : null

export const keepJoined = (dataFolder: string, url: string): void =>
  putFile(fileOf(dataFolder), `${url}\n`, { mode: 0o600 })

export const forgetJoined = (dataFolder: string): void => rmSync(fileOf(dataFolder), { force: true })
