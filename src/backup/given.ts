/** The backup that a restore is given: looked at before anything else is, and copied with what lies beside it. */
import { chmodSync, closeSync, copyFileSync, existsSync, openSync, readSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { codeOf, messageOf } from '../domain/error.ts'
import { ServiceError } from '../domain/service-error.ts'
import { freeBytesOf, syncPath, toMebibytes } from '../store/disk.ts'
import { isServed } from '../store/sqlite/database-file.ts'
import { databasePath } from '../store/sqlite/open.ts'
import { toSecretFile } from './create.ts'

const DATABASE = 'tollgate.db'

/** Whether it is the database of a data folder that was copied whole, and has a log and a journal beside it. */
export const isOfFolder = (file: string) => basename(file) === DATABASE

export const unusable = (path: string, why: string) =>
  new ServiceError({ kind: 'backup_unusable', path }, `${path} ${why}.`)

/** Throws where it cannot be one, as far as its first bytes tell: who gives a wrong file is to hear that, and of nothing else first. */
export function requireBackup(file: string, dataFolder: string): void {
  const found = statSync(file, { throwIfNoEntry: false })
  if (!found?.isFile()) throw unusable(file, found ? 'is no file' : 'is not there')
  const replaced = statSync(databasePath(dataFolder), { throwIfNoEntry: false })
  if (replaced?.ino === found.ino && replaced.dev === found.dev) throw unusable(file, 'is the database itself')
  if (isOfFolder(file) && isServed(dirname(file)))
    throw unusable(file, 'is the database of a running server, of which only `tollgate backup` makes a copy')
  if (readHead(file) !== HEAD) throw unusable(file, 'is not a database')
}

/** What every SQLite database begins with (https://sqlite.org/fileformat.html). */
const HEAD = 'SQLite format 3\0'

function readHead(file: string): string {
  try {
    const fd = openSync(file, 'r')
    try {
      const head = Buffer.alloc(HEAD.length)
      return head.toString('latin1', 0, readSync(fd, head))
    } finally {
      closeSync(fd)
    }
  } catch (error) {
    throw unusable(file, `cannot be read (${messageOf(error)})`)
  }
}

/** A plain copy of a data folder may have a part of its database in its log. */
export function copyDatabase(file: string, path: string, dataFolder: string): void {
  const endings = ['', '-wal'].filter((ending) => existsSync(`${file}${ending}`))
  const needed = endings.reduce((sum, ending) => sum + statSync(`${file}${ending}`).size, 0)
  if (freeBytesOf(dataFolder) < needed) throw noRoom(dataFolder, needed)
  try {
    for (const ending of endings) {
      copyFileSync(`${file}${ending}`, `${path}${ending}`)
      chmodSync(`${path}${ending}`, 0o600)
    }
  } catch (error) {
    throw /^(ENOSPC|EDQUOT)$/.test(codeOf(error)) ? noRoom(dataFolder, needed) : error
  }
}

const noRoom = (folder: string, bytes: number) =>
  new ServiceError(
    { kind: 'no_room', folder },
    `This needs ${toMebibytes(bytes)} on the disk of ${folder}, which has ${toMebibytes(freeBytesOf(folder))}.`,
  )

/** Tells whether there is one beside the backup. */
export function copySecret(file: string, folder: string): boolean {
  const from = toSecretFile(file)
  if (!existsSync(from)) return false
  const to = join(folder, 'secret')
  copyFileSync(from, to)
  chmodSync(to, 0o600)
  syncPath(to)
  return true
}
