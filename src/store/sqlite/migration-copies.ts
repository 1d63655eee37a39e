/**
 * The copy of the database from just before its last migration, in `backups/`, for `tollgate rollback`. Its `user_version` is the version of Tollgate that last
 * served it.
 */
import { constants, Database } from 'bun:sqlite'
import { mkdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { codeOf, messageOf } from '../../domain/error.ts'
import { ServiceError, type ServiceFailure } from '../../domain/service-error.ts'
import { BACKUPS, beginPart, filesIn, findLack, finishPart, removeParts } from '../files.ts'
import { isDiskFull } from '../refusal.ts'
import type { MigrationCopy } from '../store.ts'
import { readHeader } from './files.ts'
import { readSpace } from './prune.ts'

/** By time and version; earlier versions left theirs out. */
const COPY = /^before-migration-(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-(\d\d)-(\d{3})Z(?:-([\w.+-]+))?\.sqlite$/

/** Names of the applied migrations, in order. */
export function readApplied(sqlite: Database): string[] {
  const hasTable = sqlite.query("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'migrations'").get()
  if (!hasTable) return []
  return sqlite
    .query<{ name: string }, []>('SELECT name FROM migrations ORDER BY name')
    .all()
    .map(({ name }) => name)
}

const PARTS = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/

/** Other versions than `1.2.3` aren't recorded. */
export function writeVersion(sqlite: Database, version: string): void {
  const [, ...parts] = PARTS.exec(version) ?? []
  const number = parts.reduce((sum, part) => sum * 1_000 + Number(part), 0)
  if (readUserVersion(sqlite) !== number) sqlite.run(`PRAGMA user_version = ${number}`)
}

/** null if unknown. */
export function readVersion(sqlite: Database): string | null {
  const number = readUserVersion(sqlite)
  if (number === 0) return null
  return [Math.floor(number / 1_000_000), Math.floor(number / 1_000) % 1_000, number % 1_000].join('.')
}

const readUserVersion = (sqlite: Database): number =>
  sqlite.query<{ user_version: number }, []>('PRAGMA user_version').get()?.user_version ?? 0

/** Newest first. */
export const listCopies = (dataFolder: string): MigrationCopy[] =>
  filesIn(join(dataFolder, BACKUPS))
    .flatMap((name) => toCopy(join(dataFolder, BACKUPS), name) ?? [])
    .reverse()

const READ = constants.SQLITE_OPEN_READONLY | constants.SQLITE_OPEN_URI

/** null for other files. */
function toCopy(folder: string, name: string): MigrationCopy | null {
  const [, day, hours, minutes, seconds, ms, madeBy = null] = COPY.exec(name) ?? []
  if (day === undefined) return null
  const path = join(folder, name)
  const copy = { path, madeMs: Date.parse(`${day}T${hours}:${minutes}:${seconds}.${ms}Z`), madeBy }
  try {
    // An empty file is an empty database.
    if (readHeader(path) === null) throw new Error('it is not a database')
    using sqlite = new Database(`${pathToFileURL(path).href}?immutable=1`, READ)
    return { ...copy, version: readVersion(sqlite), migrations: readApplied(sqlite) }
  } catch {
    return { ...copy, version: null, migrations: [] }
  }
}

/**
 * An earlier copy stays until the migration has succeeded, unless a failed one made it. Throws a ServiceError if space is missing; then nothing has changed.
 *
 * @param version null if unknown.
 * @returns its path.
 */
export function keepCopy(sqlite: Database, dataFolder: string, nowMs: number, version: string | null): string {
  const folder = join(dataFolder, BACKUPS)
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
  } catch (error) {
    const why = codeOf(error) === 'EEXIST' ? `${folder} is a file, or links to a missing folder` : messageOf(error)
    throw noCopy({ kind: 'data_unwritable', dataFolder }, why)
  }
  removeParts(folder)
  const applied = readApplied(sqlite).join()
  for (const { path, migrations } of listCopies(dataFolder))
    if (migrations.join() === applied || isCut(path)) removeCopy(path)
  const time = new Date(nowMs).toISOString().replace(/[:.]/g, '-')
  const file = join(folder, `before-migration-${time}${version === null ? '' : `-${version}`}.sqlite`)
  const lack = findLack(readSpace(sqlite), folder, dataFolder)
  if (lack !== null) throw noRoom(folder, lack)
  const part = beginPart(file)
  try {
    sqlite.query('VACUUM INTO ?').run(part)
    finishPart(part, file, true)
    return file
  } catch (error) {
    throw isDiskFull(error) ? noRoom(folder, 'the disk is full') : error
  } finally {
    rmSync(part, { force: true })
  }
}

/** Older versions used the final name, and SQLite writes the header last. */
function isCut(path: string): boolean {
  try {
    return readHeader(path) === null
  } catch {
    return false
  }
}

/** After a migration has succeeded. */
export function dropOtherCopies(copy: string): void {
  for (const path of pathsIn(dirname(copy))) if (path !== copy) removeCopy(path)
}

function removeCopy(path: string): void {
  for (const each of [path, `${path}-journal`]) rmSync(each, { force: true })
}

const pathsIn = (folder: string): string[] =>
  filesIn(folder)
    .filter((name) => COPY.test(name))
    .map((name) => join(folder, name))

const noCopy = (failure: ServiceFailure, why: string) =>
  new ServiceError(failure, `Can't back up the database before migrating it: ${why}. Nothing was changed.`)

const noRoom = (folder: string, why: string) => noCopy({ kind: 'no_room', folder }, why)
