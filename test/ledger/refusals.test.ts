/** Counts of refused requests: bounded in a flood, and none lost while the database is locked. */
import { expect, test } from 'bun:test'
import { REFUSAL_CODES } from '../../src/domain/refusals.ts'
import { HOUR_MS } from '../../src/domain/time.ts'
import { createRefusals } from '../../src/ledger/refusals.ts'
import type { Log } from '../../src/log.ts'
import { createRefusalWriter } from '../../src/store/sqlite/refusals.ts'
import { forEachTest } from '../support/lifetime.ts'
import { createFolder, HOUR } from './fixture.ts'
import { overStores } from './stores.ts'

const NO_LOG: Log = { info() {}, warn() {}, error() {}, flush: async () => {} }
const folder = forEachTest(createFolder)

const create = () => createRefusals({ writer: createRefusalWriter(folder.database), onCommit() {}, log: NO_LOG })
const stored = () =>
  folder.other().query('SELECT COUNT(*) AS rows, COALESCE(SUM(refused), 0) AS refused FROM refusals_hourly').get()

test('100,000 refusals of three keys are all counted, in a row per key, code, and hour', async () => {
  const refusals = create()
  for (let i = 0; i < 100_000; i++) {
    const key = i % 4 === 3 ? undefined : { id: `key-${i % 4}`, teamId: null }
    refusals.note(REFUSAL_CODES[i % REFUSAL_CODES.length] ?? 'no_key', key, HOUR + (i % 2) * HOUR_MS)
    if (i === 50_000) await refusals.flush()
  }
  await refusals.close()
  const { rows, refused } = stored() as { rows: number; refused: number }
  expect(refused).toBe(100_000)
  expect(rows).toBeLessThanOrEqual(4 * REFUSAL_CODES.length * 2)
})

test('while another connection locks the database they wait, and are added once', async () => {
  const refusals = create()
  const other = folder.other()
  other.run('BEGIN IMMEDIATE')
  refusals.note('no_key', undefined, HOUR)
  await refusals.flush()
  refusals.note('no_key', undefined, HOUR + 5)
  other.run('ROLLBACK')
  expect(stored()).toEqual({ rows: 0, refused: 0 })
  await refusals.close()
  expect(stored()).toEqual({ rows: 1, refused: 2 })
})

test('a shutdown waits for another writer, and then loses none', async () => {
  const refusals = create()
  const other = folder.other()
  other.run('BEGIN IMMEDIATE')
  refusals.note('no_key', undefined, HOUR)
  await refusals.flush()
  const closed = refusals.close()
  other.run('ROLLBACK')
  await closed
  expect(stored()).toEqual({ rows: 1, refused: 1 })
})

test('with more keys than fit while the database is locked, the rest is counted without a key', async () => {
  const refusals = create()
  for (let i = 0; i < 60_000; i++) refusals.note('over_share', { id: `key-${i}`, teamId: null }, HOUR)
  await refusals.close()
  expect(stored()).toEqual({ rows: 50_001, refused: 60_000 })
})

test('errors of recorded requests, or without a client to report to, are not counted', async () => {
  const refusals = create()
  for (const kind of ['client_closed', 'upstream_rejected', 'unknown_url'] as const)
    refusals.note(kind, undefined, HOUR)
  await refusals.close()
  expect(stored()).toEqual({ rows: 0, refused: 0 })
})

overStores((folder) => {
  test('a report has whole hours, by day and key', async () => {
    const writer = createRefusalWriter(folder.database)
    const count = { keyId: 'k', teamId: '', code: 'no_key', refused: 1, lastMs: 0 } as const
    writer.add([-1, 0, 1, 13].map((hour) => ({ ...count, hourMs: HOUR + hour * HOUR_MS })))
    const { refusals } = await folder.readers()
    const span = { fromMs: HOUR, untilMs: HOUR + 14 * HOUR_MS }
    const pages = await Array.fromAsync(
      refusals.pages({ span, by: ['day', 'key'], where: { key: ['k'], ownKeys: ['k'] } }),
    )
    expect(pages.flat().map(({ refused }) => refused)).toEqual([2, 1])
    const none = refusals.pages({ span, by: ['key'], where: { ownKeys: [] } })
    expect((await Array.fromAsync(none)).flat()).toEqual([])
  })
})
