/** `tollgate reconcile`: a provider's bill compared with the ledger. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { databasePath } from '../../../src/store/sqlite/files.ts'
import { createLedgerWriter } from '../../../src/store/sqlite/ledger-apply.ts'
import { openDatabase } from '../../../src/store/sqlite/open.ts'
import { pruneSlice } from '../../../src/store/sqlite/prune.ts'
import { settling, toCall, toOpen, toSettled, toSettledCall } from '../../ledger/fixture.ts'
import { activity, costReport, costs, DAY, usage, usageReport } from '../../ledger/reconcile/exports.ts'
import { forEachTest } from '../../support/lifetime.ts'
import { createBench } from '../run.ts'

const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
const DOLLAR = 1_000_000_000

const bench = forEachTest(() => createBench(DAY + 2 * DAY_MS + HOUR_MS))
beforeEach(() => {
  bench.environment = { NO_COLOR: '1' }
})

type Fields = NonNullable<Parameters<typeof toSettled>[1]>
const AT = { createdMs: DAY + HOUR_MS, upstream: 'openai', upstreamModel: 'gpt-5' }
const USED = { promptTokens: 200, cachedTokens: 0, completionTokens: 100, reasoningTokens: 0, costNanoUsd: DOLLAR }
const CALL: Fields = { ...AT, ...USED }
const FAILED: Fields = { status: 'failed', httpStatus: null, promptTokens: 0, completionTokens: 0, costNanoUsd: 0 }

function inDatabase<T>(work: (sqlite: ReturnType<typeof openDatabase>) => T): T {
  const sqlite = openDatabase(databasePath(bench.folder), { busyMs: 0 })
  try {
    return work(sqlite)
  } finally {
    sqlite.close()
  }
}

function inLedger(...all: Fields[]): string[] {
  const rows = all.map((fields) => toSettled(toOpen({ ...AT, ...fields }), { ...CALL, ...fields }))
  inDatabase((sqlite) => createLedgerWriter(sqlite).apply(rows.map((row) => settling(row))))
  return rows.map(({ id }) => id)
}

const five = (fields: Fields = {}) => Array.from({ length: 5 }, () => fields)
const paid = (page: object, value: string) => JSON.parse(JSON.stringify(page).replaceAll('"VALUE"', value))

function put(name: string, ...pages: object[]): string {
  writeFileSync(join(bench.folder, name), JSON.stringify(pages.length === 1 ? pages[0] : pages))
  return name
}

const run = (...argv: string[]) =>
  bench.run('reconcile', ...argv, ...(argv.includes('--credential') ? [] : ['--upstream', 'openai']))
const json = async (...argv: string[]) => JSON.parse((await run(...argv, '--json')).stdout)

describe('equal figures', () => {
  test('is one sentence and exit code 0, with money from the cost API', async () => {
    inLedger(...five())
    const files = [put('usage.json', usage([{}])), put('costs.json', paid(costs([{}]), '5.00000001'))]
    expect(await run(...files)).toEqual({
      code: 0,
      stderr: '',
      stdout: 'The bill matches the ledger: 1 day, 1 line: $5.00 by the provider, $5.00 in the ledger.\n',
    })
  })

  test("also match under a model's later name, and under either name of one with both", async () => {
    inLedger(
      ...five(),
      ...five({ upstreamModel: 'gpt-4o-2024-08-06' }),
      ...five({ upstreamModel: 'gpt-4o-2024-11-20' }),
    )
    const lines = [
      ...[
        { model: 'gpt-5-2026-01-02', num_model_requests: 4, input_tokens: 800 },
        { model: 'gpt-5', num_model_requests: 1, input_tokens: 200, output_tokens: 0 },
      ],
      ...[{ model: 'gpt-4o-2024-08-06' }, { model: 'gpt-4o-2024-11-20' }],
    ]
    const { lines: cells, ok } = await json(put('usage.json', usage(lines)))
    expect([ok, cells.map(({ model }: { model: string }) => model)]).toEqual([
      ...[true, ['gpt-4o-2024-08-06', 'gpt-4o-2024-11-20', 'gpt-5']],
    ])
  })

  test('count calls, not requests: retries, fallbacks, and calls across midnight', async () => {
    const before = { createdMs: DAY - 1_000 }
    const row = toSettled(toOpen({ ...AT, ...before }), { ...USED, attempts: 4, costNanoUsd: 4 * DOLLAR })
    const targets = [before, {}, {}, { upstream: 'other' }]
    const made = targets.map((target, at) => toSettledCall(toCall(row, at + 1, { ...AT, ...target }), USED))
    inDatabase((sqlite) => createLedgerWriter(sqlite).apply([settling(row, made)]))
    const export_ = usage([{ num_model_requests: 2, input_tokens: 400, output_tokens: 200 }])
    expect((await run(put('usage.json', export_))).stdout).toContain('1 day, 1 line')
  })

  test('may differ by --tolerance, per figure', async () => {
    inLedger(...five())
    const file = put('usage.json', usage([{ input_tokens: 1_010 }]))
    expect((await run(file, '--tolerance', '0.99')).code).toBe(1)
    expect((await run(file, '--tolerance', '1%')).code).toBe(0)
    expect((await run(file, '--tolerance', '-1')).code).toBe(2)
  })
})

describe('different figures', () => {
  test('are listed per day and model, with the requests that can explain them', async () => {
    bench.columns = 200
    const [timedOut = '', estimated = ''] = inLedger(
      { ...FAILED, errorCode: 'upstream_timeout' },
      { estimated: 1 },
      ...five().slice(2),
      { upstreamModel: 'gpt-4o' },
    )
    const { code, stdout, stderr } = await run(
      put('usage.json', usage([{}])),
      put('costs.json', paid(costs([{}]), '5.25')),
    )
    expect(code).toBe(1)
    expect(stderr).toBe('error: The bill and the ledger differ in 2 of 2 lines.\n')
    expect(stdout.split('\n').map((line) => line.replace(/ {2,}/g, '|'))).toEqual([
      'DAY|UPSTREAM|MODEL|PROVIDER|LEDGER|DIFFERENCE',
      '2026-11-16|openai|gpt-4o|requests|0|1|-1',
      ...['|input tokens|0|200|-200', '|output tokens|0|100|-100', '|cost|$0.00|$1.00|-$1.00'],
      expect.stringMatching(/^\|Only the ledger has this\. Requests: [0-9a-f]{8}\.$/),
      '2026-11-16|openai|gpt-5|requests|5|4|1',
      ...['|input tokens|1,000|800|200', '|output tokens|500|400|100', '|cost|$5.25|$4.00|$1.25'],
      `|1 call failed without usage. Requests: ${timedOut.slice(-8)} (upstream_timeout),`,
      `|${estimated.slice(-8)} (estimated).`,
      ...['1 day, 2 lines: $5.25 by the provider, $5.00 in the ledger.', ''],
    ])
  })

  test('are exact in JSON, with whole IDs', async () => {
    const [id] = inLedger({ ...FAILED, errorCode: 'upstream_timeout' })
    const files = [put('usage.json', usage([{}])), put('costs.json', paid(costs([{}]), '"12345678.000000001"'))]
    const { stdout } = await run(...files, '--json')
    const { lines } = JSON.parse(stdout)
    expect(lines[0]).toMatchObject({
      ...{ day: '2026-11-16', credential: 'openai', model: 'gpt-5', only: 'provider', failed_calls: 1, equal: false },
      figures: { requests: { provider: 5, ledger: 0, equal: false }, cached: { provider: 0, ledger: 0, equal: true } },
      requests: [{ id, status: 'failed', error_code: 'upstream_timeout', estimated: false }],
    })
    // Beyond the precision of a double.
    expect(stdout).toContain('"provider": 12345678000000001,')
  })

  test('are compared only by day if lines name no model', async () => {
    inLedger(...five({ upstream: 'anthropic', upstreamModel: 'claude-x' }))
    const lines = [
      { amount: '300', model: 'claude-x' },
      { amount: '150', cost_type: 'web_search', description: 'Web search' },
    ]
    const figures = {
      uncached_input_tokens: 1_000,
      cache_read_input_tokens: 0,
      cache_creation: null,
      server_tool_use: null,
    }
    const files = [put('u.json', usageReport([{ model: 'claude-x', ...figures }])), put('c.json', costReport(lines))]
    const { lines: cells } = JSON.parse(
      (await bench.run('reconcile', ...files, '--upstream', 'anthropic', '--json')).stdout,
    )
    expect(cells).toMatchObject([
      { model: null, figures: {}, cost_nano_usd: { provider: 4.5 * DOLLAR, ledger: 5 * DOLLAR }, equal: false },
      { model: 'claude-x', cost_nano_usd: null, equal: true },
    ])
  })
})

test('of OpenRouter have quantities and money in one file', async () => {
  const of = { upstream: 'openrouter', upstreamModel: 'openai/gpt-5', promptTokens: 10, completionTokens: 25 }
  inLedger(...five({ ...of, reasoningTokens: 5, costNanoUsd: 3_000_000 }))
  const ran = await bench.run('reconcile', put('a.json', activity([{}])), '--upstream', 'openrouter')
  expect(ran.stdout).toContain('$0.015 by the provider, $0.015 in the ledger.')
  expect(ran.code).toBe(0)
})

describe('a credential', () => {
  test('is compared with its API key, and others are left out', async () => {
    inLedger(...five({ credential: 1 }), { credential: 2, promptTokens: 7 })
    const lines = ['key_a', 'key_b', 'key_c'].map((api_key_id) => ({ api_key_id }))
    const file = put('usage.json', usage(lines))
    const {
      ok,
      lines: cells,
      notes,
    } = await json(file, '--credential', 'openai/1=key_a', '--credential', 'openai/2=key_b')
    expect(cells.map(({ credential, equal }: Record<string, unknown>) => [credential, equal])).toEqual([
      ...[
        ['openai/1', true],
        ['openai/2', false],
      ],
    ])
    expect([ok, notes]).toEqual([false, ['Left out: the usage of 1 other API key.']])
  })

  test('without a number is the first one', async () => {
    inLedger(...five(), { credential: 2 })
    const file = put('usage.json', usage([{ api_key_id: 'key_a' }]))
    expect((await run(file, '--credential', 'openai=key_a')).code).toBe(0)
  })

  test('needs an export that names keys, and costs without them are not compared', async () => {
    inLedger(...five())
    const credential = ['--credential', 'openai=key_a']
    expect((await run(put('usage.json', usage([{}])), ...credential)).stderr).toContain('Group it by api_key_id')
    const files = [put('usage.json', usage([{ api_key_id: 'key_a' }])), put('costs.json', paid(costs([{}]), '9'))]
    const { code, stderr } = await run(...files, ...credential)
    expect([code, stderr]).toEqual([
      0,
      'note: The export does not say which API keys the costs are of, so money is not compared.\n',
    ])
  })
})

describe('days', () => {
  test('whose requests were deleted are left out, with a note', async () => {
    inLedger(...five(), ...five({ createdMs: DAY + DAY_MS + HOUR_MS }))
    inDatabase((sqlite) => pruneSlice(sqlite, { untilMs: DAY + 2 * HOUR_MS, after: '', limit: 100, spared: [] }, DAY))
    const { code, stderr, stdout } = await run(put('usage.json', usage([{}]), usage([{}], DAY + DAY_MS)))
    expect([code, stderr]).toEqual([
      ...[0, 'note: Requests before 2026-11-17 were deleted (--retention), so earlier days are left out.\n'],
    ])
    expect(stdout).toContain('1 day, 1 line')
  })

  test('are those of --since and --until, and never today', async () => {
    inLedger(...five(), ...five({ createdMs: DAY + DAY_MS + HOUR_MS }))
    const days = [0, 1, 2].map((at) => usage([{ input_tokens: 1_000 + at }], DAY + at * DAY_MS))
    const file = put('usage.json', ...days)
    expect((await run(file, '--until', '2026-11-17')).code).toBe(0)
    expect(await run(file, '--since', 'yesterday')).toMatchObject({
      ...{
        code: 1,
        stdout: expect.stringContaining('1 day, 1 line'),
        stderr: expect.stringContaining('2026-11-18: not a whole day'),
      },
    })
    expect(await run(put('today.json', days[2] ?? {}))).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('no whole UTC day'),
    })
  })
})

describe('fetched from the provider', () => {
  const asked: { path: string; key: string | null }[] = []
  const serve = (answer: (url: URL, request: Request) => Response) =>
    Bun.serve({
      ...{ port: 0, hostname: '127.0.0.1' },
      fetch(request) {
        const url = new URL(request.url)
        asked.push({
          path: url.pathname + url.search,
          key: request.headers.get('authorization') ?? request.headers.get('x-api-key'),
        })
        return answer(url, request)
      },
    })
  const fetched = async (provider: string, answer: (url: URL, request: Request) => Response, ...argv: string[]) => {
    asked.length = 0
    await using server = serve(answer)
    return await run(
      '--provider',
      provider,
      '--url',
      server.url.href,
      '--since',
      '2026-11-16',
      '--until',
      '2026-11-18',
      ...argv,
    )
  }
  beforeEach(() => {
    bench.environment = {
      NO_COLOR: '1',
      OPENAI_ADMIN_KEY: 'sk-admin-1',
      ANTHROPIC_ADMIN_KEY: 'sk-ant-admin-1',
      OPENROUTER_MANAGEMENT_KEY: 'or-1',
    }
  })

  test('follows pages, grouped by model and key, with the key from the environment', async () => {
    inLedger(...five(), ...five({ createdMs: DAY + DAY_MS + HOUR_MS }))
    const { code, stderr } = await fetched('openai', ({ pathname, searchParams }) => {
      if (pathname.endsWith('/costs'))
        return Response.json({
          ...paid(costs([{}]), '5'),
          data: [0, 1].flatMap((at) => paid(costs([{}], DAY + at * DAY_MS), '5').data),
        })
      if (pathname.endsWith('/embeddings')) return Response.json({ ...usage([]), data: [] })
      return searchParams.has('page')
        ? Response.json(usage([{}], DAY + DAY_MS))
        : Response.json({ ...usage([{}]), has_more: true, next_page: 'AAA=' })
    })
    expect([code, stderr]).toEqual([0, ''])
    const groups = 'group_by%5B%5D=model&group_by%5B%5D=api_key_id'
    const span = `start_time=${DAY / 1_000}&end_time=${DAY / 1_000 + 172_800}&bucket_width=1d`
    expect(asked).toEqual(
      [
        `/v1/organization/usage/completions?${span}&limit=31&${groups}`,
        `/v1/organization/usage/completions?${span}&limit=31&${groups}&page=AAA%3D`,
        `/v1/organization/usage/embeddings?${span}&limit=31&${groups}`,
        `/v1/organization/costs?${span}&limit=180&group_by%5B%5D=line_item&group_by%5B%5D=api_key_id`,
      ].map((path) => ({ path, key: 'Bearer sk-admin-1' })),
    )
  })

  test.each([
    ['anthropic', ['/v1/organizations/usage_report/messages', '/v1/organizations/cost_report'], 'sk-ant-admin-1'],
    ['openrouter', ['/api/v1/activity'], 'Bearer or-1'],
  ])('asks %s where its documentation says', async (provider, paths, key) => {
    await fetched(provider, ({ pathname }) =>
      Response.json(
        provider === 'openrouter'
          ? activity([{}])
          : pathname.endsWith('cost_report')
            ? costReport([{}])
            : usageReport([{}]),
      ),
    )
    expect(asked.map(({ path, key }) => [path.split('?')[0], key])).toEqual(paths.map((path) => [path, key]))
  })

  const ENDLESS = () => Response.json({ ...usage([{}]), has_more: true, next_page: 'same' })
  test.each([
    [
      'a key without the right',
      () => new Response('', { status: 403 }),
      /OpenAI rejected the credential in OPENAI_ADMIN_KEY \(403\)/,
    ],
    ['an error', () => new Response('sk-admin-1', { status: 500 }), /OpenAI returned 500/],
    [
      'a redirect, which would take the key elsewhere',
      () => Response.redirect('http://127.0.0.1:1/', 302),
      /OpenAI returned 302/,
    ],
    ['pages without an end', ENDLESS, /pages without an end|repeats an earlier line/],
    ['something else', () => new Response('<html>'), /must hold the JSON/],
    ['a page that is too large', () => new Response(new Uint8Array(65 * 1_048_576)), /more than 64 MiB/],
  ])('stops at %s, and never prints the key', async (_, answer, message) => {
    const { code, stdout, stderr } = await fetched('openai', answer)
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(message)
    expect(stderr).not.toContain('sk-admin')
  })

  test('needs the key in the environment, on one line, and HTTPS except on this machine', async () => {
    const asks = (...argv: string[]) => run('--provider', 'openai', ...argv)
    for (const url of [
      'http://api.example.com',
      'https://:hunter2@h',
      'https://h/#hunter2',
      'https://h/?hunter2',
      'https://h?',
    ]) {
      const { code, stderr } = await asks('--url', url)
      expect([code, stderr]).toEqual([2, expect.not.stringContaining('hunter2')])
    }
    bench.environment = { OPENAI_ADMIN_KEY: 'sk-admin-1\nx: y' }
    expect((await asks()).stderr).toMatch(/^error: OPENAI_ADMIN_KEY must be a key, on one line\.\n$/)
    bench.environment = {}
    expect((await asks()).stderr).toMatch(/^error: OPENAI_ADMIN_KEY is not set\./)
  })
})

test.each([
  [[], /Pass either files or --provider/],
  [['a.json', '--provider', 'openai'], /Pass either files or --provider/],
  [['--provider', 'acme'], /--provider must be one of openai, anthropic, openrouter/],
  [['a.json', '--credential', 'openai'], /--credential must be UPSTREAM=ID/],
  [['a.json', '--since', 'today'], /--since must be a day before/],
])('%j is a wrong command line', async (argv, message) => {
  put('a.json', usage([{}]))
  expect(await run(...argv)).toMatchObject({ code: 2, stderr: expect.stringMatching(message) })
})

test('an export of very many models is compared, and its table is truncated', async () => {
  const lines = Array.from({ length: 10_000 }, (_, at) => ({ model: `m${at}` }))
  const { stdout, stderr } = await run(put('usage.json', usage(lines)))
  expect(stderr).toBe('error: The bill and the ledger differ in 10000 of 10000 lines.\n')
  expect(stdout).toContain('9500 more lines with --json.')
})

test("without --upstream, all with the provider's URL are compared", async () => {
  const ran = await bench.run('reconcile', put('usage.json', usage([{}])))
  expect(ran.stderr).toBe('error: No upstream calls api.openai.com. Pass its ID with --upstream.\n')
})
