/**
 * Replaces a data folder's database atomically: a kill at any moment leaves the old or the new one. New files are
 * prepared in `restore.part/`; renaming it to `restore/` commits. Then each old file moves to
 * `backups/replaced-<time>/`, and each new one into its place, the database last. The next holder of `serve.lock`
 * finishes or undoes an interrupted restore. A rollback does the same in its own folders, which older versions don't
 * know. Until it is finished, they find the newer database, and refuse it. Keep this file small: every start loads it.
 */
import {
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { ServiceError } from '../domain/service-error.ts'
import { JOURNALS } from '../ledger/journal-file.ts'
import { giveToOwner } from '../store/data-folder.ts'
import { BACKUPS, syncPath, toStamp } from '../store/files.ts'
import { storeOf } from '../store/open.ts'

/** Also the name of the folder that commits it. */
export type Swap = 'restore' | 'rollback'

/** Other files that it may replace, in this order. */
const BROUGHT: Record<Swap, readonly string[]> = {
  restore: ['ledger.mark', 'secret'],
  rollback: ['journal', 'ledger.mark'],
}
/** File in both folders: where the old files go, relative to the data folder. */
const TARGET = 'replaced'
/** May be in both folders; moves with the old files. */
export const REPORT = 'rollback.json'

const partOf = (dataFolder: string, swap: Swap) => join(dataFolder, `${swap}.part`)

const filesOf = (dataFolder: string) => storeOf(dataFolder).files

/** Creates an empty folder within the data folder, so that its files only need renaming. */
export function beginSwap(dataFolder: string, of: Swap = 'restore'): string {
  const folder = partOf(dataFolder, of)
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { mode: 0o700 })
  return folder
}

/** A file on another disk, which cannot be renamed; null if there is none. */
export function findMounted(dataFolder: string): string | null {
  const { dev } = statSync(dataFolder)
  const { main, sidecars } = filesOf(dataFolder)
  const names = [main, ...sidecars, ...JOURNALS, ...BROUGHT.restore]
  return (
    names.find((name) => (lstatSync(join(dataFolder, name), { throwIfNoEntry: false })?.dev ?? dev) !== dev) ?? null
  )
}

/** A free name: replaced files are never overwritten. */
function toFree(name: string, pathOf = (each: string) => each): string {
  let free = name
  for (let n = 2; existsSync(pathOf(free)); n++) free = `${name}-${n}`
  return free
}

export const cancelSwap = (dataFolder: string, of: Swap = 'restore') =>
  rmSync(partOf(dataFolder, of), { recursive: true, force: true })

/** Commits and replaces; the new files must be synced. Returns the folder of the old files, which does not exist if there were none. */
export function swap(dataFolder: string, nowMs: number, of: Swap = 'restore'): string {
  const part = partOf(dataFolder, of)
  const backups = join(dataFolder, BACKUPS)
  mkdirSync(backups, { recursive: true, mode: 0o700 })
  // Files cannot be renamed to another disk.
  const isSameDisk = statSync(backups).dev === statSync(dataFolder).dev
  const name = join(isSameDisk ? BACKUPS : '', `replaced-${toStamp(nowMs)}`)
  const target = toFree(name, (each) => join(dataFolder, each))
  writeFileSync(join(part, TARGET), target, { mode: 0o600 })
  const made = readdirSync(part, { recursive: true, encoding: 'utf8' }).map((name) => join(part, name))
  giveToOwner(dataFolder, [backups, part, join(dataFolder, 'serve.lock'), ...made])
  syncPath(join(part, TARGET))
  syncPath(part)
  renameSync(part, join(dataFolder, of))
  syncPath(dataFolder)
  return finish(dataFolder, of)
}

/** Each step may be done already: while a file is in `restore/`, the one in its place is the old one. */
function finish(dataFolder: string, of: Swap): string {
  const work = join(dataFolder, of)
  const target = join(dataFolder, readFileSync(join(work, TARGET), 'utf8'))
  mkdirSync(target, { recursive: true, mode: 0o700 })
  giveToOwner(dataFolder, [target])
  const moveOut = (name: string) => {
    if (existsSync(join(dataFolder, name))) renameSync(join(dataFolder, name), toFree(join(target, name)))
  }
  const moveIn = (name: string, clear = moveOut) => {
    if (!existsSync(join(work, name))) return
    clear(name)
    renameSync(join(work, name), join(dataFolder, name))
  }
  const { main, sidecars } = filesOf(dataFolder)
  const brought = BROUGHT[of]
  const others = JOURNALS.filter((name) => !brought.includes(name))
  if (existsSync(join(work, main))) for (const name of [...sidecars, ...others]) moveOut(name)
  for (const name of brought) moveIn(name)
  if (existsSync(join(work, REPORT))) renameSync(join(work, REPORT), join(target, REPORT))
  // The old log must be gone, or the new database would use it.
  syncPath(dataFolder)
  // Never leave it without a database: an older version would create an empty one.
  moveIn(main, (name) => link(join(dataFolder, name), join(target, name)) || moveOut(name))
  syncPath(target)
  syncPath(dataFolder)
  rmSync(work, { recursive: true })
  if (readdirSync(target).length === 0) rmdirSync(target)
  return target
}

/** Adds a hard link, unless there is one. False if that fails, since not every file system supports links. */
function link(from: string, to: string): boolean {
  if (!existsSync(from)) return false
  try {
    if (existsSync(to) && statSync(to).ino === statSync(from).ino) return true
    linkSync(from, toFree(to))
    return true
  } catch {
    return false
  }
}

/**
 * Finishes or undoes an interrupted restore, or rollback. The caller holds `serve.lock`. Throws a ServiceError if the other one is unfinished.
 *
 * @returns where the old files are, if finished.
 */
export function settleSwap(
  dataFolder: string,
  of: Swap = 'restore',
): { kind: 'none' | 'undone' } | { kind: 'finished'; replaced: string } {
  if (isDecided(dataFolder, of)) return { kind: 'finished', replaced: finish(dataFolder, of) }
  requireSettled(dataFolder)
  let isUndone = false
  for (const each of SWAPS) {
    // Everything was done except removing the folder.
    rmSync(join(dataFolder, each), { recursive: true, force: true })
    isUndone ||= existsSync(partOf(dataFolder, each))
    cancelSwap(dataFolder, each)
  }
  return { kind: isUndone ? 'undone' : 'none' }
}

const SWAPS: readonly Swap[] = ['restore', 'rollback']

/** True once committed, until TARGET is removed in the last step. */
const isDecided = (dataFolder: string, of: Swap) => existsSync(join(dataFolder, of, TARGET))

/** Throws a ServiceError if old and new files may be mixed. */
export function requireSettled(dataFolder: string): void {
  // The database is moved last.
  const of = SWAPS.find((each) => existsSync(join(dataFolder, each, filesOf(dataFolder).main)))
  if (of === undefined) return
  throw new ServiceError(
    { kind: `${of}_unfinished`, dataFolder },
    `A ${of} of ${dataFolder} is in progress, or was interrupted.`,
  )
}
