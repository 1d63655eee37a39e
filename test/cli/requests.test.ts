/** The requests commands as a user meets them, on a ledger whose rows a test has put there. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import type { LedgerRecord } from '../../src/store/ledger-rows.ts'
import { createLedgerStore } from '../../src/store/sqlite/ledger-apply.ts'
import { databasePath, openDatabase } from '../../src/store/sqlite/open.ts'
import { HOUR, opening, settling, toOpen, toSettled } from '../ledger/fixture.ts'
import { type Bench, createBench } from './run.ts'

let bench: Bench
beforeEach(() => {
  bench = createBench(HOUR + 60_000)
})
afterEach(() => bench.close())

const id = (end: string) => `${HOUR.toString(16).padStart(12, '0')}${end.padStart(20, '0')}`

function record(...records: LedgerRecord[]): void {
  const sqlite = openDatabase(databasePath(bench.folder), { busyMs: 0 })
  createLedgerStore(sqlite, async () => true).apply(records)
  sqlite.close()
}

test('the list has a line a request, newest first, and beneath it what went wrong', async () => {
  const { id: keyId } = JSON.parse((await bench.run('keys', 'create', '--name', 'dev', '--json')).stdout)
  record(
    settling(toSettled(toOpen({ id: id('a1'), keyId }), { costNanoUsd: 1_500_000, estimated: 1 })),
    settling(
      toSettled(toOpen({ id: id('a2') }), {
        status: 'failed',
        httpStatus: 502,
        errorCode: 'upstream_failed',
        attempts: 3,
      }),
    ),
    opening(toOpen({ id: id('a3'), createdMs: HOUR - 86_400_000 })),
  )
  expect(await bench.run('requests', 'list')).toEqual({
    code: 0,
    stderr: '',
    stdout: [
      'ID        TIME              KEY    MODEL       STATUS  TOOK    TOKENS  COST',
      '000000a3  2026-11-20 12:00  key-a  acme/large  open    -       -       -',
      '          asks paid',
      '000000a2  12:00:01          key-a  acme/large  failed  0.12 s  11+7    $0.0000005',
      '          502 upstream_failed, paid, 3 calls',
      '000000a1  12:00:01          dev    acme/large  ok      0.12 s  11+7    ~$0.0015\n',
    ].join('\n'),
  })
  const found = JSON.parse((await bench.run('requests', 'list', '--key', 'dev', '--limit', '1', '--json')).stdout)
  expect(found).toMatchObject({
    requests: [
      { id: id('a1'), key_id: keyId, key: 'dev', team: null, cost_nano_usd: 1_500_000, created_ms: HOUR + 1_000 },
    ],
    next: null,
    stopped_after: null,
  })
  expect(Object.keys(found.requests[0])).not.toContain('first_call')
})

test('a page says how to get the next one, and an empty one that it is', async () => {
  record(...['b1', 'b2'].map((end) => settling(toSettled(toOpen({ id: id(end) })))))
  expect((await bench.run('requests', 'list', '--limit', '1')).stderr).toBe(`Older ones: --before ${id('b2')}\n`)
  expect(await bench.run('requests', 'list', '--errors')).toEqual({
    code: 0,
    stdout: '',
    stderr: 'There are no such requests on record.\n',
  })
  expect(JSON.parse((await bench.run('requests', 'list', '--until', '5m', '--json')).stdout).requests).toEqual([])
})

test.each([
  [['--status', 'lost'], 2, `--status 'lost' is unknown: write ok, failed, cut, abandoned, open`],
  [['--status', 'ok', '--errors'], 2, '--errors and --status say the same'],
  [['--since', 'soon'], 2, `--since 'soon' is no time`],
  [['--key', 'nobody'], 1, `There is no key 'nobody'.`],
  [['--team', 'nobody'], 1, `There is no team 'nobody'.`],
  [['--before', '12'], 1, 'The field before is invalid'],
])('a wrong filter %j is refused', async (words, code, sentence) => {
  const ran = await bench.run('requests', 'list', ...words)
  expect(ran).toMatchObject({ code, stdout: '', stderr: expect.stringContaining(sentence) })
})
