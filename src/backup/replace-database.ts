/**
 * Replaces a data folder's database atomically: a kill at any moment leaves the old or the new one. New files are prepared in `restore.part/`; renaming it to
 * `restore/` commits. Then each old file moves to `backups/replaced-<time>/`, and each new one into its place, the database last. The next holder of
 * `serve.lock` finishes or undoes an interrupted restore. Keep it small: every start loads it.
 */
import {
  existsSync,
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

const PART = 'restore.part'
const DECIDED = 'restore'
/** File in both folders: where the old files go, relative to the data folder. */
const TARGET = 'replaced'
/** Other files that a restore may bring. */
const BESIDE = ['ledger.mark', 'secret']

const filesOf = (dataFolder: string) => storeOf(dataFolder).files

/** Creates an empty folder within the data folder, so that its files only need renaming. */
export function beginSwap(dataFolder: string): string {
  const folder = join(dataFolder, PART)
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { mode: 0o700 })
  return folder
}

/** A file on another disk, which cannot be renamed; null if there is none. */
export function findMounted(dataFolder: string): string | null {
  const { dev } = statSync(dataFolder)
  const { main, beside } = filesOf(dataFolder)
  const names = [main, ...beside, ...JOURNALS, ...BESIDE]
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

export const cancelSwap = (dataFolder: string) => rmSync(join(dataFolder, PART), { recursive: true, force: true })

/** Commits and replaces; the new files must be synced. Returns the folder of the old files, which does not exist if there were none. */
export function swap(dataFolder: string, nowMs: number): string {
  const backups = join(dataFolder, BACKUPS)
  mkdirSync(backups, { recursive: true, mode: 0o700 })
  // Files cannot be renamed to another disk.
  const isSameDisk = statSync(backups).dev === statSync(dataFolder).dev
  const name = join(isSameDisk ? BACKUPS : '', `replaced-${toStamp(nowMs)}`)
  const target = toFree(name, (each) => join(dataFolder, each))
  writeFileSync(join(dataFolder, PART, TARGET), target, { mode: 0o600 })
  const made = readdirSync(join(dataFolder, PART)).map((name) => join(dataFolder, PART, name))
  giveToOwner(dataFolder, [backups, join(dataFolder, PART), join(dataFolder, 'serve.lock'), ...made])
  syncPath(join(dataFolder, PART, TARGET))
  syncPath(join(dataFolder, PART))
  renameSync(join(dataFolder, PART), join(dataFolder, DECIDED))
  syncPath(dataFolder)
  return finish(dataFolder)
}

/** Each step may be done already: while a file is in `restore/`, the one in its place is the old one. */
function finish(dataFolder: string): string {
  const work = join(dataFolder, DECIDED)
  const target = join(dataFolder, readFileSync(join(work, TARGET), 'utf8'))
  mkdirSync(target, { recursive: true, mode: 0o700 })
  giveToOwner(dataFolder, [target])
  const moveOut = (name: string) => {
    if (existsSync(join(dataFolder, name))) renameSync(join(dataFolder, name), toFree(join(target, name)))
  }
  const moveIn = (name: string) => {
    if (!existsSync(join(work, name))) return
    moveOut(name)
    renameSync(join(work, name), join(dataFolder, name))
  }
  const { main, beside } = filesOf(dataFolder)
  if (existsSync(join(work, main))) for (const name of [...beside, ...JOURNALS]) moveOut(name)
  for (const name of BESIDE) moveIn(name)
  // The old log must be gone, or the new database would use it.
  syncPath(dataFolder)
  moveIn(main)
  syncPath(target)
  syncPath(dataFolder)
  rmSync(work, { recursive: true })
  if (readdirSync(target).length === 0) rmdirSync(target)
  return target
}

/**
 * Finishes or undoes an interrupted restore. The caller holds `serve.lock`.
 *
 * @returns where the old files are, if finished.
 */
export function settleSwap(dataFolder: string): { kind: 'none' | 'undone' } | { kind: 'finished'; replaced: string } {
  if (isDecided(dataFolder)) return { kind: 'finished', replaced: finish(dataFolder) }
  // Everything was done except removing the folder.
  rmSync(join(dataFolder, DECIDED), { recursive: true, force: true })
  if (!existsSync(join(dataFolder, PART))) return { kind: 'none' }
  cancelSwap(dataFolder)
  return { kind: 'undone' }
}

/** Until TARGET is removed, which comes last. */
const isDecided = (dataFolder: string) => existsSync(join(dataFolder, DECIDED, TARGET))

/** Throws a ServiceError if old and new files may be mixed. */
export function requireSettled(dataFolder: string): void {
  if (!isDecided(dataFolder)) return
  throw new ServiceError(
    { kind: 'restore_unfinished', dataFolder },
    `A restore of ${dataFolder} is in progress, or was interrupted.`,
  )
}
