/** A worker's journal, which the keeper applies: messages between the two, and the worker's side. The keeper's side is `other-journals.ts`. */
import { type Link, LinkLost, topic } from '../domain/link.ts'
import type { Log } from '../log.ts'
import type { Applier } from './applier.ts'
import { Releases } from './applying.ts'
import type { Cursor, Written } from './cursor.ts'
import type { Journal } from './journal.ts'
import type { Share } from './sharing.ts'

/** Positions by name of segment. */
export type Places<Place> = Readonly<Record<string, Place>>

/** Worker to keeper: segments that have grown. */
export const WRITTEN = topic<Places<Written>>('journal.written')
/** Keeper to worker: send `WRITTEN` now, before the reply. */
export const TELL = topic<null, null>('journal.tell')
/** Worker to keeper: names that no longer hold records. */
export const REMOVED = topic<readonly string[]>('journal.removed')
/** Worker to keeper: apply all of these. The reply follows once they are applied or refused, or after two seconds. */
export const FLUSH = topic<Places<Written>, null>('journal.flush')
/** Worker to keeper: apply all of these now, and ship them; true once the requests' outcomes are in PostgreSQL. */
export const SHARE = topic<{ places: Places<Written>; requestIds: readonly string[] }, boolean>('journal.share')
/** Worker to keeper: true once everything reported by `APPLIED` survives a power failure. */
export const COVER = topic<null, boolean>('journal.cover')
/** Keeper to worker: bytes of each segment that are in the database. */
export const APPLIED = topic<Places<number>>('journal.applied')
/** Keeper to worker: release also the current segment, if it has records of requests before this, ms. */
export const RELEASE = topic<number, null>('journal.release')

const TELL_MS = 50
/** How long a release waits for records to be applied first. */
const RELEASE_MS = 1_000
/** Timeout of a checkpoint, so that a close doesn't wait for a hanging keeper. */
const COVER_MS = 5_000

export interface WorkerApplierDeps {
  journal: Journal
  cursor: Cursor
  link: Link
  log: Log
}

/** Its `pass`, `pause`, and `resume` do nothing: another process applies the journal anyway. */
export function createWorkerApplier({ journal, cursor, link, log }: WorkerApplierDeps): Applier {
  let timer: Timer | null = null
  let isLost = false
  const checkpoint = () =>
    Promise.race([link.ask(COVER, null).catch(orIfLost(false)), Bun.sleep(COVER_MS).then(() => false)])
  const releases = new Releases(journal, checkpoint, log)

  const tell = () => {
    timer = null
    link.tell(WRITTEN, cursor.takeNews())
  }

  const flush = async (patienceMs: number) => {
    const before = cursor.passed
    if (cursor.waiting > 0 && !isLost) {
      const asked = link.ask(FLUSH, cursor.takeNews()).catch(orIfLost(null))
      await Promise.race([asked, Bun.sleep(patienceMs)])
    }
    return { applied: cursor.passed - before, waiting: cursor.waiting }
  }

  link.on(APPLIED, (places) => {
    for (const [segment, bytes] of Object.entries(places)) cursor.pass(segment, bytes)
    releases.schedule()
  })
  link.on(TELL, () => {
    if (timer) {
      clearTimeout(timer)
      tell()
    }
    return null
  })
  link.on(RELEASE, async (beforeMs) => {
    await flush(RELEASE_MS)
    await journal.release(checkpoint, beforeMs)
    return null
  })
  void link.ended.then(() => {
    isLost = true
    releases.stop()
  })

  return {
    note() {
      timer ??= setTimeout(tell, TELL_MS)
    },
    waiting: () => cursor.waiting,
    waitsMs: () => cursor.waitsMs(performance.now()),
    pass: async () => true,
    flush,
    async pause() {},
    resume() {},
    async close() {
      releases.stop()
      if (timer) tell()
      // Segments with records stay: the keeper removes them once this process has ended.
      await journal.close(false)
    },
  }
}

export const toWorkerShare =
  (cursor: Cursor, link: Link): Share =>
  (requestIds) =>
    link.ask(SHARE, { places: cursor.takeNews(), requestIds }).catch(orIfLost(false))

const orIfLost =
  <T>(value: T) =>
  (error: unknown): T => {
    if (error instanceof LinkLost) return value
    throw error
  }
