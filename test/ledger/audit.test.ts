/** `tollgate ledger verify`: its findings, accepted states, and exit code. */

import { Database } from 'bun:sqlite'
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { toHead, toRecordLine } from '../../src/ledger/journal-file.ts'
import { takeLock } from '../../src/store/data-folder.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import { openDatabase } from '../../src/store/sqlite/open.ts'
import { type Bench, createBench } from '../cli/run.ts'
import {
  abandonOthers,
  calling,
  growing,
  HOUR,
  opening,
  settling,
  toCall,
  toOpen,
  toSettled,
  toSettledCall,
} from './fixture.ts'

let bench: Bench
let database: Database
let unlock: (() => void) | null = null
beforeEach(() => {
  bench = createBench(HOUR + 2.5 * 3_600_000)
  database = openDatabase(databasePath(bench.folder), { busyMs: 0 })
  database.run(`INSERT INTO instances VALUES ('here', 1, 0, 0)`)
  const rows = [toOpen(), toOpen({ createdMs: HOUR + 3_599_999 }), toOpen({ createdMs: HOUR + 3_600_000 })]
  createLedgerWriter(database).apply(rows.map((row) => settling(toSettled(row))))
  for (const name of ['journal', 'spool']) mkdirSync(join(bench.folder, name))
})
afterEach(() => {
  unlock?.()
  unlock = null
  database.close()
  bench.close()
})

async function audit() {
  const { code, stdout } = await bench.run('ledger', 'verify', '--json')
  const document: Record<string, unknown> = JSON.parse(stdout)
  expect(code).toBe(document.ok ? 0 : 1)
  expect(document.findings).toBeArray()
  return document
}

test('a consistent ledger and rollup give one message and exit code 0', async () => {
  expect(await bench.run('ledger', 'verify')).toEqual({
    code: 0,
    stdout: 'The ledger is consistent: 2 hours, 3 settled requests, $0.0000015.\n',
    stderr: '',
  })
  const old = await bench.run('audit')
  expect([old.code, old.stderr]).toEqual([
    0,
    'note: tollgate audit is now tollgate ledger verify. The old name will be removed in the next release.\n',
  ])
  expect(await audit()).toEqual({
    ok: true,
    findings: [],
    from_ms: 0,
    hours: 2,
    requests: 3,
    cost_nano_usd: 1_500,
    pending_records: 0,
  })
})

test('after a moment with a clock a century behind, only hours with rows are checked', async () => {
  const early = toOpen({ createdMs: 1_000 })
  createLedgerWriter(database).apply([settling(toSettled(early))])
  // As an older version wrote at its first start.
  database.run(`INSERT INTO settings VALUES ('ledger_from', '${Date.UTC(1926, 0)}', 0)`)
  expect(await audit()).toMatchObject({ ok: true, hours: 3, requests: 4 })
})

test('rows in an hour without a rollup are found, however far it is from all others', async () => {
  for (const createdMs of [1_000, Date.UTC(2090, 0)])
    createLedgerWriter(database).apply([settling(toSettled(toOpen({ createdMs })))])
  database.run(`DELETE FROM usage_hourly WHERE hour_ms <> ${HOUR}`)
  const found = (hour_ms: number) => expect.objectContaining({ kind: 'difference', hour_ms })
  expect((await audit()).findings).toEqual([0, HOUR + 3_600_000, Date.UTC(2090, 0)].map(found))
})

describe('a difference is found', () => {
  const cell = { kind: 'difference', hour_ms: HOUR, key_id: 'key-a', model: 'acme/large', upstream: 'paid' }
  const one = (field: string, ledger: number, rollup: number) => [
    expect.objectContaining({ ...cell, fields: [{ field, ledger, rollup }] }),
  ]
  const scenarios: [string, string, unknown[]][] = [
    ...[
      ...['requests', 'errors', 'cuts', 'prompt_tokens', 'cached_tokens', 'cache_write_tokens', 'completion_tokens'],
      ...['reasoning_tokens', 'cost_nano_usd', 'estimated_cost_nano_usd'],
    ].map((sum): [string, string, unknown[]] => [
      `in ${sum}`,
      `UPDATE usage_hourly SET ${sum} = ${sum} + 1 WHERE hour_ms = ${HOUR}`,
      [expect.objectContaining({ ...cell, fields: [expect.objectContaining({ field: sum })] })],
    ]),
    [
      'in a histogram',
      `UPDATE usage_hourly SET duration_histogram = '{"3":7}' WHERE hour_ms = ${HOUR}`,
      one('duration_histogram', 2, 7),
    ],
    [
      'in a histogram that is none',
      `UPDATE usage_hourly SET first_token_histogram = 'x' WHERE hour_ms = ${HOUR}`,
      one('first_token_histogram', 2, -1),
    ],
    [
      'where the rollup has a cell without rows',
      `INSERT INTO usage_hourly (hour_ms, key_id, model, upstream) VALUES (${HOUR}, 'key-z', 'm', 'u')`,
      [expect.objectContaining({ kind: 'difference', key_id: 'key-z', fields: [] })],
    ],
    [
      'where a day is not what its hours are',
      `UPDATE usage_daily SET cost_nano_usd = cost_nano_usd + 1 WHERE dimension = 'model' AND value = 'acme/large'`,
      [
        expect.objectContaining({
          kind: 'day',
          day_ms: HOUR - (HOUR % 86_400_000),
          dimension: 'model',
          value: 'acme/large',
        }),
      ],
    ],
    [
      'where a day has what its hours have not',
      `INSERT INTO usage_daily (dimension, day_ms, value, requests) VALUES ('key', 0, 'key-z', 1)`,
      [expect.objectContaining({ kind: 'day', day_ms: 0, dimension: 'key', value: 'key-z' })],
    ],
    [
      'where a day has no sums',
      `DELETE FROM usage_daily WHERE dimension = 'upstream' AND value = 'paid'`,
      [expect.objectContaining({ kind: 'day', dimension: 'upstream', value: 'paid' })],
    ],
    [
      'where a day has another sum of a key within a model than its hours',
      `UPDATE usage_daily SET cached_tokens = cached_tokens + 1 WHERE dimension = 'key of model'`,
      [expect.objectContaining({ kind: 'day', dimension: 'key of model', value: 'acme/large key-a' })],
    ],
    [
      'where a day has no sums within a model',
      `DELETE FROM usage_daily WHERE dimension = 'upstream of model'`,
      [expect.objectContaining({ kind: 'day', dimension: 'upstream of model', value: 'acme/large paid' })],
    ],
    [
      'where a day has sums within a team that its hours have not',
      `INSERT INTO usage_daily (dimension, day_ms, value) VALUES ('key of team', 0, 'team-z key-z')`,
      [expect.objectContaining({ kind: 'day', day_ms: 0, dimension: 'key of team', value: 'team-z key-z' })],
    ],
    [
      'where rows have no cell',
      `DELETE FROM usage_hourly WHERE hour_ms = ${HOUR}`,
      [
        expect.objectContaining({
          ...cell,
          fields: expect.arrayContaining([{ field: 'requests', ledger: 2, rollup: 0 }]),
        }),
      ],
    ],
  ]
  for (const [name, sql, findings] of scenarios) {
    test(name, async () => {
      database.run(sql)
      expect((await audit()).findings).toEqual(findings)
      const { code, stdout, stderr } = await bench.run('ledger', 'verify')
      expect({ code, lines: stdout.trim().split('\n').length }).toEqual({ code: 1, lines: 1 })
      expect(stderr).toBe('error: 1 finding in 2 hours, 3 settled requests, $0.0000015.\n')
    })
  }
})

describe('a request and its additional calls', () => {
  const row = toOpen({ createdMs: HOUR + 3_600_000 })
  const [second, third] = [toSettledCall(toCall(row, 2)), toSettledCall(toCall(row, 3))]
  beforeEach(() => {
    createLedgerWriter(database).apply([settling(toSettled(row, { attempts: 3 }), [second, third])])
  })

  test('that match are no finding, and neither are calls in flight', async () => {
    const next = toOpen()
    createLedgerWriter(database).apply([opening(next), calling(toCall(next, 2))])
    unlock = takeLock(bench.folder)
    expect(await audit()).toMatchObject({ ok: true, requests: 4 })
  })

  const attempts = 'the number of attempts differs from the calls in the ledger'
  const sums = "the calls' tokens or cost don't add up to the request's"
  const scenarios: [string, string, string, string][] = [
    ['a call is missing', 'DELETE FROM calls WHERE number = 3', 'attempts', attempts],
    ['all calls are missing', 'DELETE FROM calls', 'attempts', attempts],
    ['a call is too many', 'UPDATE requests SET attempts = 1 WHERE attempts = 3', 'attempts', attempts],
    ['calls cost more', 'UPDATE calls SET cost_nano_usd = 301 WHERE number = 3', 'sums', sums],
    ['calls took more tokens', 'UPDATE calls SET cached_tokens = 3', 'sums', sums],
  ]
  for (const [name, sql, problem, words] of scenarios) {
    test(`are a finding if ${name}`, async () => {
      database.run(sql)
      const hour_ms = HOUR + 3_600_000
      expect((await audit()).findings).toEqual([
        expect.objectContaining({ kind: 'calls', hour_ms, problem, requests: 1, request_id: row.id }),
      ])
      expect((await bench.run('ledger', 'verify')).stdout).toBe(
        `2026-11-21 13:00, 1 request such as ${row.id}: ${words}.\n`,
      )
    })
  }

  test('are a finding if calls exist without their request', async () => {
    const [gone, too] = [toOpen({ instance: 'old' }), toOpen({ instance: 'old' })]
    const applier = createLedgerWriter(database)
    applier.apply([calling(toCall(gone, 2)), calling(toCall(gone, 3)), calling(toCall(too, 2))])
    abandonOthers(database, 'here')
    expect((await audit()).findings).toEqual([
      expect.objectContaining({ kind: 'calls', hour_ms: HOUR, problem: 'orphans', requests: 2, request_id: gone.id }),
    ])
    expect((await bench.run('ledger', 'verify')).stdout).toContain('2 requests such as')
  })
})

describe('an open row', () => {
  test('of the running server is no finding', async () => {
    createLedgerWriter(database).apply([opening(toOpen())])
    unlock = takeLock(bench.folder)
    expect(await audit()).toMatchObject({ ok: true, requests: 3 })
  })

  test('is a finding if that server is gone, or was another', async () => {
    createLedgerWriter(database).apply([opening(toOpen()), opening(toOpen({ instance: 'old' }))])
    createLedgerWriter(database).apply([calling(toCall(toOpen({ instance: 'old' }), 2))])
    const found = (table: string, instance: string, oldest_ms: number) =>
      expect.objectContaining({ kind: 'open', table, instance, rows: 1, oldest_ms })
    const old = [found('requests', 'old', HOUR + 1_000), found('calls', 'old', HOUR + 1_020)]
    expect((await audit()).findings).toEqual([found('requests', 'here', HOUR + 1_000), ...old])
    unlock = takeLock(bench.folder)
    expect((await audit()).findings).toEqual(old)
  })
})

test('pending records of the running server are mentioned; those of other servers, and rejected ones, are findings', async () => {
  const leave = (file: string, text: string) => writeFileSync(join(bench.folder, file), text)
  const line = () => toRecordLine(opening(toOpen()))
  leave('journal/here-1.log', toHead('0002') + line() + line())
  leave('journal/old-1.log', `${line()}torn`)
  leave('journal/old-2.log', '\0'.repeat(64))
  leave('spool/older-1.log', line())
  leave('journal/old.rejected', line())
  unlock = takeLock(bench.folder)
  expect(await audit()).toMatchObject({
    pending_records: 4,
    findings: [
      { kind: 'journal', file: 'journal/old-1.log', records: 1 },
      { kind: 'journal', file: 'spool/older-1.log', records: 1 },
      { kind: 'rejected', file: 'journal/old.rejected' },
    ],
  })
  const { stdout } = await bench.run('ledger', 'verify')
  expect(stdout.match(/^note: .*/gm)).toEqual([
    'note: 4 ledger records pending in the journal; the server is applying them.',
  ])
  const { stderr } = await bench.run('keys', 'list')
  expect(stderr).toStartWith('note: 4 ledger records pending in the journal; the server is applying them.\n')
})

test('records that are already in the database are not pending', async () => {
  const row = toOpen()
  createLedgerWriter(database).apply([settling(toSettled(row))])
  const more = { reservedNanoUsd: 90_000, reservedCompletionTokens: 9_000 }
  const records = [opening(row), growing(row, more), calling(toCall(row, 2)), settling(toSettled(row))]
  writeFileSync(join(bench.folder, 'journal', 'old-1.log'), records.map(toRecordLine).join(''))
  expect(await audit()).toMatchObject({ ok: true, pending_records: 0 })
})

test('a later reservation of a request is not in the database until it is applied', async () => {
  const row = toOpen()
  const store = createLedgerWriter(database)
  const grown = growing(row, { reservedNanoUsd: 90_000, reservedCompletionTokens: 9_000 })
  writeFileSync(join(bench.folder, 'journal', 'old-1.log'), toRecordLine(grown))
  store.apply([opening(row)])
  expect((await audit()).pending_records).toBe(1)
  store.apply([grown])
  expect((await audit()).pending_records).toBe(0)
})

test('it reads during a write and a lock, and writes nothing', async () => {
  database.run('BEGIN IMMEDIATE')
  createBusyRow()
  const before = new Database(databasePath(bench.folder), { readonly: true })
  const version = () => before.query('PRAGMA data_version').get()
  const seen = version()
  expect(await audit()).toMatchObject({ ok: true })
  expect(version()).toEqual(seen)
  before.close()
  database.run('ROLLBACK')
})

/** Half of a settlement, which no other connection may see. */
function createBusyRow(): void {
  database.run(`UPDATE usage_hourly SET requests = requests + 1 WHERE hour_ms = ${HOUR}`)
}
