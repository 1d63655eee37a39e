/** Tries the migration of a data folder on a copy of its database, next to a running server of any version, and compares what must stay the same. */
import { mkdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { ServiceError } from '../domain/service-error.ts'
import { auditRows, type Finding, type OnHour } from '../ledger/audit.ts'
import { isServed, requireReadable } from '../store/data-folder.ts'
import { BACKUPS, beginPart, findLack } from '../store/files.ts'
import { storeOf } from '../store/open.ts'
import { isDiskFull } from '../store/refusal.ts'

export interface UpgradeCheckOptions {
  dataFolder: string
  nowMs: number
  monotonicMs(): number
  onStage?(stage: 'copying' | 'checking', bytes: number): void
  onHour?: OnHour
}

export interface ContentChange {
  /** Such as `keys`. */
  what: string
  removed: string[]
  added: string[]
}

export interface UpgradeCheck {
  migrations: string[]
  /** Size of a copy, such as the one that a migration keeps. */
  bytes: number
  migrationMs: number
  changes: ContentChange[]
  findings: Finding[]
  /** True without findings, if only settings change. */
  isSafe: boolean
}

/** Throws a ServiceError: `no_database`, `schema_newer`, `no_room`, `database_unusable`. The database itself is never changed. */
export async function checkUpgrade(options: UpgradeCheckOptions): Promise<UpgradeCheck> {
  const { dataFolder, nowMs, monotonicMs, onStage, onHour } = options
  const place = storeOf(dataFolder)
  requireReadable(dataFolder)
  if (!place.exists())
    throw new ServiceError({ kind: 'no_database', dataFolder }, `No Tollgate database in ${dataFolder}.`)
  const folder = join(dataFolder, BACKUPS)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const part = beginPart(join(folder, 'upgrade-check.sqlite'))
  const noRoom = (why: string) => new ServiceError({ kind: 'no_room', folder }, `Can't copy the database: ${why}.`)
  try {
    const source = place.open({ untouched: isServed(dataFolder) ? 'served' : 'at_rest' })
    try {
      const lack = findLack(source.space(), folder, dataFolder)
      if (lack !== null) throw noRoom(lack)
      const { pages, pageBytes } = source.space()
      onStage?.('copying', pages * pageBytes)
      source.copyTo(part)
    } finally {
      source.close()
    }
    const bytes = statSync(part).size
    onStage?.('checking', bytes)
    using copy = await place.openCopy(part)
    const migrations = copy.missing()
    const before = copy.content()
    const startMs = monotonicMs()
    copy.update(nowMs)
    const migrationMs = Math.round(monotonicMs() - startMs)
    const changes = toChanges(before, copy.content())
    const { findings } = auditRows(copy.store.audit, onHour)
    const isSafe = findings.length === 0 && changes.every(({ what }) => what === 'settings')
    return { migrations, bytes, migrationMs, changes, findings, isSafe }
  } catch (error) {
    throw isDiskFull(error) ? noRoom('the disk is full') : place.explain(error)
  } finally {
    for (const path of [part, `${part}-journal`, `${part}-wal`, `${part}-shm`]) rmSync(path, { force: true })
  }
}

type Content = ReadonlyMap<string, readonly string[]>

const toChanges = (before: Content, after: Content): ContentChange[] =>
  [...after].flatMap(([what, list]) => {
    const [was, is] = [new Set(before.get(what)), new Set(list)]
    const change = { what, removed: [...was.difference(is)], added: [...is.difference(was)] }
    return change.removed.length + change.added.length > 0 ? [change] : []
  })
