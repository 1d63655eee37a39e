/**
 * Watches the file of a catalogue and the folder of models beside it by looking at them again and again: editors replace files,
 * mounts of containers swap links, and of neither is an event to be relied on. A change counts once all of it has stood still from
 * one look to the next, so that a file that is being written is left to become whole. Whoever makes it decides how often it looks.
 */
import { stat } from 'node:fs/promises'
import { codeOf } from '../domain/error.ts'
import { ServiceError } from '../domain/service-error.ts'
import { listModelFiles } from './source.ts'

export interface WatchDeps {
  /** Where the file may be, as `listPlaces` has them; the first that is there counts. */
  places: readonly string[]
  /** The folder of files of models, which need not be there. */
  modelsFolder: string
  /**
   * Applies the file at a path, null for none, with the files of models, and returns whether that changed anything. Throws where it
   * cannot; then nothing has changed.
   */
  apply(path: string | null): Promise<boolean>
  /** Hears that a change was applied, or that the trouble with the files is over. */
  onApplied(path: string | null): void
  /** Hears once why a change was not applied, however often that is tried. */
  onTrouble(error: unknown): void
  /** Hears once that the file which was there is gone; what it has declared stays, and nothing is applied until it is back. */
  onGone(path: string): void
}

export interface CatalogWatch {
  /** Looks once, and applies what has changed. Never throws. A look while one is under way does nothing. */
  look(): Promise<void>
}

interface Seen {
  /** Of the catalogue; null where there is none. */
  path: string | null
  /** Another one is another file, or another content, of the catalogue or of a model. */
  stamp: string
}

/** Begins with the files as they are now: those are taken for applied. */
export async function watchCatalog({ places, modelsFolder, apply, ...tell }: WatchDeps): Promise<CatalogWatch> {
  /** What needs no more done about it. */
  let settled = await find(places, modelsFolder)
  /** What the last look found. */
  let last = settled
  let trouble = ''
  let isLooking = false

  async function look(): Promise<void> {
    // A file that stood in for one that is gone would take away all that this has declared.
    const from = settled.path === null ? places.length : places.indexOf(settled.path) + 1
    const before = last
    last = await find(places.slice(0, from), modelsFolder)
    if (last.path === null && before.path !== null) {
      tell.onGone(before.path)
      trouble = 'gone'
    }
    const isGone = last.path === null && settled.path !== null
    if (isGone || last.stamp !== before.stamp || last.stamp === settled.stamp) return
    try {
      const isChanged = await apply(last.path)
      settled = last
      if (isChanged || trouble !== '') tell.onApplied(last.path)
      trouble = ''
    } catch (error) {
      // A file that is wrong is so until it changes; a database that is busy may not be in a moment.
      if (error instanceof ServiceError) settled = last
      const why = String(error)
      if (why !== trouble) tell.onTrouble(error)
      trouble = why
    }
  }

  return {
    async look() {
      if (isLooking) return
      isLooking = true
      await look().finally(() => {
        isLooking = false
      })
    },
  }
}

async function find(places: readonly string[], modelsFolder: string): Promise<Seen> {
  const models = await stampModels(modelsFolder)
  for (const path of places) {
    const stamp = await stampFile(path)
    if (stamp !== null) return { path, stamp: `${stamp}\n${models}` }
  }
  return { path: null, stamp: models }
}

/** Of a folder that cannot be read, why: whoever applies it says so. */
async function stampModels(folder: string): Promise<string> {
  try {
    const paths = await listModelFiles(folder)
    return (await Promise.all(paths.map(stampFile))).join('\n')
  } catch (error) {
    return codeOf(error)
  }
}

/** Null where it cannot be looked at, which is as if it were not there. */
async function stampFile(path: string): Promise<string | null> {
  const found = await stat(path, { bigint: true }).catch(() => null)
  if (found === null) return null
  const { dev, ino, size, mtimeNs, ctimeNs } = found
  return [path, dev, ino, size, mtimeNs, ctimeNs].join(' ')
}
