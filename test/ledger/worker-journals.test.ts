/** Journals of real worker processes, followed by a keeper on the same data folder. */
import { Database } from 'bun:sqlite'
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Link, Topic } from '../../src/domain/link.ts'
import type { Key } from '../../src/domain/snapshot.ts'
import { DAY_MS } from '../../src/domain/time.ts'
import { isOf, listSegments, readSegment } from '../../src/ledger/journal-file.ts'
import { readMark } from '../../src/ledger/mark.ts'
import type { EndedRequest } from '../../src/ledger/other-journals.ts'
import { createLimiter } from '../../src/limits/limiter.ts'
import { openStorage } from '../../src/server/storage.ts'
import { type LinkListener, listenForLinks } from '../../src/server/workers/link.ts'
import { isDraining } from '../../src/store/data-folder.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { until } from '../support/until.ts'
import { createTestLog, findingsOf, HOUR, since } from './fixture.ts'
import { BACKLOG, CLOSE, FLUSH_HERE, LOAD, OPEN, SETTLE, TEAR, WRITE_ALONE } from './worker-process.ts'

let dataFolder: string
let nowMs: number
const log = createTestLog()
const closing: (() => unknown)[] = []
beforeEach(() => {
  dataFolder = mkdtempSync(join(tmpdir(), 'tollgate-workers-'))
  nowMs = HOUR + 60_000
  log.messages.length = 0
})
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
  rmSync(dataFolder, { recursive: true })
})

async function openKeeper(instance: string) {
  const cleanup = new AsyncDisposableStack()
  const close = () => cleanup.disposeAsync()
  closing.push(close)
  const clocks = { now: () => nowMs, monotonicMs: () => performance.now() }
  const storage = await openStorage(
    { version: '1.2.3', dataFolder, instance, startedMs: nowMs, ...clocks, log },
    cleanup,
  )
  const kept = { keepMs: DAY_MS, auditMs: Number.POSITIVE_INFINITY, diskBytes: null }
  const folder = storage.openLedger({ durability: 'process', maxJournalBytes: 64 * 1024 ** 2, ...kept })
  const ended: EndedRequest[] = []
  folder.others.follow((request) => void ended.push(request))
  return { ...folder, ended, close }
}

type Keeper = Awaited<ReturnType<typeof openKeeper>>

async function startWorker(keeper: Keeper, instance: string) {
  const socket = join(dataFolder, `${instance}.sock`)
  const linked = Promise.withResolvers<Link>()
  const listener: LinkListener = listenForLinks(socket, linked.resolve)
  const script = join(import.meta.dir, 'worker-process.ts')
  const child = Bun.spawn([process.execPath, script, dataFolder, socket, instance], {
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  closing.push(async () => {
    child.kill('SIGKILL')
    await child.exited
    listener.stop()
  })
  const link = await linked.promise
  const gone = Promise.withResolvers<void>()
  keeper.others.add(instance, link, { onEnded() {}, onGone: gone.resolve })
  const ask = <Body, Reply>(about: Topic<Body, Reply>, body: Body) => link.ask(about, body)
  const segments = () => listSegments(join(dataFolder, 'journal')).filter((path) => isOf(path, instance))
  return { instance, link, child, ask, gone: gone.promise, segments }
}

/** Every request's status and cost. */
function rowsOf(): Map<string, string> {
  using database = new Database(databasePath(dataFolder), { readonly: true })
  const rows = database.query<{ id: string; status: string; cost: number }, []>(
    'SELECT id, status, cost_nano_usd AS cost FROM requests',
  )
  return new Map(rows.all().map(({ id, status, cost }) => [id, status === 'open' ? 'open' : `${status} ${cost}`]))
}

function findings() {
  using database = new Database(databasePath(dataFolder), { readonly: true })
  return findingsOf(database, dataFolder)
}

const statusesOf = (ids: readonly string[]) => {
  const rows = rowsOf()
  return ids.map((id) => rows.get(id))
}

/** Records that a loaded worker was told are durable. */
function readAcknowledged(file: string) {
  const [opened, settled] = [new Set<string>(), new Map<string, string>()]
  for (const line of readFileSync(file, 'utf8').split('\n').slice(0, -1)) {
    const [what = '', id = ''] = line.split(' ')
    if (what === 'open') opened.add(id)
    else settled.set(id, `ok ${what}`)
  }
  return { opened, settled }
}

test('a worker that is killed under load leaves all that it acknowledged, and other workers are unaffected', async () => {
  const keeper = await openKeeper('keeper')
  const [killed, other] = [await startWorker(keeper, 'one'), await startWorker(keeper, 'two')]
  const open = await other.ask(OPEN, { count: 3 })
  const file = join(dataFolder, 'acknowledged')
  killed.link.tell(LOAD, file)
  // More than its first segment, so that some are released meanwhile.
  await until('a load', () => rowsOf().size > 2_000)
  killed.child.kill('SIGKILL')
  await killed.gone
  const { opened, settled } = readAcknowledged(file)
  const rows = rowsOf()
  for (const [id, status] of settled) expect(rows.get(id)).toBe(status)
  for (const id of opened) if (!settled.has(id)) expect(rows.get(id)).toMatch(/^(ok \d+|abandoned 9000)$/)
  expect([...rows.values()].filter((status) => status === 'open')).toHaveLength(3)
  // Each once, as in the ledger.
  const costs = new Map(keeper.ended.map(({ id, costNanoUsd }) => [id, costNanoUsd]))
  expect(keeper.ended).toHaveLength(costs.size)
  for (const [id, cost] of costs) expect(rows.get(id)).toEndWith(` ${cost}`)
  expect(costs.size).toBe(rows.size - 3)
  await until('its segments to be removed', () => killed.segments().length === 0)
  expect(readMark(dataFolder)).toBe(rows.size)
  expect(findings()).toEqual([])
  await other.ask(SETTLE, { ids: open, costNanoUsd: 70 })
  expect(await other.ask(FLUSH_HERE, null)).toMatchObject({ waiting: 0 })
  expect(statusesOf(open)).toEqual(['ok 70', 'ok 70', 'ok 70'])
}, 30_000)

test('segments are released while their worker lives, and retention deletes their requests', async () => {
  const keeper = await openKeeper('keeper')
  const worker = await startWorker(keeper, 'one')
  for (let turn = 0; turn < 6; turn++) {
    const ids = await worker.ask(OPEN, { count: 500, fields: { user: 'x'.repeat(2_000) } })
    await worker.ask(SETTLE, { ids, costNanoUsd: 10 })
  }
  const open = await worker.ask(OPEN, { count: 2 })
  expect(await worker.ask(FLUSH_HERE, null)).toMatchObject({ waiting: 0 })
  expect(await worker.ask(BACKLOG, null)).toEqual({ records: 0, state: 'ok' })
  expect(keeper.ledger.backlog().records).toBe(0)
  // 12 MB in a segment of 1 MiB and several of 8 MiB: the current one and a spare one remain.
  await until('the first segments to be released', () => worker.segments().length <= 2)
  nowMs += 3 * DAY_MS
  expect(keeper.others.oldestMs()).toBeLessThan(nowMs - 2 * DAY_MS)
  expect(await keeper.retention.pass()).toMatchObject({ requests: 3_000 })
  expect(rowsOf().size).toBe(2)
  // An open request stays, and so does its row for as long as a segment has its end.
  await worker.ask(SETTLE, { ids: open, costNanoUsd: 10 })
  await worker.ask(FLUSH_HERE, null)
  expect(await keeper.retention.pass()).toMatchObject({ requests: 2 })
  expect(findings()).toEqual([])
  worker.link.tell(CLOSE, null)
  expect(await worker.child.exited).toBe(0)
  await worker.gone
  expect(rowsOf().size).toBe(0)
  expect(findings()).toEqual([])
}, 30_000)

test('an unfinished line of a killed worker is no record, and earlier ones count', async () => {
  const keeper = await openKeeper('keeper')
  const worker = await startWorker(keeper, 'one')
  const ids = await worker.ask(OPEN, { count: 3 })
  await worker.ask(SETTLE, { ids: ids.slice(1), costNanoUsd: 40 })
  worker.link.tell(TEAR, null)
  await worker.gone
  expect(statusesOf(ids)).toEqual(['abandoned 9000', 'ok 40', 'ok 40'])
  expect(rowsOf().size).toBe(3)
  await until('its files to be removed', () =>
    readdirSync(join(dataFolder, 'journal')).every((name) => !name.startsWith('one')),
  )
  expect(findings()).toEqual([])
})

test('a keeper that starts while workers live leaves them their requests, and has their records until they end', async () => {
  const first = await openKeeper('first')
  const worker = await startWorker(first, 'one')
  const [early = '', late = '', lost = ''] = await worker.ask(OPEN, { count: 3 })
  // Its answers come over this link, which a keeper's end would close.
  await first.close()
  expect(isDraining(dataFolder, 'one')).toBe(true)
  const second = await openKeeper('second')
  expect(second.others.hasPredecessors()).toBe(true)
  expect(second.others.open().map(({ id }) => id)).toEqual([early, late, lost].sort())
  expect(second.others.oldestMs()).toBe(0)
  expect(statusesOf([early, late, lost])).toEqual(['open', 'open', 'open'])
  expect(findings()).toEqual([])
  await worker.ask(SETTLE, { ids: [early], costNanoUsd: 40 })
  await until('it to be followed', () => statusesOf([early])[0] === 'ok 40')
  await worker.ask(SETTLE, { ids: [late], costNanoUsd: 50 })
  worker.child.kill('SIGKILL')
  await until('its end', () => !second.others.hasPredecessors())
  expect(statusesOf([early, late, lost])).toEqual(['ok 40', 'ok 50', 'abandoned 9000'])
  expect(second.ended.map(({ costNanoUsd }) => costNanoUsd).sort()).toEqual([40, 50, 9000])
  expect(worker.segments()).toEqual([])
  expect(readMark(dataFolder)).toBe(3)
  expect(findings()).toEqual([])
})

test("a new budget includes workers' settled and open amounts, even just written ones", async () => {
  const keeper = await openKeeper('keeper')
  const workers = [await startWorker(keeper, 'one'), await startWorker(keeper, 'two')]
  const limiter = createLimiter()
  keeper.others.follow((request) => limiter.ended(request))
  const all: string[][] = []
  for (const { ask } of workers) {
    const ids = await ask(OPEN, { count: 4 })
    await ask(SETTLE, { ids: ids.slice(0, 1), costNanoUsd: 500 })
    all.push(ids)
  }
  const { reader, ledger } = keeper
  const budget = { nanoUsd: 1_000_000, period: 'month' as const }
  limiter.renew(
    [{ id: 'key-a', name: 'a', limits: {}, budget } as unknown as Key],
    [],
    (spender, span, inFlight) => {
      for (const [id, nanoUsd] of reader.underWay(spender, span)) inFlight.set(id, nanoUsd)
      return reader.spent(spender, span) + ledger.unapplied(spender, span, inFlight)
    },
    { monotonicMs: 0, wallMs: nowMs },
  )
  const spent = () => [...limiter.budgetUses('key', nowMs)].map(({ spentNanoUsd }) => spentNanoUsd)
  expect(spent()).toEqual([2 * 500 + 6 * 9_000])
  await until('all to be followed', () => rowsOf().size === 8)
  expect(spent()).toEqual([2 * 500 + 6 * 9_000])
  const [[, ...first] = [], [, ...second] = []] = all
  await workers[0]?.ask(SETTLE, { ids: first, costNanoUsd: 100 })
  await until('their ends to be followed', () => spent()[0] === 2 * 500 + 3 * 100 + 3 * 9_000)
  await workers[1]?.ask(SETTLE, { ids: second.slice(1), costNanoUsd: 100 })
  workers[1]?.child.kill('SIGKILL')
  await workers[1]?.gone
  expect(spent()).toEqual([2 * 500 + 5 * 100 + 9_000])
  expect(keeper.reader.spent({ kind: 'key', id: 'key-a' }, since(0))).toBe(2 * 500 + 5 * 100 + 9_000)
})

test('while another process locks the database, workers continue, and the keeper reports it once', async () => {
  const keeper = await openKeeper('keeper')
  const worker = await startWorker(keeper, 'one')
  const ids = await worker.ask(OPEN, { count: 10 })
  await worker.ask(FLUSH_HERE, null)
  const other = new Database(databasePath(dataFolder))
  closing.push(() => other.close())
  other.run('BEGIN IMMEDIATE')
  await worker.ask(SETTLE, { ids, costNanoUsd: 60 })
  await until('the keeper to tell', () => log.messages.length > 0)
  expect(keeper.ledger.backlog()).toMatchObject({ records: 10 })
  expect(await worker.ask(BACKLOG, null)).toEqual({ records: 10, state: 'ok' })
  other.run('ROLLBACK')
  await until('it to catch up', () => log.messages.length > 1)
  expect(log.messages).toEqual([
    'database not accepting ledger rows; queued in the journal',
    'database accepting ledger rows again',
  ])
  expect(statusesOf(ids)).toEqual(ids.map(() => 'ok 60'))
})

test('a row that the database rejects is set aside, and the journal continues', async () => {
  const keeper = await openKeeper('keeper')
  const worker = await startWorker(keeper, 'one')
  const [broken = '', good = ''] = await worker.ask(OPEN, { count: 2 })
  await worker.ask(SETTLE, { ids: [broken], costNanoUsd: Number.NaN })
  await worker.ask(SETTLE, { ids: [good], costNanoUsd: 30 })
  expect(await worker.ask(FLUSH_HERE, null)).toMatchObject({ waiting: 0 })
  expect(statusesOf([broken, good])).toEqual(['open', 'ok 30'])
  expect(readSegment(join(dataFolder, 'journal', 'keeper.rejected'))).toHaveLength(1)
})

test('a worker whose journal is removed accepts no requests, and delays no other worker', async () => {
  const keeper = await openKeeper('keeper')
  const [one, two] = [await startWorker(keeper, 'one'), await startWorker(keeper, 'two')]
  for (const path of one.segments()) rmSync(path)
  await one.ask(OPEN, { count: 1 }).catch(() => null)
  await until('it to notice', async () => (await one.ask(BACKLOG, null)).state === 'unavailable')
  await expect(one.ask(OPEN, { count: 1 })).rejects.toThrow('removed or replaced')
  const ids = await two.ask(OPEN, { count: 2 })
  expect(await two.ask(FLUSH_HERE, null)).toMatchObject({ waiting: 0 })
  expect(statusesOf(ids)).toEqual(['open', 'open'])
})

test('a worker that loses its keeper continues, and its files have its records', async () => {
  const keeper = await openKeeper('keeper')
  const worker = await startWorker(keeper, 'one')
  const early = await worker.ask(OPEN, { count: 1 })
  worker.link.tell(WRITE_ALONE, 4)
  worker.link.close()
  await until('its requests', () => rowsOf().size === 5)
  expect(isDraining(dataFolder, 'one')).toBe(true)
  expect([...rowsOf().values()]).toEqual(Array.from({ length: 5 }, () => 'open'))
  worker.child.kill('SIGTERM')
  await worker.gone
  expect(statusesOf(early)).toEqual(['abandoned 9000'])
  await until('its segments to be removed', () => worker.segments().length === 0)
  expect(readMark(dataFolder)).toBe(5)
  expect(findings()).toEqual([])
})
