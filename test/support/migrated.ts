/** Copies a migrated database per test: 29 migrations are half the cost of a gateway's start. */
import { copyFileSync, existsSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { MIGRATIONS, migrate } from '../../src/store/sqlite/migrate.ts'
import { openDatabase } from '../../src/store/sqlite/open.ts'

/** By these migrations, shared by all test processes. */
const TEMPLATE = join(tmpdir(), `tollgate-migrated-${Bun.hash(JSON.stringify(MIGRATIONS)).toString(36)}.db`)

export function putMigrated(dataFolder: string): void {
  if (!existsSync(TEMPLATE)) makeTemplate()
  copyFileSync(TEMPLATE, databasePath(dataFolder))
}

function makeTemplate(): void {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-template-'))
  const database = openDatabase(databasePath(folder), { busyMs: 0 })
  migrate(database, folder, 0)
  database.close()
  renameSync(databasePath(folder), TEMPLATE)
  rmSync(folder, { recursive: true })
}
