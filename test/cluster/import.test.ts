/** A single node's folder becomes a cluster, and a cluster becomes a single node's folder, without a difference. */
import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { exportCluster } from '../../src/cluster/export.ts'
import { type ImportOptions, importFolder } from '../../src/cluster/import.ts'
import { readNodeId } from '../../src/cluster/nodes.ts'
import { HOUR_MS } from '../../src/domain/time.ts'
import { auditLedger } from '../../src/ledger/audit.ts'
import { createLog } from '../../src/log.ts'
import type { CatalogWrite } from '../../src/store/catalog-rows.ts'
import { takeLock } from '../../src/store/data-folder.ts'
import { storeOf } from '../../src/store/open.ts'
import { openPostgres } from '../../src/store/postgres/client.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import { pruneSlice } from '../../src/store/sqlite/prune.ts'
import { createRefusalWriter } from '../../src/store/sqlite/refusals.ts'
import { createVault } from '../../src/store/vault.ts'
import { abandonOthers, createFolder, type Folder, HOUR } from '../ledger/fixture.ts'
import { BY, decided, key, ROWS, UPSTREAM } from '../store/config-store.ts'
import { contentsHere, contentsThere, makeRecords } from '../store/postgres/ledger-fixture.ts'
import { readTables } from '../store/sqlite/read-tables.ts'
import { describeWith, startPostgres } from '../support/engines.ts'
import { forAllTests } from '../support/lifetime.ts'
import { createPicker } from '../support/random.ts'
import { createCluster, SECRET } from './config-fixture.ts'

const log = createLog({ now: Date.now, write: async () => {} })
/** Without tables of a single node. */
const configOf = (database: Database) => {
  const { settings = [], ...tables } = readTables(database)
  return { ...tables, settings: (settings as { key: string }[]).filter(({ key }) => key === 'config_revision') }
}

describeWith('PostgreSQL')('importing', () => {
  const server = forAllTests(() => startPostgres())

  /** A folder with a history of two days, of which retention has removed some hours. */
  async function createHistory(): Promise<Folder> {
    const folder = createFolder()
    const { database } = folder
    createLedgerWriter(database).apply(makeRecords(createPicker(7), 1_500))
    abandonOthers(database, 'later')
    createRefusalWriter(database).add([
      { hourMs: HOUR, keyId: 'key-1', teamId: '', code: 'request_limit', refused: 3, lastMs: HOUR + 5 },
    ])
    const old = { untilMs: HOUR + HOUR_MS, after: '', limit: 10_000, spared: [] }
    expect(pruneSlice(database, old, HOUR).requests).toBeGreaterThan(100)
    await createConfigStore(database).changeKeys(BY, () => decided({ teams: [], keys: [key('key-1')] }))
    return folder
  }
  const connect = async () => {
    const postgres = openPostgres({ url: `${await createCluster(server)}?sslmode=disable`, log })
    return Object.assign(postgres, { [Symbol.asyncDispose]: () => postgres.close() })
  }
  const optionsOf = (folder: Folder, postgres: ImportOptions['postgres']): ImportOptions => ({
    ...{ dataFolder: folder.path, postgres, environment: SECRET, nodeName: 'one', version: '1.0.0', log },
    now: Date.now,
  })

  test('keeps every request, total, and setting in both directions, even when repeated after an interruption', async () => {
    const folder = await createHistory()
    await using postgres = await connect()
    const [before, configBefore] = [contentsHere(folder.database), configOf(folder.database)]
    const ended = new Error('ended')
    const options = optionsOf(folder, postgres)
    const interrupted = importFolder({
      ...options,
      onProgress(done) {
        if (done > 500) throw ended
      },
    })
    await expect(interrupted).rejects.toBe(ended)
    const done: number[] = []
    const imported = await importFolder({ ...options, onProgress: (kept) => void done.push(kept) })
    expect(await contentsThere(postgres)).toEqual(before as never)
    const requests = (before.rollup as { requests: number }[]).reduce((sum, row) => sum + row.requests, 0)
    const kept = (before.requests as unknown[]).length
    expect(imported).toMatchObject({ requests: BigInt(requests), kept, node: readNodeId(folder.path) ?? '' })
    expect(requests).toBeGreaterThan(kept)
    expect(done.at(-1)).toBe(kept)

    const unfinished = `${folder.path}-half`
    const halfway = exportCluster({
      ...{ ...options, target: unfinished },
      onProgress() {
        throw ended
      },
    })
    await expect(halfway).rejects.toBe(ended)
    // It can't be mistaken for a complete one.
    const half = storeOf(unfinished).open()
    const asSingle = half?.config.changeKeys(BY, () => decided({ teams: [], keys: [] }))
    await expect(asSingle).rejects.toMatchObject({ failure: { kind: 'cluster_member' } })
    half?.close()
    rmSync(unfinished, { recursive: true })

    const target = `${folder.path}-back`
    const back = { ...options, target, onProgress: () => {} }
    const exported = await exportCluster(back)
    expect(exported).toMatchObject({ difference: null, kept, requests: imported.requests, sums: imported.sums })
    expect(exported.costNanoUsd).toBe(imported.costNanoUsd)
    using database = new Database(databasePath(target))
    expect(contentsHere(database)).toEqual(before)
    expect(configOf(database)).toEqual(configBefore)
    const [one, other] = [folder.path, target].map((path) => storeOf(path).open())
    if (!one || !other) throw new Error('not opened')
    expect(auditLedger(other.audit, target)).toEqual(auditLedger(one.audit, folder.path))
    const asked = { span: { fromMs: 0, untilMs: 2 * HOUR }, by: ['key'] as const, where: {} }
    expect(await Array.fromAsync(other.reports.refusals.pages(asked))).toEqual([
      [{ of: ['key-1'], refused: 3, lastMs: HOUR + 5 }],
    ])
    // It belongs to no cluster.
    await other.config.changeKeys(BY, () => decided({ teams: [], keys: [key('key-2')] }))
    for (const each of [one, other]) each.close()
    await expect(exportCluster(back)).rejects.toThrow('is not empty')
    rmSync(target, { recursive: true })
    folder.close()
  })

  test('is refused while a server runs, with another key, and once a cluster has begun', async () => {
    const [folder, other] = [await createHistory(), await createHistory()]
    await using postgres = await connect()
    const options = optionsOf(folder, postgres)
    const unlock = takeLock(folder.path)
    await expect(importFolder(options)).rejects.toThrow('Another Tollgate server is using')
    unlock()
    const { id, dialect, baseUrl, options: settings } = UPSTREAM
    const sealed = await createVault(folder.path, SECRET).seal('sk-1', { id, dialect, baseUrl, options: settings })
    const write: CatalogWrite = { layers: { ...ROWS, upstreams: [UPSTREAM] }, credentials: [{ id, sealed: [sealed] }] }
    await createConfigStore(folder.database).changeCatalog(BY, () => decided(write))
    const environment = { TOLLGATE_SECRET: 'another one, of more than 32 characters' }
    await expect(importFolder({ ...options, environment })).rejects.toThrow('1 stored credential')
    await importFolder(options)
    await expect(importFolder(options)).rejects.toThrow('has a cluster already')
    await expect(importFolder(optionsOf(other, postgres))).rejects.toThrow('has a cluster already')
    expect([readNodeId(other.path), existsSync(join(other.path, 'cluster'))]).toEqual([null, false])
    for (const each of [folder, other]) each.close()
  })
})
