/** A start after a kill: records of the killed server. */
import { beforeEach, expect, test } from 'bun:test'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { listSegments, toRecordLine } from '../../src/ledger/journal-file.ts'
import { recover } from '../../src/ledger/recover.ts'
import { toFirstCall } from '../../src/store/ledger-rows.ts'
import { checkpointHere } from '../../src/store/sqlite/checkpoint.ts'
import { createLeases, createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import { forEachTest } from '../support/lifetime.ts'
import {
  abandonOthers,
  calling,
  contentsOf,
  createFolder,
  createTestLog,
  HOUR,
  opening,
  settling,
  statusesOf,
  toCall,
  toOpen,
  toSettled,
  toSettledCall,
} from './fixture.ts'

const log = createTestLog()
const folder = forEachTest(createFolder)
beforeEach(() => {
  log.messages.length = 0
})

const start = () => {
  const checkpoint = async () => checkpointHere(folder.database)
  const store = { ...createLedgerWriter(folder.database), checkpoint }
  const leases = createLeases(folder.database)
  return recover({ store, leases, dataFolder: folder.path, instance: 'new', nowMs: HOUR, log })
}
const leave = (file: string, lines: string) => writeFileSync(join(folder.journal, file), lines + '\0'.repeat(4_096))

test('every segment is replayed, whichever server wrote it, and requests without an outcome are abandoned', async () => {
  const [settled, open, fresh] = [
    toOpen({ instance: 'old' }),
    toOpen({ instance: 'older' }),
    toOpen({ instance: 'new' }),
  ]
  leave('old-1.log', toRecordLine(settling(toSettled(settled))))
  leave('old-2.log', toRecordLine(opening(settled)) + toRecordLine(opening(open)).slice(0, -20))
  leave('older-1.log', toRecordLine(opening(open)))
  leave('old-3.log', '')
  leave('new-1.log', toRecordLine(opening(fresh)))
  expect(await start()).toEqual({ replayed: 4, abandoned: 1, kept: [] })
  expect(statusesOf(folder.database)).toEqual({ [settled.id]: 'ok', [open.id]: 'abandoned', [fresh.id]: 'open' })
  expect(listSegments(folder.journal)).toEqual([])
  // Its lease is valid for as long as it runs, without a message from it.
  expect(createLedgerWriter(folder.database).abandonGone(Number.MAX_SAFE_INTEGER - 1)).toBe(0)
})

test("a killed request costs its calls' recorded charges, and reservations of the others", async () => {
  /** A request with this many calls, some of which had ended: 0 for a failed one. */
  const cost = (calls: number, ...ended: readonly number[]) => {
    const row = toOpen({ instance: 'gone', reservedNanoUsd: 1 })
    const open = Array.from({ length: calls - 1 }, (_, at) => toCall(row, at + 2, { reservedNanoUsd: 10 ** (at + 1) }))
    const told = ended.map((costNanoUsd, at) => {
      const end = { status: costNanoUsd === 0 ? 'failed' : 'ok', costNanoUsd } as const
      return toSettledCall([toFirstCall(row), ...open][at] ?? toFirstCall(row), end)
    })
    const store = createLedgerWriter(folder.database)
    const last = open.at(-1)
    store.apply([
      opening(row),
      ...open.slice(0, -1).map((call) => calling(call)),
      ...(last ? [calling(last, told)] : []),
    ])
    abandonOthers(folder.database, 'here')
    const { requests, calls: rows } = contentsOf(folder.database)
    folder.database.run('DELETE FROM requests')
    folder.database.run('DELETE FROM calls')
    const costs = rows.map((one) => (one as { cost_nano_usd: number }).cost_nano_usd)
    const [{ cost_nano_usd: sum }] = requests as [{ cost_nano_usd: number }]
    if (calls > 1) expect(costs.reduce((before, one) => before + one)).toBe(sum)
    return sum
  }
  expect(cost(1)).toBe(1)
  expect(cost(2)).toBe(11)
  expect(cost(2, 0)).toBe(10)
  expect(cost(4, 0, 0, 0)).toBe(1_000)
  // The first two responses were received, but invalid; the third is unknown.
  expect(cost(3, 7, 40)).toBe(147)
})

test('a request that was killed between its calls costs the reservations of all of them', async () => {
  const [row, other] = [toOpen({ instance: 'old' }), toOpen({ instance: 'old' })]
  const [second, third] = [toCall(row, 2), toCall(row, 3, { upstream: 'last', reservedNanoUsd: 7 })]
  createLedgerWriter(folder.database).apply([opening(row), calling(second)])
  // Its last call, and another whole request, were not in the database yet.
  const retried = settling(toSettled(other, { attempts: 2 }), [toSettledCall(toCall(other, 2))])
  leave('old-1.log', toRecordLine(calling(third)) + toRecordLine(calling(toCall(other, 2))) + toRecordLine(retried))
  expect(await start()).toEqual({ replayed: 3, abandoned: 1, kept: [] })
  const { requests, calls, rollup, uses } = contentsOf(folder.database)
  expect(uses).toEqual([{ key_id: 'key-a', last_used_ms: row.createdMs, last_model: 'acme/large' }])
  const given = { status: 'abandoned', error_code: 'abandoned', estimated: 1 }
  expect(requests).toEqual([
    expect.objectContaining({
      ...{ id: row.id, ...given, attempts: 3, upstream: 'last' },
      ...{ prompt_tokens: 20 + 2 * 21, completion_tokens: 1_000 + 2 * 1_001, cost_nano_usd: 9_000 + 9_100 + 7 },
      ...{ reserved_prompt_tokens: 20, reserved_nano_usd: 9_000 },
    }),
    expect.objectContaining({ id: other.id, status: 'ok', cost_nano_usd: 500, attempts: 2 }),
  ])
  expect(calls).toEqual([
    expect.objectContaining({ number: 1, ...given, upstream: 'paid', reason: 'first', cost_nano_usd: 9_000 }),
    expect.objectContaining({ number: 2, ...given, prompt_tokens: 21, completion_tokens: 1_001, cost_nano_usd: 9_100 }),
    expect.objectContaining({ number: 3, ...given, cost_nano_usd: 7 }),
    expect.objectContaining({ request_id: other.id, number: 1, status: 'ok' }),
    expect.objectContaining({ request_id: other.id, number: 2, status: 'ok' }),
  ])
  expect(rollup).toHaveLength(2)
  expect(rollup).toContainEqual(expect.objectContaining({ upstream: 'last', errors: 1, cost_nano_usd: 18_107 }))
})

test('a start that was killed midway changes nothing when it is repeated', async () => {
  const rows = [toOpen({ instance: 'old' }), toOpen({ instance: 'old' })]
  const lines =
    rows.map((row) => toRecordLine(opening(row))).join('') + toRecordLine(settling(toSettled(rows[0] ?? toOpen())))
  leave('old-1.log', lines)
  await start()
  const before = contentsOf(folder.database)
  leave('old-1.log', lines)
  expect(await start()).toEqual({ replayed: 3, abandoned: 0, kept: [] })
  expect(contentsOf(folder.database)).toEqual(before)
})

test('a segment stays if another process keeps its records out of the database file', async () => {
  leave('old-1.log', toRecordLine(opening(toOpen({ instance: 'old' }))))
  const reader = folder.other()
  reader.run('BEGIN')
  reader.query('SELECT COUNT(*) FROM requests').get()
  expect(await start()).toEqual({ replayed: 1, abandoned: 1, kept: listSegments(folder.journal) })
  expect(listSegments(folder.journal)).toHaveLength(1)
  reader.run('COMMIT')
  await start()
  expect(listSegments(folder.journal)).toEqual([])
})

test('a failing database stops the start and keeps the segments', async () => {
  leave('old-1.log', toRecordLine(opening(toOpen({ instance: 'old' }))))
  folder.other().run('BEGIN IMMEDIATE')
  await expect(start()).rejects.toThrow('locked')
  expect(listSegments(folder.journal)).toHaveLength(1)
})

test('a rejected record is kept in the journal folder and stops nothing', async () => {
  const broken = toSettled(toOpen({ instance: 'old' }))
  Reflect.set(broken, 'attempts', null)
  const good = toOpen({ instance: 'new' })
  leave('old-1.log', toRecordLine(settling(broken)) + toRecordLine(opening(good)))
  await start()
  expect(statusesOf(folder.database)).toEqual({ [good.id]: 'open' })
  expect(existsSync(join(folder.journal, 'new.rejected'))).toBe(true)
})
