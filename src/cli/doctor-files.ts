/**
 * What `doctor` sees of the data folder without opening the database: who may read it, how much room there is, what the
 * spool holds. Only looks.
 */

import { accessSync, constants, lstatSync, readdirSync, type Stats, statfsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf, messageOf } from '../domain/error.ts'
import { filesIn, listSegments, REJECTED, readSegment } from '../ledger/segment.ts'
import { SEGMENT_BYTES } from '../ledger/spool.ts'
import { type Check, count, ok, problem, toMissing, warning } from './doctor-check.ts'

/** Looks at the folder itself. Anything but `usable` means that nothing in it can be looked at. */
export function checkFolder(dataFolder: string, served: boolean): { checks: Check[]; usable: boolean } {
  const name = 'data_folder'
  const broken = (message: string) => ({ checks: [problem(name, message)], usable: false })
  let found: Stats
  try {
    found = statSync(dataFolder)
    if (!found.isDirectory()) return broken(`${dataFolder} is a file. Name a folder with --data.`)
    accessSync(dataFolder, constants.R_OK | constants.X_OK)
  } catch (error) {
    const code = codeOf(error)
    if (code === 'EACCES' || code === 'EPERM')
      return broken(`This user may not look into ${dataFolder}. Run this as the user that the server runs as.`)
    if (code === 'ENOENT' || code === 'ENOTDIR') return broken(toMissing(dataFolder, dataFolder))
    return broken(`${dataFolder} cannot be looked into: ${messageOf(error)}.`)
  }
  return { checks: [checkWritable(dataFolder, found, served), checkModes(dataFolder, found)], usable: true }
}

function checkWritable(dataFolder: string, { mode }: Stats, served: boolean): Check {
  if (isWritable(dataFolder, mode)) return ok('data_folder', dataFolder)
  if (served)
    return warning('data_folder', `${dataFolder} belongs to another user: this one can look, and change nothing.`)
  return problem('data_folder', `This user cannot write in ${dataFolder}, so a server of this user could not start.`)
}

function isWritable(dataFolder: string, mode: number): boolean {
  try {
    accessSync(dataFolder, constants.W_OK | constants.X_OK)
    // Root may write anywhere, also where the owner asked for the opposite.
    return (mode & constants.S_IWUSR) !== 0
  } catch {
    return false
  }
}

/** Rights of the group and of others. */
const FOREIGN = 0o077
const OURS = /^(tollgate\.db(-wal|-shm)?|serve\.lock|control\.sock|secret|spool|backups|logs|run)$/

function checkModes(dataFolder: string, { mode }: Stats): Check {
  const ours = readdirSync(dataFolder).filter((name) => OURS.test(name))
  const inside = ours.flatMap((name) => [name, ...filesIn(join(dataFolder, name)).map((file) => join(name, file))])
  const open = (mode & FOREIGN) === 0 ? [] : ['the folder']
  open.push(...inside.filter((name) => (modeOf(join(dataFolder, name)) & FOREIGN) !== 0))
  if (open.length === 0) return ok('permissions', 'The folder and what is in it are open to their owner alone.')
  const rest = open.length > 5 ? ` and ${open.length - 5} more` : ''
  return warning(
    'permissions',
    `Others than the owner may use ${open.slice(0, 5).join(', ')}${rest}. Close them: chmod -R go= ${dataFolder}`,
  )
}

const modeOf = (path: string) => lstatSync(path, { throwIfNoEntry: false })?.mode ?? 0

/** What is ready beside what is being written: without it a full disk would end in refusals. */
const LEAST_BYTES = 2 * SEGMENT_BYTES
const COMFORT_BYTES = 64 * SEGMENT_BYTES

/** Looks whether the disk has room for the spool and the database's log. */
export function checkDisk(dataFolder: string): Check[] {
  const { bavail, bsize } = statfsSync(dataFolder)
  const free = bavail * bsize
  const text = free >= 1e9 ? `${(free / 1e9).toFixed(1)} GB` : `${Math.floor(free / 1e6)} MB`
  const message = `${text} are free on the disk of the data folder`
  if (free < LEAST_BYTES)
    return [
      problem('disk', `${message}: too little for the spool. Make room, or requests will be refused before long.`),
    ]
  return [free < COMFORT_BYTES ? warning('disk', `${message}. Make room soon.`) : ok('disk', `${message}.`)]
}

/**
 * Looks for rows that wait for the database.
 *
 * @param living the instance of the running server; null where none runs, undefined where nobody knows which.
 */
export function checkSpool(dataFolder: string, living: string | null | undefined): Check[] {
  const folder = join(dataFolder, 'spool')
  const checks: Check[] = []
  if (isClosed(folder)) return [warning('spool', `This user may not look into ${folder}.`)]
  for (const path of listSegments(folder)) {
    const file = path.slice(folder.length + 1)
    const records = countRecords(path)
    if (records === null) checks.push(warning('spool', `spool/${file} cannot be read by this user.`))
    if (!records) continue
    const held = `spool/${file} holds ${count(records, 'ledger row')}`
    if (living === undefined) checks.push(warning('spool', `${held}, of the running server or of one before it.`))
    else if (living !== null && file.startsWith(`${living}-`))
      checks.push(ok('spool', `${held} that the running server writes to the database once it can.`))
    else checks.push(warning('spool', `${held} of a server that is gone. The next start replays them.`))
  }
  for (const file of filesIn(folder).filter((name) => name.endsWith(REJECTED)))
    checks.push(
      problem(
        'spool',
        `spool/${file} keeps ledger rows that the database would not take. Look at them, then move the file away.`,
      ),
    )
  return checks.length > 0 ? checks : [ok('spool', 'No ledger rows wait in the spool.')]
}

/** Null where it cannot be read; 0 where the server has just deleted it. */
function countRecords(path: string): number | null {
  try {
    return readSegment(path).length
  } catch (error) {
    return codeOf(error) === 'ENOENT' ? 0 : null
  }
}

function isClosed(folder: string): boolean {
  try {
    accessSync(folder, constants.R_OK | constants.X_OK)
    return false
  } catch (error) {
    return codeOf(error) !== 'ENOENT'
  }
}
