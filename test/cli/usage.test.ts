/** `tollgate usage`: output for terminals, spreadsheets, and scripts. */
import { beforeEach, describe, expect, test } from 'bun:test'
import type { RefusalCount } from '../../src/store/ledger-store.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import { openDatabase } from '../../src/store/sqlite/open.ts'
import { pruneSlice } from '../../src/store/sqlite/prune.ts'
import { createRefusalWriter } from '../../src/store/sqlite/refusals.ts'
import { HOUR, settling, toOpen, toSettled } from '../ledger/fixture.ts'
import { forEachTest } from '../support/lifetime.ts'
import { createBench } from './run.ts'

const NOW = HOUR + 1_800_000
const DOLLAR = 1_000_000_000
const DAY_MS = 86_400_000

const bench = forEachTest(() => createBench(NOW))
beforeEach(() => {
  bench.environment = { NO_COLOR: '1' }
})

function inLedger(...all: Parameters<typeof toSettled>[1][]): void {
  const sqlite = openDatabase(databasePath(bench.folder), { busyMs: 0 })
  createLedgerWriter(sqlite).apply(
    all.map((fields) => settling(toSettled(toOpen({ createdMs: HOUR, ...fields }), fields))),
  )
  sqlite.close()
}

const idOf = async (...argv: string[]) => JSON.parse((await bench.run('keys', 'create', ...argv, '--json')).stdout).id
const usage = (...argv: string[]) => bench.run('usage', ...argv)
const json = async (...argv: string[]) => JSON.parse((await usage(...argv, '--json')).stdout)
const lines = (text: string) => text.trimEnd().split('\n')

describe('on a terminal', () => {
  beforeEach(() => {
    bench.isWatched = true
  })

  test('is a table with a bar per cost, including names of revoked keys, and a total', async () => {
    const [dev, old] = [await idOf('--name', 'dev'), await idOf('--name', 'old')]
    await bench.run('keys', 'revoke', 'old')
    inLedger(
      { keyId: dev, costNanoUsd: DOLLAR },
      { keyId: old, costNanoUsd: 3 * DOLLAR, status: 'failed' },
      { keyId: 'system', costNanoUsd: 0 },
    )
    bench.columns = 200
    const { stdout, stderr, code } = await usage()
    expect([code, stderr]).toEqual([0, ''])
    const table = lines(stdout)
    expect(table[0]).toMatch(/^KEY +COST +REQUESTS +ERRORS +INPUT +OUTPUT +TTFT p50\/p95/)
    expect(table[1]).toMatch(/^old +\$3\.00 {2}█{8,} +1 +1 +11 +7 +\d+ms\/\d+ms +\d+ms\/\d+ms +\$3\.00 +27% +100%$/)
    expect(table[2]).toMatch(/^dev +\$1\.00 {2}██+[▏▎▍▌▋▊▉]? +1 +- +11 +7 /)
    expect(table[3]).toMatch(/^system +- +1 +-/)
    expect(table[4]).toMatch(/^total +\$4\.00 +3 +1 +33 +21/)
    expect(table[5]).toBe('2026-11-14 12:30 to now (UTC). Latencies are approximate (within 1.4x).')
    expect(table[6]).toStartWith('system: requests by the owner of the data folder')
    const bars = table.map((line) => line.match(/█/g)?.length ?? 0)
    expect(bars.slice(1, 3)).toEqual([30, 10])
  })

  test.each([40, 80, 200])('fits %i columns, with the most important ones', async (columns) => {
    inLedger({ costNanoUsd: DOLLAR, estimated: 1, status: 'cut', promptTokens: 123_456_789, model: 'm'.repeat(100) })
    bench.columns = columns
    const { stdout } = await usage('--by', 'model')
    for (const line of lines(stdout).slice(0, -1))
      expect(Bun.stringWidth(line)).toBeLessThanOrEqual(Math.max(columns, 42))
    expect(stdout.includes('ESTIMATED')).toBe(columns === 200)
    expect(stdout).toContain('$1.00')
  })

  test('rounds small sums to two digits', async () => {
    inLedger(
      ...[16_800_000, 9_960_000, 1, DOLLAR + 5_000_000].map((costNanoUsd, n) => ({ user: `u${n}`, costNanoUsd })),
    )
    const costs = lines((await usage('--by', 'user')).stdout).map((line) => line.match(/\$[\d.]+/)?.[0])
    expect(costs.slice(1, 6)).toEqual(['$1.01', '$0.017', '$0.01', '$0.000000001', '$1.03'])
  })

  test('has bars of requests if everything was free, and no control characters', async () => {
    inLedger(...[1, 2, 3].map(() => ({ user: 'e\u001b[2Jvil', costNanoUsd: 0 })), { user: null, costNanoUsd: 0 })
    const { stdout } = await usage('--by', 'user')
    expect(stdout).not.toContain('\u001b')
    expect(stdout).not.toContain('COST')
    expect(lines(stdout)[1]).toMatch(/^e\?\[2Jvil +3 {2}█+ /)
    expect(lines(stdout)[2]).toMatch(/^\(no user\) +1 {2}█+/)
  })

  test('distinguishes keys with the same name by ID, and days by date', async () => {
    const first = await idOf('--name', 'twin')
    await bench.run('keys', 'revoke', 'twin')
    const second = await idOf('--name', 'twin')
    inLedger({ keyId: first }, { keyId: second }, { keyId: second, createdMs: HOUR - DAY_MS })
    const { stdout } = await usage('--by', 'day,key')
    expect(lines(stdout).map((line) => line.split(/ {2,}/).slice(0, 2))).toEqual([
      ['DAY (UTC)', 'KEY'],
      ['2026-11-20', `twin (${second.slice(-8)})`],
      ['2026-11-21', expect.stringContaining('twin (')],
      ['2026-11-21', expect.stringContaining('twin (')],
      ['total', expect.anything()],
      [expect.stringContaining('to now')],
    ])
  })

  test('says if there is nothing to show', async () => {
    expect(await usage()).toMatchObject({
      code: 0,
      stdout: '',
      stderr: expect.stringContaining('No requests in this period'),
    })
  })
})

describe('in a pipe', () => {
  test('is CSV by RFC 4180, with IDs next to names', async () => {
    const id = await idOf('--name', 'a "b", c')
    inLedger({ keyId: id, costNanoUsd: 1_500, firstTokenMs: null })
    const { stdout } = await usage()
    const [head = '', ...rest] = stdout.split('\r\n')
    const fields = head.split(',')
    expect(fields.slice(0, 4)).toEqual(['key_id', 'key', 'groups', 'requests'])
    expect(rest.join('\r\n')).toStartWith(`${id},"a ""b"", c",1,1,0,0,11,3,`)
    expect(fields.slice(-12)).toEqual([
      ...['cost_nano_usd', 'estimated_cost_nano_usd', 'estimated_share'],
      ...['first_token_p50_ms', 'first_token_p95_ms', 'first_token_p99_ms'],
      ...['duration_p50_ms', 'duration_p95_ms', 'duration_p99_ms'],
      ...['cost_per_request_nano_usd', 'cached_share', 'error_share'],
    ])
    expect(rest.join('')).toContain(',1500,0,0,,,,')
  })

  test.each(['=cmd|x!A1', '+1', '-1', '@SUM(A1)', ' \t=1', '＝1', '\r=1'])(
    '%j is text to a spreadsheet',
    async (name) => {
      inLedger({ user: name })
      const { stdout } = await usage('--by', 'user')
      expect(stdout.slice(stdout.indexOf('\r\n') + 2)).toStartWith(`"'${name.replace(/[\t\r]/, '?')}",1,`)
    },
  )

  test("has every column of the rollup, and the rest's row has its number of groups", async () => {
    inLedger(
      { model: 'acme/a', costNanoUsd: 2 },
      { model: 'acme/b', costNanoUsd: 1 },
      { model: 'acme/c', costNanoUsd: 1 },
    )
    const { stdout, stderr } = await usage('--by', 'model', '--limit', '1')
    const [head = '', first, second, end] = stdout.split('\r\n')
    expect([first, second, end]).toEqual([expect.stringMatching(/^acme\/a,1,1,/), expect.stringMatching(/^,2,2,/), ''])
    expect(stderr).toContain('the last row sums 2 more rows')
    const sqlite = openDatabase(databasePath(bench.folder), { busyMs: 0, readonly: true })
    const columns = sqlite.query<{ name: string }, []>(`SELECT name FROM pragma_table_info('usage_hourly')`).all()
    sqlite.close()
    const sums = columns.map(({ name }) => name).filter((name) => /_tokens$|_usd$|^(requests|errors|cuts)$/.test(name))
    expect(sums.filter((name) => !head.split(',').includes(name))).toEqual([])
  })
})

describe('--json', () => {
  test('is one document: rows, rest and total, its period, and pending records', async () => {
    const team = JSON.parse((await bench.run('teams', 'create', '--name', 'Blue', '--json')).stdout)
    inLedger({ teamId: team.id, costNanoUsd: 3, estimated: 1 }, { teamId: null, costNanoUsd: 1 })
    const found = await json('--by', 'team,hour', '--since', '2026-11-21', '--until', '2026-11-22')
    expect(found).toMatchObject({
      usage: [
        {
          team_id: team.id,
          team: 'Blue',
          hour_ms: HOUR,
          hour: '2026-11-21T12:00:00.000Z',
          cost_nano_usd: 3,
          estimated_share: 1,
        },
        { team_id: null, team: null, hour_ms: HOUR, cost_nano_usd: 1, estimated_share: 0 },
      ],
      other: null,
      total: { requests: 2, cost_nano_usd: 4, estimated_cost_nano_usd: 3, estimated_share: 0.75 },
      since_ms: Date.UTC(2026, 10, 21),
      until_ms: Date.UTC(2026, 10, 22),
      pending_records: 0,
    })
  })

  test('writes sums of money beyond 2^53 exactly', async () => {
    for (let i = 0; i < 3; i++) inLedger({ costNanoUsd: Number.MAX_SAFE_INTEGER })
    expect((await usage('--json')).stdout).toContain(`"cost_nano_usd": ${3n * BigInt(Number.MAX_SAFE_INTEGER)},`)
  })

  test('reports its period if requests were deleted', async () => {
    inLedger({ createdMs: HOUR - DAY_MS, user: 'ann' }, { user: 'ann' })
    const sqlite = openDatabase(databasePath(bench.folder), { busyMs: 0 })
    pruneSlice(sqlite, { untilMs: HOUR, after: '', limit: 100, spared: [] }, NOW)
    sqlite.close()
    const { stdout, stderr } = await usage('--by', 'user', '--json')
    const keptFromMs = HOUR - DAY_MS + 3_600_000
    expect(JSON.parse(stdout)).toMatchObject({ total: { requests: 1 }, since_ms: keptFromMs })
    expect(stderr).toContain('2026-11-20 13:00')
  })
})

describe('the selection', () => {
  test('is filtered by keys, teams, aliases, and patterns, as named by users', async () => {
    const dev = await idOf('--name', 'dev')
    inLedger(
      { keyId: dev, model: 'acme/large' },
      { keyId: dev, model: 'acme/small' },
      { keyId: 'system', model: 'x/y' },
    )
    const requests = async (...argv: string[]) => (await json(...argv)).total.requests
    expect(await requests('--key', 'dev')).toBe(2)
    expect(await requests('--key', 'dev', '--key', 'system')).toBe(3)
    expect(await requests('--key', 'dev', '--model', 'x/*')).toBe(0)
    expect(await requests('--model', 'acme/*', '--model', 'x/y')).toBe(3)
    expect(await requests('--upstream', 'paid', '--endpoint', 'chat', '--user', 'nobody')).toBe(0)
  })

  test('is the last seven days by default, or an exact period in ms', async () => {
    inLedger({ createdMs: NOW - 7 * DAY_MS }, { createdMs: NOW - 7 * DAY_MS - 1 }, { createdMs: NOW - 1 })
    expect((await json()).total.requests).toBe(2)
    expect((await json('--since', '8d', '--until', '7d')).total.requests).toBe(1)
    expect((await json('--since', '2026-11-21T12:29:59.999Z')).total.requests).toBe(1)
  })

  test.each([
    [['--by', 'colour'], 'key, team, model'],
    [['--by', 'key,key'], 'key, team, model'],
    [['--by', 'key,model,day'], 'one or two'],
    [['--by', 'day,hour'], 'hour includes the day, so omit day'],
    [['--since', 'last week'], '--since'],
    [['--since', '1d', '--until', '2d'], 'before --until'],
    [['--since', '2027-01-01'], 'future'],
    [['--limit', '0'], '--limit'],
    [['--csv', '--json'], 'Pass only one of'],
    [['--code', 'no_key'], '--code works only with --refusals'],
    [['--refusals', '--model', 'a/b'], '--model works only without --refusals'],
    [['--refusals', '--by', 'model'], 'key, team, code'],
  ])('%j is refused with a sentence', async (argv, part) => {
    expect(await usage(...argv)).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(part) })
  })

  test('with an unknown name is an error', async () => {
    expect(await usage('--key', 'nobody')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("no key 'nobody'"),
    })
    expect(await usage('--team', 'nobody')).toMatchObject({ code: 1, stderr: expect.stringContaining('teams list') })
  })
})

describe('refused requests', () => {
  const refuse = (...counts: Partial<RefusalCount>[]) => {
    const sqlite = openDatabase(databasePath(bench.folder), { busyMs: 0 })
    const count = { hourMs: HOUR, keyId: '', teamId: '', code: 'no_key', refused: 1, lastMs: HOUR } as const
    createRefusalWriter(sqlite).add(counts.map((one) => ({ ...count, ...one })))
    sqlite.close()
  }

  test("are a table by key and code, with each code's meaning", async () => {
    bench.isWatched = true
    refuse({ keyId: await idOf('--name', 'dev'), code: 'insufficient_quota', refused: 1_234 }, {})
    const { stdout } = await usage('--refusals')
    expect(lines(stdout)).toEqual([
      'KEY       CODE                REFUSED  LAST (UTC)',
      'dev       insufficient_quota  1,234    2026-11-21 12:00',
      '          The rest of a budget did not cover the request.',
      '(no key)  no_key              1        2026-11-21 12:00',
      '          No API key was sent.',
      '1235 refused requests from 2026-11-14 12:00 to now (UTC), in whole hours.',
    ])
  })

  test('are CSV in a pipe, with a heading even without any, and the same as JSON', async () => {
    expect((await usage('--refusals', '--by', 'code')).stdout).toBe(
      'code,http_status,error_code,meaning,refused,last_ms\r\n',
    )
    refuse({ refused: 2 }, { code: 'request_limit' })
    expect(lines((await usage('--refusals', '--code', 'request_limit', '--by', 'day')).stdout)[1]).toMatch(
      /^\d+,2026-11-21,1,\d+/,
    )
    expect(await json('--refusals', '--by', 'code')).toMatchObject({ total: 3, refusals: [{ refused: 2 }, {}] })
  })
})
