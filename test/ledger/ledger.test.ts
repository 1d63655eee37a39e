/** The ledger on a real database: group commit, patience, the spool while the database refuses, and the way back. */
import type { Database } from 'bun:sqlite'
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { createLedger, type Ledger } from '../../src/ledger/ledger.ts'
import { listSegments, readSegment } from '../../src/ledger/segment.ts'
import { createSpool, type Spool } from '../../src/ledger/spool.ts'
import {
  contentsOf,
  createFolder,
  createTestLog,
  type Folder,
  statusesOf,
  toCall,
  toOpen,
  toSettled,
  toSettledCall,
  until,
} from './fixture.ts'

let folder: Folder
let spool: Spool
let commits: number
let checkpoints: (() => void)[]
const log = createTestLog()
beforeEach(async () => {
  folder = createFolder()
  spool = createSpool({ folder: folder.spool, instance: 'here', segmentBytes: 256 * 1024 })
  await spool.prepare()
  commits = 0
  checkpoints = []
  log.messages.length = 0
})
afterEach(async () => {
  await spool.close()
  folder.close()
})

const create = (overrides: { spool?: Spool; checkpoint?: () => Promise<boolean> } = {}): Ledger =>
  createLedger({
    writer: folder.database,
    spool,
    log,
    onCommit: () => void commits++,
    checkpoint: () => Promise.resolve(true),
    ...overrides,
  })

const onDisk = () => listSegments(folder.spool).flatMap(readSegment)

/** Locks the database as another process would. Returns how it is given back. */
function lock(): () => void {
  const other: Database = folder.other()
  other.run('BEGIN IMMEDIATE')
  return () => other.run('ROLLBACK')
}

test('rows that wait together commit together', async () => {
  const ledger = create()
  const rows = Array.from({ length: 50 }, () => toOpen())
  await Promise.all(rows.map((row) => ledger.open(row)))
  await Promise.all(rows.map((row) => ledger.settle(toSettled(row))))
  expect(commits).toBe(2)
  expect(Object.values(statusesOf(folder.database))).toEqual(rows.map(() => 'ok'))
})

test('is durable before it says so', async () => {
  const ledger = create()
  const reader = folder.other()
  const row = toOpen()
  await ledger.open(row)
  expect(statusesOf(reader)).toEqual({ [row.id]: 'open' })
  await ledger.settle(toSettled(row))
  expect(statusesOf(reader)).toEqual({ [row.id]: 'ok' })
})

test('a further call is durable before it says so, and ends with its request in one commit', async () => {
  const ledger = create()
  const reader = folder.other()
  const row = toOpen()
  const call = toCall(row, 2)
  await ledger.open(row)
  await ledger.openCall(call)
  expect(contentsOf(reader).calls).toMatchObject([{ request_id: row.id, number: 2, status: 'open' }])
  commits = 0
  await ledger.settle(toSettled(row, { attempts: 2 }), [toSettledCall(call)])
  expect(commits).toBe(1)
  expect(contentsOf(reader)).toMatchObject({ requests: [{ status: 'ok' }], calls: [{ status: 'ok' }] })
})

test('waits for a writer who is done in a moment, and leaves the spool alone', async () => {
  const ledger = create()
  const unlock = lock()
  const row = toOpen()
  const opened = ledger.open(row)
  await Bun.sleep(5)
  unlock()
  await opened
  expect(spool.appended()).toBe(0)
  expect(ledger.state()).toBe('ok')
  expect(statusesOf(folder.database)).toEqual({ [row.id]: 'open' })
})

describe('a database that stays locked', () => {
  test('sends rows to the spool, where they are durable, and gets them back from there', async () => {
    const checkpoint = () => {
      const done = Promise.withResolvers<boolean>()
      checkpoints.push(() => done.resolve(true))
      return done.promise
    }
    const ledger = create({ checkpoint })
    const unlock = lock()
    const rows = [toOpen(), toOpen()]
    await Promise.all(rows.map((row) => ledger.open(row)))
    expect(ledger.state()).toBe('spooling')
    const [plain, retried] = rows.map((row) => toSettled(row))
    if (!plain || !retried) throw new Error('two rows')
    await ledger.openCall(toCall(retried, 2))
    await ledger.settle(plain)
    await ledger.settle({ ...retried, attempts: 2 }, [toSettledCall(toCall(retried, 2))])
    expect(onDisk()).toHaveLength(5)
    expect(statusesOf(folder.database)).toEqual({})

    unlock()
    await until('the replay', () => Object.values(statusesOf(folder.database)).join() === 'ok,ok')
    await until('the checkpoint', () => checkpoints.length === 1)
    expect(ledger.state()).toBe('ok')
    expect(contentsOf(folder.database).calls).toMatchObject([{ request_id: retried.id, status: 'ok' }])
    // The segments wait for the checkpoint of the commit that replayed them.
    expect(onDisk()).toHaveLength(5)
    for (const done of checkpoints) done()
    await until('the release', () => onDisk().length === 0)
  })

  test('keeps its segments for as long as no checkpoint succeeds', async () => {
    const ledger = create({ checkpoint: () => Promise.resolve(false) })
    const unlock = lock()
    const row = toOpen()
    await ledger.open(row)
    unlock()
    await until('the replay', () => row.id in statusesOf(folder.database))
    await ledger.close()
    expect(onDisk()).toHaveLength(1)
  })

  test('and a spool without room turn new requests away, and lose no outcome', async () => {
    let room = { open: true, call: true, settle: true }
    const asked: unknown[] = []
    const hasRoom: Spool['hasRoom'] = (kind, calls) => {
      asked.push([kind, calls])
      return room[kind]
    }
    const ledger = create({ spool: { ...spool, hasRoom } })
    const [before, during] = [toOpen(), toOpen()]
    const [second, third] = [toCall(before, 2), toCall(before, 3)]
    await ledger.open(before)
    await ledger.openCall(second)
    const unlock = lock()
    room = { open: false, call: false, settle: false }
    const settled = ledger.settle(toSettled(before, { attempts: 2 }), [toSettledCall(second)])
    await Promise.all([
      expect(settled).rejects.toMatchObject({ kind: 'ledger_unavailable', status: 503 }),
      expect(ledger.openCall(third)).rejects.toMatchObject({ kind: 'ledger_unavailable' }),
      expect(ledger.open(during)).rejects.toMatchObject({ kind: 'ledger_unavailable' }),
    ])
    expect(asked).toContainEqual(['settle', 1])
    expect(ledger.state()).toBe('unavailable')
    unlock()
    await until('the stranded outcome', () => statusesOf(folder.database)[before.id] === 'failed')
    expect(ledger.state()).toBe('ok')
    expect(contentsOf(folder.database)).toMatchObject({
      requests: [{ id: before.id, cost_nano_usd: 500, attempts: 2 }],
      calls: [{ number: 2, status: 'ok', cost_nano_usd: 200 }],
    })
  })

  test('finds its spool ready even where the disk had no room for one at the start', async () => {
    const late = createSpool({ folder: folder.spool, instance: 'late', segmentBytes: 256 * 1024 })
    const ledger = create({ spool: late })
    const unlock = lock()
    const row = toOpen()
    await ledger.open(row)
    expect(onDisk()).toHaveLength(1)
    unlock()
    await ledger.close()
    await late.close()
    expect(statusesOf(folder.database)).toEqual({ [row.id]: 'open' })
  })
})

test('a database without room refuses until it has some, however idle it is', async () => {
  const ledger = create({ spool: { ...spool, hasRoom: () => false } })
  folder.database.run('INSERT INTO settings VALUES (?, ?, 0)', ['instance', 'here'])
  const pages = folder.database.query<{ page_count: number }, []>('PRAGMA page_count').get()?.page_count ?? 0
  folder.database.run(`PRAGMA max_page_count = ${pages}`)
  const rows = Array.from({ length: 200 }, () => toOpen({ user: 'x'.repeat(256) }))
  const opened = await Promise.allSettled(rows.map((row) => ledger.open(row)))
  expect(new Set(opened.map(({ status }) => status))).toEqual(new Set(['rejected']))
  folder.database.run('PRAGMA max_page_count = 100000')
  await until('the recovery', () => ledger.state() === 'ok')
  await ledger.open(toOpen())
})

test('a row that does not fit is set aside, and those beside it are in the database', async () => {
  const ledger = create()
  const [good, bad] = [toOpen(), toOpen()]
  const broken = toSettled(bad)
  Reflect.set(broken, 'completionTokens', null)
  await Promise.all([ledger.open(good), ledger.settle(toSettled(good)), ledger.settle(broken)])
  expect(statusesOf(folder.database)).toEqual({ [good.id]: 'ok' })
  expect(log.messages).toEqual(['a ledger row does not fit the database; it is kept in the spool folder'])
})

test('closing drains what is waiting', async () => {
  const ledger = create()
  const rows = Array.from({ length: 20 }, () => toOpen())
  const all = Promise.all(rows.map((row) => ledger.open(row)))
  await ledger.close()
  expect(Object.keys(statusesOf(folder.database))).toHaveLength(20)
  await all
})
