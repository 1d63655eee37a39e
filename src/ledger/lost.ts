/**
 * Says where a data folder has lost its database: what only a database that was in use leaves is there, and it is not, or is
 * empty. SQLite would begin a new one and drop the log of the old one. A start refuses that, and `doctor` tells it.
 */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { count } from '../domain/text.ts'
import { listSegments, readSegment } from './journal-folder.ts'
import { readMark } from './mark.ts'

const DATABASE = 'tollgate.db'
const LOG = 'tollgate.db-wal'

/** The sentence for an administrator; null where nothing was lost. */
export function findLost(dataFolder: string): string | null {
  const path = join(dataFolder, DATABASE)
  const size = sizeOf(path)
  if (size !== null && size > 0) return null
  const left: string[] = []
  if ((sizeOf(join(dataFolder, LOG)) ?? 0) > 0) left.push(`${LOG}, with its last changes`)
  for (const folder of ['journal', 'spool']) {
    const records = listSegments(join(dataFolder, folder)).reduce((sum, each) => sum + readSegment(each).length, 0)
    if (records > 0) left.push(`${folder}/, with ${count(records, 'ledger record')}`)
  }
  const counted = readMark(dataFolder) ?? 0
  if (counted > 0) left.push(`ledger.mark, which counts ${count(counted, 'request')}`)
  if (left.length === 0) return null
  return `${path} ${size === null ? 'is missing' : 'is empty'}, but its folder still holds ${left.join('; ')}: the database was removed or emptied. Put it back, or restore a backup of it; to begin with a new one, move those away first.`
}

/** In bytes; null where there is no such file. */
export const sizeOf = (path: string) => statSync(path, { throwIfNoEntry: false })?.size ?? null
