/**
 * Rows that retention deletes and rows that it must keep, on a real database with its thread. No test waits: pauses are
 * counted.
 */
import type { Database } from 'bun:sqlite'
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { statSync } from 'node:fs'
import { HOUR_MS } from '../../src/domain/time.ts'
import { createKey, revokeKey } from '../../src/keys/service.ts'
import { createJournal, type Journal } from '../../src/ledger/journal.ts'
import { openMark } from '../../src/ledger/mark.ts'
import { recover } from '../../src/ledger/recover.ts'
import { createRetention, type RetentionDeps } from '../../src/ledger/retention.ts'
import { watchDataFiles } from '../../src/server/storage.ts'
import type { LedgerRecord, OpenRow } from '../../src/store/ledger-rows.ts'
import { checkpointHere } from '../../src/store/sqlite/checkpoint.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { databasePath, watchFiles } from '../../src/store/sqlite/files.ts'
import { createLeases, createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import { createLedgerReader } from '../../src/store/sqlite/ledger-reader.ts'
import { createRefusalWriter } from '../../src/store/sqlite/refusals.ts'
import { createLedgerUpkeep } from '../../src/store/sqlite/upkeep.ts'
import {
  contentsOf,
  createFolder,
  createTestLog,
  type Folder,
  findingsOf,
  HOUR,
  opening,
  settling,
  statusesOf,
  toCall,
  toOpen,
  toSettled,
  toSettledCall,
} from './fixture.ts'

const DAY_MS = 24 * HOUR_MS
const NOW = HOUR + 100 * DAY_MS + 1_234_567
const KEEP_MS = 90 * DAY_MS
const AUDIT_MS = 95 * DAY_MS
/** Older requests are deleted. */
const UNTIL = HOUR + 10 * DAY_MS

let folder: Folder
let journal: Journal
let upkeep: ReturnType<typeof createLedgerUpkeep>
const log = createTestLog()
beforeEach(() => {
  folder = createFolder()
  log.messages.length = 0
  journal = createJournal({
    folder: folder.journal,
    instance: 'here',
    schema: '0002',
    log,
    maxBytes: 1024 ** 2,
    segmentBytes: 64 * 1024,
  })
  upkeep = createLedgerUpkeep(databasePath(folder.path), folder.database, () => NOW)
})
afterEach(async () => {
  upkeep.close()
  await journal.close(false)
  folder.close()
})

const checkpoint = async () => checkpointHere(folder.database)
const store = () => ({ ...createLedgerWriter(folder.database), checkpoint })
const retention = (deps: Partial<RetentionDeps> = {}) =>
  createRetention({
    keepMs: KEEP_MS,
    auditMs: AUDIT_MS,
    upkeep,
    journal,
    checkpoint,
    latestMs: NOW,
    now: () => NOW,
    monotonicMs: () => 0,
    sleep: async () => {},
    log,
    ...deps,
  })
const settingOf = (database: Database, key: string) =>
  database.query<{ value: string }, [string]>('SELECT value FROM settings WHERE key = ?').get(key)?.value
const settled = (createdMs: number, fields: Partial<OpenRow> = {}) =>
  settling(toSettled(toOpen({ createdMs, ...fields })))
/** One request per hour, over 20 days. */
const hourly = () => Array.from({ length: 480 }, (_, hour) => settled(HOUR + hour * HOUR_MS + 1))
const rollup = () => contentsOf(folder.database).rollup

/** Writes as the ledger does: to the journal, then to the database. */
async function record(records: readonly LedgerRecord[]) {
  await journal.grow()
  expect(journal.append(records.map((record) => ({ record })))).toEqual([])
  for (let batch = journal.take(100); batch; batch = journal.take(100)) {
    store().apply(batch.records)
    batch.done()
  }
}

test('old requests are deleted with their calls; their totals stay, and the audit has no findings', async () => {
  const old = toOpen({ createdMs: UNTIL - 1, upstream: 'spare' })
  const calls = [toSettledCall(toCall(old, 2))]
  store().apply([...hourly(), settling(toSettled(old, { attempts: 2 }), calls)])
  const mark = openMark(folder.path, createLedgerReader(folder.database).count())
  const sums = rollup()
  expect(await retention().pass()).toMatchObject({ requests: 241, calls: 2 })
  expect(rollup()).toEqual(sums)
  expect(upkeep.oldestMs()).toBe(UNTIL + 1)
  expect(contentsOf(folder.database).calls).toEqual([])
  expect(settingOf(folder.database, 'ledger_from')).toBe(String(UNTIL))
  expect(findingsOf(folder.database, folder.path)).toEqual([])
  mark.close()
})

test('an audit still finds missing rows after the deleted hours', async () => {
  store().apply(hourly())
  await retention().pass()
  folder.database.run(`DELETE FROM requests WHERE created_ms = ${UNTIL + 1}`)
  expect(findingsOf(folder.database, folder.path)).toMatchObject([{ kind: 'difference', hour_ms: UNTIL }])
})

test('open requests stay, however old, with their calls, and can be settled later', async () => {
  const open = toOpen({ createdMs: HOUR + 1 })
  const call = toCall(open, 2)
  store().apply([opening(open), { kind: 'call', call }, settled(HOUR + 2)])
  expect(await retention().pass()).toMatchObject({ requests: 1, calls: 0 })
  store().apply([settling(toSettled(open, { attempts: 2 }), [toSettledCall(call)])])
  expect(statusesOf(folder.database)).toEqual({ [open.id]: 'ok' })
  expect(findingsOf(folder.database, folder.path)).toEqual([])
  expect(await retention().pass()).toMatchObject({ requests: 1, calls: 2 })
  expect(rollup()).toMatchObject([{ requests: 2 }])
})

test('calls without their request are deleted at their time; open ones stay', async () => {
  store().apply([opening(toOpen({ createdMs: HOUR })), settled(UNTIL + 1)])
  const [lost, under] = [toOpen({ createdMs: HOUR + 5 }), toOpen({ createdMs: HOUR + 6 })]
  store().apply([lost, under].map((row) => ({ kind: 'call', call: toCall(row, 2) })))
  folder.database.run(`UPDATE calls SET status = 'abandoned' WHERE request_id = '${lost.id}'`)
  expect(await retention().pass()).toMatchObject({ requests: 0, calls: 1 })
  expect(contentsOf(folder.database).calls).toMatchObject([{ request_id: under.id, status: 'open' }])
})

describe('requests in the journal', () => {
  const start = () => {
    const leases = createLeases(folder.database)
    return recover({ store: store(), leases, dataFolder: folder.path, instance: 'new', nowMs: UNTIL, log })
  }

  test('stay in the database, or a start would apply them again and count them twice', async () => {
    await record([settled(HOUR + 1), settled(UNTIL + 1)])
    const before = contentsOf(folder.database)
    const uncovered = retention({ checkpoint: async () => false })
    expect(await uncovered.pass()).toMatchObject({ requests: 0 })
    await start()
    expect(contentsOf(folder.database)).toEqual(before)
  })

  test('are deleted once released, even from a segment that an idle server writes for months', async () => {
    await record([settled(HOUR + 1), settled(UNTIL + 1)])
    const sums = rollup()
    expect(await retention().pass()).toMatchObject({ requests: 1 })
    await start()
    expect(rollup()).toEqual(sums)
    expect(findingsOf(folder.database, folder.path)).toEqual([])
    await record([settled(UNTIL + 2)])
    expect(rollup()).not.toEqual(sums)
  })

  test('only hold back later requests', async () => {
    store().apply([settled(HOUR + 1), settled(HOUR + 2 * HOUR_MS)])
    await record([opening(toOpen({ createdMs: HOUR + HOUR_MS + 5 }))])
    const uncovered = retention({ checkpoint: async () => false })
    expect(await uncovered.pass()).toMatchObject({ requests: 1 })
    expect(upkeep.oldestMs()).toBe(HOUR + HOUR_MS + 5)
  })

  test.each<[when: string, toDeps: (settle: () => Promise<void>) => Partial<RetentionDeps>]>([
    ['between two slices', (settle) => ({ sleep: settle })],
    [
      'while a slice is on its way',
      (settle) => ({
        upkeep: {
          ...upkeep,
          async prune(slice) {
            await settle()
            return upkeep.prune(slice)
          },
        },
      }),
    ],
  ])('stays where it is of an old request that ends %s', async (_, toDeps) => {
    store().apply(hourly())
    const old = toOpen({ createdMs: UNTIL - 1 })
    await record([opening(old)])
    let isSettled = false
    const settle = async () => {
      if (!isSettled) await record([settling(toSettled(old))])
      isSettled = true
    }
    await retention(toDeps(settle)).pass()
    const sums = rollup()
    await start()
    expect(rollup()).toEqual(sums)
    expect(findingsOf(folder.database, folder.path)).toEqual([])
    await journal.release(checkpoint, Number.POSITIVE_INFINITY)
    await retention().pass()
    expect(upkeep.oldestMs()).toBe(UNTIL + 1)
    expect(rollup()).toEqual(sums)
  })
})

describe('old rows of the configuration', () => {
  const config = () => createConfigStore(folder.database)
  const by = (nowMs: number) => ({ actor: 'cli', nowMs })
  const namesOf = async () => (await config().readKeys()).keys.map(({ name }) => name).sort()
  /** Keys that `launch` and members have created, and revoked. */
  async function make(name: string, endMs: number, how: 'revoked' | 'expired' = 'revoked') {
    const expiresMs = how === 'expired' ? endMs : null
    const { key } = await createKey(config(), { name, models: ['acme/*'], expiresMs }, by(HOUR))
    if (how === 'revoked') await revokeKey(config(), key.id, by(endMs))
    return key
  }

  test('revoked and expired keys are deleted after --retention, and earlier readers notice', async () => {
    await createKey(config(), { name: 'in force' }, by(HOUR))
    await make('revoked', HOUR + 1)
    await make('expired', HOUR + 2, 'expired')
    await make('revoked later', UNTIL + DAY_MS)
    expect(await namesOf()).toHaveLength(4)
    const { revision } = await config().read()
    expect(await retention().pass()).toMatchObject({ keys: 2, requests: 0 })
    expect((await config().read()).revision).toBe(revision + 1)
    expect(await namesOf()).toEqual(['in force', 'revoked later'])
    for (const table of ['key_secrets', 'key_models'])
      expect(folder.database.query(`SELECT DISTINCT key_id FROM ${table} EXCEPT SELECT id FROM keys`).all()).toEqual([])
    expect(await retention().pass()).toMatchObject({ keys: 0 })
  })

  test('keys with a request stay when it is deleted, since usage names them; so do all with --retention forever', async () => {
    const [used, open] = [await make('used', HOUR + 1), await make('under way', HOUR + 1)]
    store().apply([settled(HOUR, { keyId: used.id }), opening(toOpen({ createdMs: HOUR, keyId: open.id }))])
    expect(await retention().pass()).toMatchObject({ requests: 1, keys: 0 })
    expect(await namesOf()).toEqual(['under way', 'used'])
    await make('unused', HOUR + 1)
    expect(await retention({ keepMs: Number.POSITIVE_INFINITY }).pass()).toMatchObject({ keys: 0 })
  })

  test('counts of refused requests are deleted after --retention, in slices, and then keys without any others', async () => {
    const { id: keyId } = await make('only refused', HOUR + 1)
    const { id: later } = await make('refused since', HOUR + 1)
    const count = { keyId, teamId: '', code: 'no_key', refused: 1, lastMs: HOUR } as const
    const last = { ...count, keyId: later, hourMs: UNTIL }
    const old = Array.from({ length: 100 }, (_, hour) => ({ ...count, hourMs: HOUR + hour * HOUR_MS }))
    createRefusalWriter(folder.database).add([...old, last])
    expect(await retention({ keepMs: Number.POSITIVE_INFINITY }).pass()).toMatchObject({ refusals: 0, keys: 0 })
    expect(await retention().pass()).toMatchObject({ refusals: 100, keys: 1 })
    expect(await namesOf()).toEqual(['refused since'])
    expect(folder.database.query('SELECT hour_ms FROM refusals_hourly').all()).toEqual([{ hour_ms: UNTIL }])
  })

  test('a key stays while the journal may have one of its requests', async () => {
    const { id } = await make('in the journal', HOUR + 1)
    await journal.grow()
    journal.append([{ record: settled(HOUR, { keyId: id }) }])
    expect(await retention({ checkpoint: async () => false }).pass()).toMatchObject({ keys: 0 })
  })

  test('audit log entries are deleted after --audit-retention, in slices, and a newer one stays', async () => {
    const edges = [HOUR, NOW - AUDIT_MS - 1, NOW - AUDIT_MS, NOW]
    for (let i = 0; i < 100; i++) await createKey(config(), { name: `k${i}` }, by(HOUR))
    for (const ms of edges) await createKey(config(), { name: `at ${ms}` }, by(ms))
    let pauses = 0
    const sleep = async () => void pauses++
    expect(await retention({ auditMs: Number.POSITIVE_INFINITY }).pass()).toMatchObject({ auditRows: 0 })
    expect(await retention({ sleep }).pass()).toMatchObject({ auditRows: 102, keys: 0 })
    expect(pauses).toBeGreaterThan(0)
    expect((await config().readAudit()).map(({ atMs }) => atMs)).toEqual([NOW, NOW - AUDIT_MS])
  })
})

test('retention yields to another writer, and continues after it', async () => {
  store().apply(hourly())
  const other = folder.other()
  other.run('BEGIN IMMEDIATE')
  let pauses = 0
  const sleep = async () => {
    if (++pauses === 3) other.run('COMMIT')
  }
  expect(await retention({ sleep }).pass()).toMatchObject({ requests: 240 })
  expect(pauses).toBeGreaterThan(3)
})

test('a stopping server waits only for one slice, and the rest is deleted another time', async () => {
  store().apply(hourly())
  let stopping: Promise<void> | null = null
  const stopped = retention({
    sleep: async () => {
      stopping ??= stopped.stop()
    },
  })
  const { requests } = await stopped.pass()
  await stopping
  expect(requests).toBeGreaterThan(0)
  expect(requests).toBeLessThan(240)
  expect(findingsOf(folder.database, folder.path)).toEqual([])
  expect(await retention().pass()).toMatchObject({ requests: 240 - requests })
})

test('nothing is deleted with --retention forever, or by a clock that is over a week ahead of the ledger', async () => {
  store().apply(hourly())
  expect(await retention({ keepMs: Number.POSITIVE_INFINITY }).pass()).toMatchObject({ requests: 0 })
  const newest = HOUR + 480 * HOUR_MS
  const ahead = { latestMs: newest, now: () => newest + 1_000 * DAY_MS }
  expect(await retention({ ...ahead, keepMs: 30 * DAY_MS }).pass()).toMatchObject({ requests: 0 })
})

test('a clock far ahead of the ledger, after months without requests, is trusted once it has run for a week', async () => {
  store().apply(hourly())
  const newest = HOUR + 480 * HOUR_MS
  let ranMs = 0
  const { pass } = retention({
    keepMs: 30 * DAY_MS,
    latestMs: newest,
    now: () => newest + 1_000 * DAY_MS + ranMs,
    monotonicMs: () => ranMs,
  })
  expect(await pass()).toMatchObject({ requests: 0 })
  ranMs = 7 * DAY_MS
  expect(await pass()).toMatchObject({ requests: 480 })
})

test('freed space returns to the disk, and the server does not mistake that for a data loss', async () => {
  const many = Array.from({ length: 30_000 }, () => settled(HOUR + 1))
  for (let at = 0; at < many.length; at += 1_000) store().apply(many.slice(at, at + 1_000))
  await checkpoint()
  const files = watchDataFiles({
    ...{ dataFolder: folder.path, store: { isThere: watchFiles(databasePath(folder.path), () => {}) }, journal, log },
  })
  const before = statSync(databasePath(folder.path)).size
  const { requests, bytes } = await retention().pass()
  expect(requests).toBe(30_000)
  expect(before - statSync(databasePath(folder.path)).size).toBe(bytes)
  expect(bytes).toBeGreaterThan(0)
  expect(files.look()).toBe(true)
  expect(folder.database.query('PRAGMA integrity_check').get()).toEqual({ integrity_check: 'ok' })
  files.stop()
})
