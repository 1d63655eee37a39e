/** The requests commands, on a ledger with rows of the test. */

import { expect, test } from 'bun:test'
import type { PricingItem } from '../../src/domain/usage.ts'
import { type LedgerRecord, type OpenRow, type SettledCall, toFirstCall } from '../../src/store/ledger-rows.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import { openDatabase } from '../../src/store/sqlite/open.ts'
import { HOUR, opening, settling, toCall, toOpen, toSettled, toSettledCall } from '../ledger/fixture.ts'
import { forEachTest } from '../support/lifetime.ts'
import { createBench } from './run.ts'

const bench = forEachTest(() => createBench(HOUR + 60_000))

const id = (end: string) => `${HOUR.toString(16).padStart(12, '0')}${end.padStart(20, '0')}`

const failed = (row: OpenRow, fields: Partial<SettledCall>): SettledCall =>
  toSettledCall(toFirstCall(row), {
    ...{ status: 'failed', promptTokens: 0, cachedTokens: 0, completionTokens: 0, reasoningTokens: 0, costNanoUsd: 0 },
    ...fields,
  })

function record(...records: LedgerRecord[]): void {
  const sqlite = openDatabase(databasePath(bench.folder), { busyMs: 0 })
  createLedgerWriter(sqlite).apply(records)
  sqlite.close()
}

function price(name: string, item: PricingItem): void {
  const sqlite = openDatabase(databasePath(bench.folder), { busyMs: 0 })
  sqlite
    .query('INSERT OR REPLACE INTO prices (id, model, pricing, created_ms) VALUES (?, ?, ?, ?)')
    .run(name, 'acme/large', JSON.stringify([item]), HOUR)
  sqlite.close()
}

test('the list has one line per request, newest first, with errors below', async () => {
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
      'ID        TIME (UTC)        KEY    MODEL       STATUS  DURATION  TOKENS  COST',
      '000000a3  2026-11-20 12:00  key-a  acme/large  open    -         -       -',
      '          calling paid',
      '000000a2  12:00:01          key-a  acme/large  failed  120 ms    11+7    $0.0000005',
      '          502 upstream_failed, 3 calls: Upstream paid failed.',
      '000000a1  12:00:01          dev    acme/large  ok      120 ms    11+7    ~$0.0015\n',
    ].join('\n'),
  })
  const found = JSON.parse((await bench.run('requests', 'list', '--key', 'dev', '--limit', '1', '--json')).stdout)
  expect(found).toMatchObject({
    requests: [
      { id: id('a1'), key_id: keyId, key: 'dev', team: null, cost_nano_usd: 1_500_000, created_ms: HOUR + 1_000 },
    ],
    next: null,
    scanned: null,
  })
  expect(Object.keys(found.requests[0])).not.toContain('first_call')
})

test('a page says how to get the next one, and an empty one says so', async () => {
  record(...['b1', 'b2'].map((end) => settling(toSettled(toOpen({ id: id(end) })))))
  expect((await bench.run('requests', 'list', '--limit', '1')).stderr).toBe(
    `For older requests: --before ${id('b2')}\n`,
  )
  expect(await bench.run('requests', 'list', '--errors')).toEqual({
    code: 0,
    stdout: '',
    stderr: expect.stringMatching(/^No matching requests\. .* tollgate usage --refusals\n$/),
  })
  expect(JSON.parse((await bench.run('requests', 'list', '--until', '5m', '--json')).stdout).requests).toEqual([])
})

test.each([
  [
    ['--status', 'lost'],
    2,
    `--status must be one or more of ok, failed, cut, abandoned, open, comma-separated (got 'lost')`,
  ],
  [['--status', 'ok', '--errors'], 2, 'Pass either --errors or --status'],
  [['--since', 'soon'], 2, `--since must be a time ago or a date, e.g. 7d, 12h, or 2027-01-31 (got 'soon').`],
  [['--key', 'nobody'], 1, `There is no key 'nobody'.`],
  [['--team', 'nobody'], 1, `There is no team 'nobody'.`],
  [['--before', '12'], 2, 'Invalid before'],
  [['--endpoint', 'speach'], 2, 'Invalid endpoint: it must be one of chat, messages, '],
])('a wrong filter %j is refused', async (words, code, sentence) => {
  const ran = await bench.run('requests', 'list', ...words)
  expect(ran).toMatchObject({ code, stdout: '', stderr: expect.stringContaining(sentence) })
})

test("a charge is shown line by line, with all calls on a time line; exit 1 if it doesn't match", async () => {
  const row = toOpen({ id: id('c1'), user: 'ada' })
  const first = { upstream: 'paid', upstreamModel: 'large-v1', lane: 'translated', priceId: 'price-1' } as const
  const end = {
    httpStatus: 503,
    errorCode: 'status',
    durationMs: 400,
    firstTokenMs: null,
    upstreamRequestId: null,
    credential: 2,
  }
  const call = toSettledCall(toCall(row, 2, { reason: 'fallback', createdMs: row.createdMs + 1_000 }), {
    ...{ promptTokens: 1_000, cachedTokens: 0, completionTokens: 20, reasoningTokens: 5, costNanoUsd: 10_200_001 },
    ...{ firstTokenMs: 500, durationMs: 1_000, estimated: 1 },
  })
  const { upstream, upstreamModel, priceId, ...used } = call
  record(
    settling(
      toSettled(row, {
        ...{ upstream, upstreamModel, priceId, attempts: 2, durationMs: 2_000, firstTokenMs: 1_500 },
        ...{ promptTokens: 1_000, cachedTokens: 0, completionTokens: 20, reasoningTokens: 5, estimated: 1 },
        costNanoUsd: used.costNanoUsd,
      }),
      [failed(row, { ...first, ...end }), call],
    ),
  )
  price('price-2', { prompt: '0.00001', completion: '0.00001', request: '0.0000000005' })
  const shown = await bench.run('requests', 'show', '00c1')
  expect(shown).toMatchObject({ code: 0, stderr: '' })
  expect(shown.stdout).toBe(
    [
      `Request ${id('c1')}`,
      '  received  2026-11-21T12:00:01.000Z, chat, not streaming',
      '  from      key key-a, user ada',
      '  model     acme/large',
      '  status    ok: spare, 2 calls',
      '  time      first token 1.50 s, total 2.00 s',
      '  tokens    1000 input, 20 output',
      '  reserved  41 input, 2001 output, $0.0000181 for all calls',
      '',
      'Calls',
      '  #  REASON    UPSTREAM  STATUS  START   FIRST   END',
      '  1  first     paid      failed  0 ms    -       400 ms  |....                |',
      '          model large-v1, credential 2: returned 503',
      '  2  fallback  spare     ok      1.00 s  1.50 s  2.00 s  |          .....=====|',
      '          model large-v2',
      '',
      'Charge',
      '  Call 1: not charged (failed before first token)',
      '  Call 2: price price-2 set 2026-11-21 12:00 UTC; estimated: incomplete usage',
      '    report from the upstream; Tollgate counted the rest',
      '    1000  input tokens      x $10 per million (prompt)      $0.01',
      '    15    output tokens     x $10 per million (completion)  $0.00015',
      '    5     reasoning tokens  x $10 per million (completion)  $0.00005',
      '    1     call              x $0.0000000005                 $0.0000000005',
      '    =                                                       $0.0102000005, rounded $0.010200001',
      '  All calls      $0.010200001',
      '  In the ledger  $0.010200001\n',
    ].join('\n'),
  )
  const document = JSON.parse((await bench.run('requests', 'show', `req_${id('c1')}`, '--json')).stdout)
  expect(document).toMatchObject({
    id: id('c1'),
    calls: [
      { number: 1, reason: 'first', upstream: 'paid', http_status: 503, credential: 2, basis: 'nothing', charge: null },
      {
        number: 2,
        reason: 'fallback',
        credential: null,
        basis: 'tokens',
        recalculated_nano_usd: 10_200_001,
        charge: { usd: '0.0102000005' },
      },
    ],
    recalculated_nano_usd: 10_200_001,
    matches_ledger: true,
  })

  price('price-2', { prompt: '0.00002', completion: '0.00001' })
  const wrong = await bench.run('requests', 'show', '00c1')
  expect(wrong).toMatchObject({ code: 1, stderr: expect.stringContaining("can't be recalculated") })
  expect(wrong.stdout).toContain('Mismatch: $0.010200001 was recorded.')
})

test('a call without duration is still shown, and one ended by a kill is shown once', async () => {
  const row = toOpen({ id: id('e1') })
  const end = {
    httpStatus: 500,
    errorCode: 'status',
    firstTokenMs: null,
    durationMs: 1,
    upstreamRequestId: null,
    credential: null,
  }
  const first = { upstream: 'paid', upstreamModel: 'large-v1', lane: 'translated', priceId: 'price-1' } as const
  const retry = (number: number, afterMs: number, ended: object) =>
    toSettledCall(toCall(row, number, { reason: 'retry', createdMs: row.createdMs + afterMs }), {
      ...{ ...end, status: 'failed', promptTokens: 0, completionTokens: 0, reasoningTokens: 0, costNanoUsd: 0 },
      ...ended,
    })
  const killed = { status: 'abandoned', httpStatus: null, errorCode: 'abandoned', durationMs: null } as const
  record(
    settling(toSettled(row, { status: 'failed', errorCode: 'abandoned', attempts: 4, firstTokenMs: null }), [
      failed(row, { ...first, ...end }),
      retry(2, 420, {}),
      retry(3, 700, { status: 'ok', firstTokenMs: 1, durationMs: 2 }),
      retry(4, 1_255, killed),
    ]),
  )
  const sqlite = openDatabase(databasePath(bench.folder), { busyMs: 0 })
  sqlite.run("UPDATE requests SET status = 'abandoned', http_status = NULL, duration_ms = NULL")
  sqlite.close()
  const { stdout } = await bench.run('requests', 'show', id('e1'))
  expect(stdout.split('\n').filter((line) => line.includes('|'))).toEqual([
    '  1  first   paid      failed     0 ms    -       1 ms    |.                   |',
    '  2  retry   spare     failed     420 ms  -       421 ms  |       .            |',
    '  3  retry   spare     ok         700 ms  701 ms  702 ms  |           =        |',
    '  4  retry   spare     abandoned  1.25 s  -       -       |                   .|',
  ])
  expect(stdout).toContain('  status    abandoned: paid, 4 calls\n')
  expect(stdout).toContain('model large-v2\n\nCharge')
})

test('an ambiguous ID lists the matching requests', async () => {
  record(...['d1', '1d1'].map((end) => settling(toSettled(toOpen({ id: id(end) })))))
  const failing = async (text: string) => (await bench.run('requests', 'show', text)).stderr
  expect(await failing('ffff')).toStartWith(`error: Request 'ffff' not found. List requests:`)
  expect(await failing('0000')).toStartWith(`error: Request '0000' not found`)
  expect(await failing(id('').slice(0, 12))).toMatch(/^error: '.*' matches several requests: .*d1, .*1d1\. Use more/)
  expect(await failing('d1')).toBe("error: Invalid id: 'd1' is too short: use at least 4 digits.\n")
})

test('a request shows how long a local server worked on it, and its cost', async () => {
  const used = { promptTokens: 0, cachedTokens: 0, completionTokens: 0, reasoningTokens: 0, computeMs: 1_234 }
  price('price-1', { prompt: '0', completion: '0', second: '0.0005' })
  record(settling(toSettled(toOpen({ id: id('d1') }), { ...used, costNanoUsd: 617_000 })))
  const { code, stdout } = await bench.run('requests', 'show', '00d1')
  const words = stdout.replace(/\s+/g, ' ')
  expect(code).toBe(0)
  expect(words).toContain('other usage 1234 ms of compute')
  expect(words).toContain('1234 ms of compute x $0.0005 per second $0.000617')
})

test("a request shows its service tier, unpriced usage, and its upstream's reported charge", async () => {
  const used = { promptTokens: 1_000, cachedTokens: 0, completionTokens: 20, reasoningTokens: 0, webSearches: 2 }
  const costNanoUsd = 1_000 * 10_000 + 20 * 10_000
  price('price-1', { prompt: '0.00001', completion: '0.00001' })
  record(
    settling(toSettled(toOpen({ id: id('d1') }), { ...used, mode: 'priority', unpriced: 1, costNanoUsd })),
    settling(toSettled(toOpen({ id: id('d2') }), { ...used, reportedNanoUsd: 31_000_000, costNanoUsd: 31_000_000 })),
    settling(toSettled(toOpen({ id: id('d3') }), { ...used, webSearches: 0, mode: 'flex', unpriced: 1, costNanoUsd })),
  )
  const list = (await bench.run('requests', 'list')).stdout
  expect(list).toMatch(/000000d1 .* \$0\.0102\+\n/)
  expect(list).toMatch(/000000d2 .* \$0\.031\n/)
  const marked = await bench.run('requests', 'show', '00d1')
  expect(marked).toMatchObject({ code: 0, stderr: '' })
  const words = marked.stdout.replace(/\s+/g, ' ')
  expect(words).toContain('mode priority other usage 2 web searches unpriced not all usage has a price')
  expect(words).toContain('the actual cost may differ: no price for the mode priority, web_search')
  const flex = (await bench.run('requests', 'show', '00d3')).stdout.replace(/\s+/g, ' ')
  expect(flex).toContain('the actual cost may be lower: no price for the mode flex')
  const reported = await bench.run('requests', 'show', '00d2')
  expect(reported).toMatchObject({ code: 0, stderr: '' })
  expect(reported.stdout.replace(/\s+/g, ' ')).toContain(
    'Call 1: $0.031, as reported by the upstream; its price gives $0.0102, more than 1% off 1000 input tokens',
  )
  expect(JSON.parse((await bench.run('requests', 'show', '00d1', '--json')).stdout)).toMatchObject({
    ...{ mode: 'priority', unpriced: 1, web_searches: 2, reported_nano_usd: null },
    calls: [{ basis: 'tokens', charge: { unpriced: ['mode', 'web_search'] } }],
  })
  const { total } = JSON.parse((await bench.run('usage', '--since', '2026-11-01', '--json')).stdout)
  expect(total).toMatchObject({ requests: 3, unpriced: 2, web_searches: 4 })
})
