/**
 * Watches the file of a catalogue by looking at it again and again: editors replace files, mounts of containers swap links, and
 * of neither is an event to be relied on. A change counts once the file has stood still from one look to the next, so that one
 * that is being written is left to become whole. Whoever makes it decides how often it looks.
 */
import { stat } from 'node:fs/promises'
import { ServiceError } from '../domain/service-error.ts'

export interface WatchDeps {
  /** Where the file may be, as `listPlaces` has them; the first that is there counts. */
  places: readonly string[]
  /** Applies the file at a path and returns whether that changed anything. Throws where it cannot; then nothing has changed. */
  apply(path: string): Promise<boolean>
  /** Hears that a change was applied, or that the trouble with the file is over. */
  onApplied(path: string): void
  /** Hears once why a file was not applied, however often that is tried. */
  onTrouble(error: unknown): void
  /** Hears once that the file which was there is gone; what it has declared stays. */
  onGone(path: string): void
}

export interface CatalogWatch {
  /** Looks once, and applies what has changed. Never throws. A look while one is under way does nothing. */
  look(): Promise<void>
}

interface Seen {
  path: string
  /** Another one is another file, or another content. */
  stamp: string
}

/** Begins with the file as it is now: that one is taken for applied. */
export async function watchCatalog({ places, apply, ...tell }: WatchDeps): Promise<CatalogWatch> {
  /** What needs no more done about it. */
  let settled = await find(places)
  /** What the last look found. */
  let last = settled
  let trouble = ''
  let isLooking = false

  async function look(): Promise<void> {
    // A file that stood in for one that is gone would take away all that this has declared.
    const from = settled === null ? places.length : places.indexOf(settled.path) + 1
    const found = await find(places.slice(0, from))
    const isStill = found?.stamp === last?.stamp
    if (found === null && last !== null) {
      tell.onGone(last.path)
      trouble = 'gone'
    }
    last = found
    if (found === null || !isStill || found.stamp === settled?.stamp) return
    try {
      const isChanged = await apply(found.path)
      settled = found
      if (isChanged || trouble !== '') tell.onApplied(found.path)
      trouble = ''
    } catch (error) {
      // A file that is wrong is so until it changes; a database that is busy may not be in a moment.
      if (error instanceof ServiceError) settled = found
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

/** The first file that is there. What cannot be looked at is not. */
async function find(places: readonly string[]): Promise<Seen | null> {
  for (const path of places) {
    const found = await stat(path, { bigint: true }).catch(() => null)
    if (found === null) continue
    const { dev, ino, size, mtimeNs, ctimeNs } = found
    return { path, stamp: [path, dev, ino, size, mtimeNs, ctimeNs].join(' ') }
  }
  return null
}
