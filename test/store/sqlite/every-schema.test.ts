/** A database of every schema that there has been, with rows as its version wrote them, is migrated to the current one without losing anything. */
import { expect, test } from 'bun:test'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { checkUpgrade } from '../../../src/backup/upgrade-check.ts'
import { toSnapshot } from '../../../src/store/snapshot.ts'
import { createConfigStore } from '../../../src/store/sqlite/config-store.ts'
import { MIGRATIONS, migrate } from '../../../src/store/sqlite/migrate.ts'
import { openDatabase } from '../../../src/store/sqlite/open.ts'
import { findingsOf, HOUR } from '../../ledger/fixture.ts'
import { createTestFolder, forEachTest } from '../../support/lifetime.ts'
import { fillSchema } from './old-rows.ts'

const folder = forEachTest(createTestFolder)

test.each(MIGRATIONS.map(({ name }, at) => [name, at] as const))('%s', async (_, at) => {
  const database = openDatabase(join(folder.path, 'tollgate.db'), { busyMs: 0 })
  migrate(database, folder.path, HOUR, MIGRATIONS.slice(0, at + 1))
  fillSchema(database, at)
  expect(database.query('PRAGMA foreign_key_check').all()).toEqual([])
  const stored = database.query('SELECT * FROM requests').all()
  const check = await checkUpgrade({ dataFolder: folder.path, nowMs: HOUR, monotonicMs: () => 0 })
  expect(check).toMatchObject({ isSafe: true, changes: [], findings: [] })
  expect(check.migrations).toEqual(MIGRATIONS.slice(at + 1).map(({ name }) => name))
  // On a copy, of which nothing is left.
  expect(database.query('SELECT * FROM requests').all()).toEqual(stored)
  expect(readdirSync(join(folder.path, 'backups'))).toEqual([])
  migrate(database, folder.path, HOUR)
  // Rows, calls, hours, and days agree to the last token and nano-dollar.
  expect(findingsOf(database, folder.path)).toEqual([])
  expect(database.query('SELECT COUNT(*) AS requests, SUM(cost_nano_usd) AS cost FROM requests').get()).toEqual({
    ...{ requests: 4, cost: 7_000_000_005_000 },
  })
  expect(database.query('SELECT SUM(cost_nano_usd) AS cost FROM calls').get()).toEqual({ cost: 4_000 })
  const store = createConfigStore(database)
  const { keys, teams } = await store.readKeys()
  expect(keys).toMatchObject([
    ...[
      {
        name: 'ann',
        teamId: 'team-1',
        limits: { rpm: 60 },
        models: ['acme/*'],
        secrets: [{ hash: 'h', lastFour: 'abcd' }],
      },
    ],
    { name: 'ben', revokedMs: HOUR },
  ])
  expect(teams).toMatchObject([{ name: 'research', budget: { nanoUsd: 5, period: 'month' }, metadata: { a: 'b' } }])
  expect(await store.readSettings()).toMatchObject({ retention: '90d' })
  expect((await store.readAudit()).map(({ action }) => action)).toContain('keys.create')
  const { models, aliases } = toSnapshot(await store.read(), {})
  expect(models.get('acme/large')?.targets).toMatchObject([{ upstreamModel: 'large-v1', contextLength: 8_000 }])
  expect(aliases.get('fast')).toBeDefined()
  database.close()
})
