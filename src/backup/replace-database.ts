/**
 * Has a restored database take the place of what a data folder has, so that a kill at any moment leaves the one or the other.
 * What is to come is made in `restore.part/`; its renaming to `restore/` decides that it comes. Then each old file moves to
 * `backups/replaced-<time>/`, and each new one into its place, the database last. Whoever holds `serve.lock` next finishes what
 * was decided, and removes what was not: a start, or another restore. Light: every start loads it.
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
/** In either of them: where the old files go, relative to the data folder. */
const TARGET = 'replaced'
/** What a restore may bring beside it. */
const BESIDE = ['ledger.mark', 'secret']

const filesOf = (dataFolder: string) => storeOf(dataFolder).files

/** Makes an empty folder for what is to come, in the data folder: whatever goes from there into its place is only renamed. */
export function beginSwap(dataFolder: string): string {
  const folder = join(dataFolder, PART)
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { mode: 0o700 })
  return folder
}

/** Names what keeps a swap from being done by renaming; null where nothing does. */
export function findMounted(dataFolder: string): string | null {
  const { dev } = statSync(dataFolder)
  const { main, beside } = filesOf(dataFolder)
  const names = [main, ...beside, ...JOURNALS, ...BESIDE]
  return (
    names.find((name) => (lstatSync(join(dataFolder, name), { throwIfNoEntry: false })?.dev ?? dev) !== dev) ?? null
  )
}

/** A name that nothing has: nothing that was put away is ever written over. */
function toFree(name: string, pathOf = (each: string) => each): string {
  let free = name
  for (let n = 2; existsSync(pathOf(free)); n++) free = `${name}-${n}`
  return free
}

/** Undoes what is not decided. */
export const cancelSwap = (dataFolder: string) => rmSync(join(dataFolder, PART), { recursive: true, force: true })

/** Swaps. What is in the folder of `beginSwap` is on the disk. Returns where the old files are; where there were none, it is not there. */
export function swap(dataFolder: string, nowMs: number): string {
  const backups = join(dataFolder, BACKUPS)
  mkdirSync(backups, { recursive: true, mode: 0o700 })
  // Where it is a disk of its own, nothing could be renamed to it.
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

/** Each step may have been done already: of a file that is still in `restore/`, the one in its place is the old one. */
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
  // Without its log gone, the new one would take that for its own.
  syncPath(dataFolder)
  moveIn(main)
  syncPath(target)
  syncPath(dataFolder)
  rmSync(work, { recursive: true })
  if (readdirSync(target).length === 0) rmdirSync(target)
  return target
}

/**
 * Finishes or undoes what a restore has left that was killed. The caller holds `serve.lock`.
 *
 * @returns where the old files are now, where it was finished.
 */
export function settleSwap(dataFolder: string): { kind: 'none' | 'undone' } | { kind: 'finished'; replaced: string } {
  if (isDecided(dataFolder)) return { kind: 'finished', replaced: finish(dataFolder) }
  // All was done but for the removal of the folder itself.
  rmSync(join(dataFolder, DECIDED), { recursive: true, force: true })
  if (!existsSync(join(dataFolder, PART))) return { kind: 'none' }
  cancelSwap(dataFolder)
  return { kind: 'undone' }
}

/** Until the name of where the old files go is gone, which goes last. */
const isDecided = (dataFolder: string) => existsSync(join(dataFolder, DECIDED, TARGET))

/** Throws a ServiceError where old and new files may stand side by side. */
export function requireSettled(dataFolder: string): void {
  if (!isDecided(dataFolder)) return
  throw new ServiceError(
    { kind: 'restore_unfinished', dataFolder },
    `A restore of ${dataFolder} is under way, or was broken off before its end.`,
  )
}
