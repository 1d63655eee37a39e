/** The ledger on a real journal and a real database: groups, the database that follows, refusals, and recovery. */
import type { Database } from 'bun:sqlite'
import { afterEach, beforeEach, describe, expect, mock, spyOn, test } from 'bun:test'
import { createJournal, type Journal, type JournalOptions } from '../../src/ledger/journal.ts'
import { listSegments, readSegment } from '../../src/ledger/journal-file.ts'
import { createLedger, type LedgerDeps, type OwnLedger } from '../../src/ledger/ledger.ts'
import type { LedgerRecord } from '../../src/store/ledger-rows.ts'
import { createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import { createLedgerReader } from '../../src/store/sqlite/ledger-reader.ts'
import { until } from '../support/until.ts'
import {
  calling,
  contentsOf,
  createFolder,
  createTestLog,
  type Folder,
  findingsOf,
  growing,
  HOUR,
  opening,
  settling,
  since,
  statusesOf,
  toCall,
  toOpen,
  toSettled,
  toSettledCall,
} from './fixture.ts'

const SEGMENT = 256 * 1024
const log = createTestLog()
let folder: Folder
let commits: number
const closing: (() => Promise<void>)[] = []
beforeEach(() => {
  folder = createFolder()
  commits = 0
  log.messages.length = 0
})
afterEach(async () => {
  mock.restore()
  for (const close of closing.splice(0)) await close()
  folder.close()
})

interface Opened {
  ledger: OwnLedger
  journal: Journal
  /** The records of each write. */
  writes: number[]
}

function open(options: Partial<JournalOptions> = {}, deps: Partial<LedgerDeps> = {}, sync?: Journal['sync']): Opened {
  const journal = createJournal({
    folder: folder.journal,
    instance: 'here',
    schema: '0002',
    log,
    maxBytes: 16 * SEGMENT,
    segmentBytes: SEGMENT,
    ...options,
  })
  const writes: number[] = []
  const append: Journal['append'] = (group) => {
    const rest = journal.append(group)
    if (group.length > rest.length) writes.push(group.length - rest.length)
    return rest
  }
  const ledger = createLedger({
    journal: { ...journal, append, sync: sync ?? journal.sync },
    store: { ...createLedgerWriter(folder.database), checkpoint: async () => true },
    reader: createLedgerReader(folder.database),
    durability: 'process',
    log,
    onCommit: () => void commits++,
    ...deps,
  })
  closing.push(ledger.close)
  return { ledger, journal, writes }
}

const onDisk = () => listSegments(folder.journal).flatMap(readSegment)
const statuses = () => Object.values(statusesOf(folder.database))

/** Locks the database as another process would. Returns a function that unlocks it. */
function lock(): () => void {
  const other: Database = folder.other()
  other.run('BEGIN IMMEDIATE')
  return () => other.run('ROLLBACK')
}

test('records that wait together are one write, and a request opened and settled meanwhile is one row in one transaction', async () => {
  const { ledger, writes, journal } = open()
  await journal.grow()
  const rows = Array.from({ length: 50 }, () => toOpen())
  await Promise.all(rows.map((row) => ledger.open(row)))
  await Promise.all(rows.map((row) => ledger.settle(toSettled(row))))
  expect(writes).toEqual([50, 50])
  expect(onDisk()).toHaveLength(100)
  expect(await ledger.flush()).toEqual({ applied: 100, waiting: 0 })
  expect([commits, statuses()]).toEqual([1, rows.map(() => 'ok')])
})

test('a record is in the journal before it is confirmed, and in the database a moment later', async () => {
  const { ledger } = open()
  const row = toOpen()
  const call = toCall(row, 2)
  await ledger.open(row)
  expect(onDisk()).toEqual([opening(row)])
  await ledger.openCall(call)
  expect(onDisk()).toEqual([opening(row), calling(call)])
  const settle = settling(toSettled(row, { attempts: 2 }), [toSettledCall(call)])
  await ledger.settle(settle.kind === 'settle' ? settle.row : toSettled(row), [toSettledCall(call)])
  expect(onDisk()).toEqual([opening(row), calling(call), settle])
  await until('the database', () => statuses().join() === 'ok')
  expect(contentsOf(folder.database).calls).toMatchObject([{ request_id: row.id, status: 'ok' }])
  expect(ledger.state()).toBe('ok')
})

test('many records are applied early, in slices that yield to the event loop', async () => {
  const { ledger, journal } = open({ segmentBytes: 8 * SEGMENT, maxBytes: 64 * SEGMENT })
  await journal.grow()
  const rows = Array.from({ length: 2_000 }, () => toOpen())
  const realTimeout = setTimeout
  const never = (run: () => void, ms?: number) => realTimeout(run, ms === 200 ? 3_600_000 : ms)
  spyOn(globalThis, 'setTimeout').mockImplementation(Object.assign(never, realTimeout))
  await Promise.all(rows.map((row) => ledger.settle(toSettled(row))))
  // Fewer than the batch size that is applied before its time, which does not come.
  await until('the database', () => journal.waiting() < 500)
  expect(commits).toBeGreaterThanOrEqual(3)
  await ledger.flush()
  expect(statuses()).toHaveLength(2_000)
})

describe('with durability power', () => {
  test('waits for the disk, one sync at a time, and records meanwhile are the next group', async () => {
    const syncs: PromiseWithResolvers<void>[] = []
    const { ledger, journal, writes } = open({}, { durability: 'power' }, () => {
      const sync = Promise.withResolvers<void>()
      if (syncs.push(sync) > 2) sync.resolve()
      return sync.promise
    })
    await journal.grow()
    let done = 0
    const ask = () => ledger.open(toOpen()).then(() => done++)
    const first = ask()
    await until('the first sync', () => syncs.length === 1)
    const others = Promise.allSettled(Array.from({ length: 8 }, ask))
    await Bun.sleep(20)
    expect([done, writes, onDisk().length]).toEqual([0, [1], 1])
    syncs[0]?.resolve()
    await first
    await until('the second sync', () => syncs.length === 2)
    expect([done, writes]).toEqual([1, [1, 8]])
    syncs[1]?.reject(new Error('EIO'))
    for (const each of await others) expect(each).toMatchObject({ reason: { kind: 'ledger_unavailable' } })
    expect(log.messages).toEqual(['cannot sync the journal'])
  })

  test('a request that was refused because the disk failed costs nothing, although its row was written', async () => {
    let fails = true
    const { ledger } = open({}, { durability: 'power' }, async () => {
      if (fails) throw new Error('EIO')
    })
    const row = toOpen()
    await expect(ledger.open(row)).rejects.toMatchObject({ kind: 'ledger_unavailable' })
    fails = false
    await until('its end', () => statuses().join() === 'failed')
    expect(contentsOf(folder.database).requests).toMatchObject([{ http_status: 503, cost_nano_usd: 0 }])
    expect(findingsOf(folder.database, folder.path)).toEqual([])
  })

  test('a record is on the disk before it is confirmed', async () => {
    const { ledger } = open({}, { durability: 'power' })
    const row = toOpen()
    await ledger.open(row)
    await ledger.settle(toSettled(row))
    expect(onDisk()).toHaveLength(2)
  })
})

describe('with durability shared', () => {
  test('an outcome is confirmed once it is applied and shared, even while another process locks the database', async () => {
    const shared = Promise.withResolvers<boolean>()
    const asked: (readonly string[])[] = []
    const share = (ids: readonly string[]) => {
      asked.push(ids)
      expect(statuses()).toEqual(ids.map(() => 'ok'))
      return shared.promise
    }
    const { ledger } = open({}, { durability: 'shared', share })
    const unlock = lock()
    const rows = [toOpen(), toOpen()]
    for (const row of rows) await ledger.open(row)
    let done = 0
    const all = Promise.all(rows.map((row) => ledger.settle(toSettled(row)).then(() => done++)))
    await Bun.sleep(20)
    expect(asked).toEqual([])
    unlock()
    await until('it to be asked', () => asked.length > 0)
    expect([asked, done]).toEqual([[rows.map(({ id }) => id)], 0])
    shared.resolve(true)
    await all
  })

  test("if one can't be shared it is withheld, and new requests are rejected until sharing works again", async () => {
    let works = false
    const { ledger } = open({}, { durability: 'shared', share: async () => works })
    const row = toOpen()
    await ledger.open(row)
    expect(ledger.state()).toBe('ok')
    await expect(ledger.settle(toSettled(row))).rejects.toMatchObject({ kind: 'ledger_unavailable' })
    await expect(ledger.open(toOpen())).rejects.toMatchObject({ kind: 'ledger_unavailable' })
    expect([ledger.state(), statuses()]).toEqual(['unavailable', ['ok']])
    works = true
    await until('requests to be accepted', () => ledger.state() === 'ok')
    await ledger.open(toOpen())
    expect(log.messages).toEqual([
      'PostgreSQL did not get an outcome in time; rejecting requests until it does',
      'PostgreSQL gets outcomes again; accepting requests',
    ])
  })
})

describe('a database that stays locked', () => {
  test('changes nothing for requests: the journal grows, even beyond its memory limit, and the database follows later', async () => {
    const { ledger, journal } = open({ maxInMemory: 50 })
    const unlock = lock()
    const rows = Array.from({ length: 600 }, () => toOpen())
    for (const row of rows) await ledger.open(row)
    await Promise.all(rows.map((row) => ledger.settle(toSettled(row))))
    expect([journal.waiting(), ledger.state(), statuses()]).toEqual([1_200, 'ok', []])
    await Bun.sleep(1_300)
    expect(await ledger.flush()).toEqual({ applied: 0, waiting: 1_200 })
    expect(log.messages).toEqual(['database not accepting ledger rows; queued in the journal'])
    unlock()
    expect(await ledger.flush()).toEqual({ applied: 1_200, waiting: 0 })
    expect(statuses()).toEqual(rows.map(() => 'ok'))
    expect(log.messages.at(-1)).toBe('database accepting ledger rows again')
    expect(findingsOf(folder.database, folder.path)).toEqual([])
  }, 20_000)

  test('is reported once the oldest record is pending for 10 s, whatever the wall clock does', async () => {
    const { ledger } = open()
    const unlock = lock()
    // Whole numbers: sums of fractions are not exact.
    const began = Math.ceil(performance.now())
    const clock = spyOn(performance, 'now').mockImplementation(() => began)
    await ledger.open(toOpen())
    expect(ledger.state()).toBe('ok')
    clock.mockImplementation(() => began + 9_999)
    // A younger record changes nothing.
    await ledger.open(toOpen({ createdMs: HOUR - 7_200_000 }))
    expect(ledger.state()).toBe('ok')
    clock.mockImplementation(() => began + 10_000)
    expect(ledger.state()).toBe('behind')
    clock.mockRestore()
    unlock()
    await ledger.flush()
    expect([ledger.state(), statuses().length]).toEqual(['ok', 2])
  })

  test('and a journal without space refuse new requests, and lose no outcome', async () => {
    const { ledger, journal } = open({ segmentBytes: 64 * 1024, maxBytes: 64 * 1024 })
    const unlock = lock()
    const rows = []
    for (;;) {
      const row = toOpen()
      const opened = await ledger.open(row).catch((error) => error)
      if (opened !== undefined) {
        expect(opened).toMatchObject({ kind: 'ledger_unavailable', status: 503 })
        break
      }
      rows.push(row)
    }
    expect(ledger.state()).toBe('unavailable')
    const [first] = rows
    await expect(ledger.openCall(toCall(first ?? toOpen(), 2))).rejects.toMatchObject({ kind: 'ledger_unavailable' })
    // Each request has its own error: properties added to one are not on another.
    const errors = await Promise.all([1, 2].map(() => ledger.open(toOpen()).catch((error) => error)))
    expect(errors[0]).not.toBe(errors[1])
    // The last quarter accepts outcomes of earlier requests; beyond it they are withheld, and kept for later.
    const settled = await Promise.allSettled(rows.map((row) => ledger.settle(toSettled(row))))
    const placed = settled.filter(({ status }) => status === 'fulfilled').length
    expect(placed).toBeGreaterThan(10)
    expect(placed).toBeLessThan(rows.length)
    unlock()
    await until('every outcome', () => statuses().every((status) => status !== 'open') && journal.waiting() === 0)
    const counts = (status: string) => statuses().filter((each) => each === status).length
    expect([counts('ok'), counts('failed')]).toEqual([placed, rows.length - placed])
    expect(ledger.state()).toBe('ok')
    await ledger.open(toOpen())
  }, 20_000)
})

test('a database without space is retried until it has some, and a checkpoint frees space meanwhile', async () => {
  let checkpoints = 0
  const checkpoint = async () => {
    checkpoints++
    return true
  }
  const store = { ...createLedgerWriter(folder.database), checkpoint }
  const { ledger } = open({}, { store })
  const pages = folder.database.query<{ page_count: number }, []>('PRAGMA page_count').get()?.page_count ?? 0
  folder.database.run(`PRAGMA max_page_count = ${pages}`)
  const rows = Array.from({ length: 200 }, () => toOpen({ user: 'x'.repeat(256) }))
  await Promise.all(rows.map((row) => ledger.open(row)))
  await until('a checkpoint', () => checkpoints > 0)
  expect(statuses()).toEqual([])
  folder.database.run('PRAGMA max_page_count = 100000')
  await until('the rows', () => statuses().length === 200)
})

test('a rejected row is set aside, and other rows are in the database', async () => {
  const { ledger } = open()
  const [good, bad] = [toOpen(), toOpen()]
  const broken = toSettled(bad)
  Reflect.set(broken, 'completionTokens', null)
  await Promise.all([ledger.open(good), ledger.settle(toSettled(good)), ledger.settle(broken)])
  await ledger.flush()
  expect(statusesOf(folder.database)).toEqual({ [good.id]: 'ok' })
  expect(log.messages).toEqual(['database rejected a ledger row; saved in the journal folder'])
})

test('closing writes pending records, applies them, and leaves no segment', async () => {
  const { ledger } = open()
  const rows = Array.from({ length: 20 }, () => toOpen())
  const all = Promise.all(rows.map((row) => ledger.open(row)))
  await ledger.close()
  closing.splice(0)
  expect(statuses()).toHaveLength(20)
  await all
  expect(listSegments(folder.journal)).toEqual([])
})

test('closing during a lock leaves the records for the next start', async () => {
  const { ledger } = open()
  const unlock = lock()
  const row = toOpen()
  await ledger.open(row)
  await ledger.close()
  closing.splice(0)
  expect(onDisk()).toEqual([opening(row)])
  unlock()
})

test('spend includes pending records, and never comes from the database only, whichever part has which records', async () => {
  const { ledger } = open()
  const reader = createLedgerReader(folder.database)
  const spenders = [
    { kind: 'key', id: 'key-a' },
    { kind: 'team', id: 'team-a' },
  ] as const
  const spent = () =>
    spenders.flatMap((spender) =>
      [since(0), since(HOUR)].map((span) => reader.spent(spender, span) + ledger.unapplied(spender, span)),
    )
  const same = async (expected: number[]) => {
    expect(spent()).toEqual(expected)
    await ledger.flush()
    expect(spent()).toEqual(expected)
  }
  const early = toOpen({ createdMs: HOUR - 1, teamId: 'team-a', reservedNanoUsd: 1_000 })
  const row = toOpen({ teamId: 'team-a', reservedNanoUsd: 10 })
  const loose = toOpen({ reservedNanoUsd: 20_000 })
  const other = toOpen({ keyId: 'key-b', teamId: 'team-a', reservedNanoUsd: 300_000 })
  for (const each of [early, row, loose, other]) await ledger.open(each)
  await same([21_010, 20_010, 301_010, 300_010])
  // A call's reservation counts with its request; one is in the database, the other in the journal.
  const call = toCall(row, 2, { reservedNanoUsd: 5 })
  await ledger.openCall(call)
  await same([21_015, 20_015, 301_015, 300_015])
  await ledger.settle(toSettled(row, { costNanoUsd: 7, attempts: 2 }), [toSettledCall(call)])
  await same([21_007, 20_007, 301_007, 300_007])
  // A call's reservation may grow: then the increase is only in the journal.
  ledger.grow(growing(loose, { reservedNanoUsd: 50_000, reservedCompletionTokens: 5_000 }))
  await same([51_007, 50_007, 301_007, 300_007])
  // Neither part alone knows the open requests, and their reservations.
  const underWay = reader.underWay(spenders[1], since(0))
  const extra = toCall(other, 2, { reservedNanoUsd: 3 })
  await ledger.openCall(extra)
  ledger.unapplied(spenders[1], since(0), underWay)
  expect(Object.fromEntries(underWay)).toEqual({ [early.id]: 1_000, [other.id]: 300_003 })
  await ledger.settle(toSettled(early, { costNanoUsd: 1_000 }))
  ledger.unapplied(spenders[1], since(0), underWay)
  expect([...underWay]).toEqual([[other.id, 300_003]])
  await ledger.settle(toSettled(other, { costNanoUsd: 300_000, attempts: 2 }), [toSettledCall(extra)])
  const whole = toOpen({ teamId: 'team-a' })
  const records: [LedgerRecord['kind'], Promise<void>][] = [
    ['open', ledger.open(whole)],
    ['call', ledger.openCall(toCall(whole, 2))],
    ['settle', ledger.settle(toSettled(whole, { costNanoUsd: 40, attempts: 2 }), [toSettledCall(toCall(whole, 2))])],
  ]
  for (const [, record] of records) await record
  await same([51_047, 50_047, 301_047, 300_047])
  // Including records just passed in.
  const latest = ledger.open(toOpen({ reservedNanoUsd: 4_000_000 }))
  await same([4_051_047, 4_050_047, 301_047, 300_047])
  await latest
})

test('without its database it accepts no requests, and outcomes are still kept; without its journal it accepts nothing', async () => {
  const files: { lost: 'database' | 'journal' | null } = { lost: null }
  const { ledger } = open({}, { files })
  const [first, second] = [toOpen(), toOpen()]
  await Promise.all([ledger.open(first), ledger.open(second)])
  files.lost = 'database'
  expect(ledger.state()).toBe('unavailable')
  await expect(ledger.open(toOpen())).rejects.toThrow('removed or replaced')
  await expect(ledger.openCall(toCall(first, 2))).rejects.toThrow('removed or replaced')
  await ledger.settle(toSettled(first))
  files.lost = 'journal'
  await expect(ledger.settle(toSettled(second))).rejects.toThrow('removed or replaced')
  files.lost = null
  expect(ledger.state()).toBe('ok')
  await ledger.settle(toSettled(second))
  expect(onDisk()).toHaveLength(4)
})
