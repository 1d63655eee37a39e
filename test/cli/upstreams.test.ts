/** The upstreams commands: with a running server, without one, and with an unreachable one. */

import { Database } from 'bun:sqlite'
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { socketPath } from '../../src/server/protocol.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { pretendServer, toStatus, toUpstreamStatus } from '../support/status.ts'
import { startUpstream } from '../support/upstream.ts'
import { type Bench, createBench } from './run.ts'

const NOW = Date.UTC(2026, 10, 21)
let bench: Bench
let stopServer: () => Promise<void>

beforeEach(() => {
  bench = createBench(NOW)
  stopServer = async () => {}
})
afterEach(async () => {
  await stopServer()
  bench.close()
})

const FACTS =
  'context_length: 8192, max_output_length: 1000, input_modalities: [text], output_modalities: [text], supported_features: []'

/** `paid` lacks its credential here; `here` is local; `off` is disabled. */
async function declare(url = 'http://127.0.0.1:1/v1'): Promise<void> {
  await Bun.write(
    join(bench.folder, 'c.yaml'),
    `version: 1
upstreams:
  paid: { dialect: openai, base_url: https://api.example.com/v1, api_key: \${PAID_KEY} }
  here: { dialect: openai, base_url: "${url}", local: true, deadlines: { idle: 90s, total_whole: 1500ms } }
  off: { dialect: openai, base_url: "${url}", local: true }
models:
  local/tiny: { name: Tiny, ${FACTS}, routes: [{ upstream: here, model: tiny }] }
`,
  )
  expect((await bench.run('catalog', 'apply', 'c.yaml')).code).toBe(0)
  const sqlite = new Database(databasePath(bench.folder))
  sqlite.run(
    `UPDATE catalog_entries SET fields = json_set(fields, '$.enabled', json('false')) WHERE kind = 'upstreams' AND name = 'off'`,
  )
  sqlite.close()
}

const tripped = {
  model: 'local/tiny',
  upstream_model: 'tiny',
  breaker: 'open',
  open_for_keys: 2,
  failures_in_a_row: 5,
  retry_in_ms: 8_100,
  reason: null,
} as const

const json = (text: string) => JSON.parse(text)
const lineOf = (id: string, text: string) => text.split('\n').find((line) => line.startsWith(`${id} `)) ?? ''

/** An upstream's lines in `upstreams list`. */
const said = (id: string, text: string) =>
  text
    .match(new RegExp(`^${id} .*\\n(?: .*\\n)*`, 'm'))?.[0]
    .replace(/\s+/g, ' ')
    .trim() ?? ''

const PAID_KEY = {
  number: 1,
  from: 'variable',
  name: 'PAID_KEY',
  status: 'set',
  reason: null,
  retry_in_ms: null,
} as const

describe('upstreams list', () => {
  test("shows the running server's state, with the database's upstreams", async () => {
    await declare()
    const last_error = { message: 'connection refused', at_ms: NOW - 185_000 }
    const down = toUpstreamStatus('here', {
      state: 'down',
      credential: 'none',
      reason: 'no answer',
      last_error,
      targets: [tripped],
    })
    stopServer = pretendServer(
      bench.folder,
      toStatus({ upstreams: [toUpstreamStatus('paid', { credentials: [PAID_KEY] }), down] }),
    )

    const { code, stdout, stderr } = await bench.run('upstreams', 'list')
    expect([code, stderr]).toEqual([0, ''])
    const deadlines =
      'API format openai; deadlines: headers 1m, first token 5m, idle 90s, total 1h, non-streaming 1500ms'
    expect(said('paid', stdout)).toBe(`paid healthy PAID_KEY set http://127.0.0.1:1/v1 ${deadlines}`)
    expect(said('here', stdout)).toStartWith(
      'here down - http://127.0.0.1:1/v1 no answer; last error: connection refused (3 min ago) circuit breakers: 1 of 1 not closed: local/tiny open for 9s for 2 keys only API format openai; deadlines: ',
    )
    expect(said('off', stdout)).toStartWith('off disabled ')
    expect(stdout.split('\n').filter((line) => Bun.stringWidth(line) > 80)).toEqual([])

    const document = json((await bench.run('upstreams', 'list', '--json')).stdout)
    expect(document.server).toMatchObject({ version: '0.2.0', pid: 4242, readiness: 'ok' })
    expect(document.server.upstreams).toBeUndefined()
    expect(document.upstreams).toMatchObject([
      { id: 'paid', state: 'healthy', enabled: true, credential: { variable: 'PAID_KEY', status: 'set' } },
      { id: 'here', state: 'down', credential: null, last_error, targets: [tripped] },
      { id: 'off', state: 'disabled', enabled: false },
    ])
  })

  test('without a server says so, and shows the state from database and environment', async () => {
    await declare()
    const { code, stdout, stderr } = await bench.run('upstreams', 'list')
    expect([code, stderr]).toEqual([0, expect.stringContaining('No server is running.')])
    expect(said('paid', stdout)).toMatch(
      /unknown PAID_KEY not set .* the variable PAID_KEY is not set here API format openai;/,
    )
    expect(said('here', stdout)).toMatch(
      /unknown - \S+ API format openai; deadlines: headers 5m, first token 5m, idle 90s/,
    )

    const quiet = await bench.run('upstreams', 'list', '--json')
    expect(quiet.stderr).toBe('')
    expect(json(quiet.stdout)).toMatchObject({
      server: null,
      upstreams: [{ id: 'paid' }, { id: 'here' }, { id: 'off' }],
    })
  })

  test('reports an unknown API format of a newer version', async () => {
    await declare()
    const sqlite = new Database(databasePath(bench.folder))
    sqlite.run(
      `UPDATE catalog_entries SET fields = json_set(fields, '$.dialect', 'unheard-of') WHERE kind = 'upstreams'`,
    )
    sqlite.close()
    const reason = "this version of Tollgate doesn't support the API format 'unheard-of'"
    const { stdout } = await bench.run('upstreams', 'list')
    expect(said('paid', stdout)).toMatch(new RegExp(` unknown PAID_KEY not set .* ${reason} API format unheard-of; `))
    expect(said('here', stdout)).toMatch(new RegExp(` unknown - .* ${reason} API format unheard-of; `))
    const tested = await bench.run('upstreams', 'test')
    expect(lineOf('here', tested.stdout)).toMatch(new RegExp(`not ready +- +${reason}$`))
  })

  test('distinguishes an unreachable server from none, and continues', async () => {
    await declare()
    stopServer = pretendServer(bench.folder, toStatus())
    rmSync(socketPath(bench.folder))
    const { code, stderr } = await bench.run('upstreams', 'list')
    expect([code, stderr]).toEqual([0, expect.stringContaining("Can't reach the server: control.sock is missing")])
  })

  test('shows an upstream that the server does not have yet as unknown', async () => {
    await declare()
    stopServer = pretendServer(bench.folder, toStatus())
    expect(said('here', (await bench.run('upstreams', 'list')).stdout)).toMatch(
      /unknown .* not yet loaded by the server /,
    )
  })

  test("doesn't print an upstream's terminal control characters", async () => {
    await declare()
    const last_error = { message: 'bad\u001b[2J\nnews', at_ms: NOW }
    stopServer = pretendServer(bench.folder, toStatus({ upstreams: [toUpstreamStatus('here', { last_error })] }))
    expect(said('here', (await bench.run('upstreams', 'list')).stdout)).toContain('bad?[2J?news (just now) ')
  })

  test('says how to begin without upstreams, and without a database', async () => {
    expect((await bench.run('upstreams', 'list')).stderr).toContain('No upstreams yet. Add one (tollgate upstreams add')
    expect((await bench.run('models', 'list')).stderr).toContain('models add')
    rmSync(databasePath(bench.folder))
    expect(await bench.run('upstreams', 'list')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('Start the server once'),
    })
  })
})

describe('upstreams test', () => {
  test('makes the running server check enabled ones, and fails if one is unavailable', async () => {
    await declare()
    const asked: string[] = []
    stopServer = pretendServer(bench.folder, toStatus(), async (id) => {
      asked.push(id)
      if (id === 'paid') return { id, state: 'refused', reason: 'the key is wrong', ms: 12 }
      return { id, state: 'unknown', reason: null, ms: 3 }
    })
    const { code, stdout, stderr } = await bench.run('upstreams', 'test')
    expect(asked.sort()).toEqual(['here', 'paid'])
    expect([code, stderr]).toEqual([1, 'error: 1 of 2 upstreams failed.\n'])
    expect(lineOf('paid', stdout)).toMatch(/refused +12 +the key is wrong$/)
    expect(lineOf('here', stdout)).toMatch(/unknown +3 +reachable; a free check is not supported$/)

    const named = await bench.run('upstreams', 'test', 'here', '--json')
    expect(named.code).toBe(0)
    expect(json(named.stdout)).toMatchObject({ upstreams: [{ id: 'here', state: 'unknown' }], server: { pid: 4242 } })
  })

  test('with some failing credentials warns of them, and does not fail', async () => {
    await declare()
    stopServer = pretendServer(bench.folder, toStatus(), async (id) => ({
      ...{ id, state: 'ready', reason: 'credential 2: /models returned 401: it is wrong', ms: 3 },
    }))
    expect(await bench.run('upstreams', 'test', 'paid')).toMatchObject({
      code: 0,
      stderr:
        'warning: paid works, but not with all of its credentials: credential 2: /models returned 401: it is wrong\n',
    })
  })

  test("for an upstream that the server doesn't have yet fails without checking others", async () => {
    await declare()
    stopServer = pretendServer(bench.folder, toStatus(), async (id) =>
      id === 'here' ? { id, state: 'ready', reason: null, ms: 3 } : null,
    )
    const { code, stdout } = await bench.run('upstreams', 'test')
    expect(code).toBe(1)
    expect(lineOf('here', stdout)).toMatch(/ready +3 +ok$/)
    expect(lineOf('paid', stdout)).toMatch(/not ready +- +not yet loaded by the server$/)
  })

  test('without a server checks from this process, with its environment', async () => {
    const upstream = await startUpstream()
    try {
      await declare(upstream.url)
      const { code, stdout, stderr } = await bench.run('upstreams', 'test')
      expect(upstream.probes.length).toBeGreaterThan(0)
      expect(code).toBe(1)
      expect(stderr).toStartWith('No server is running. Checking from here')
      expect(lineOf('here', stdout)).toMatch(/(ready|unknown) +\d+ +(ok|reachable)/)
      expect(lineOf('paid', stdout)).toMatch(/not ready +- +the variable PAID_KEY is not set here$/)
    } finally {
      await upstream.stop()
    }
    const gone = await bench.run('upstreams', 'test', 'here', '--json')
    expect(gone.code).toBe(1)
    expect(json(gone.stdout)).toMatchObject({ server: null, upstreams: [{ id: 'here', state: 'down' }] })
    expect(json(gone.stderr).error.kind).toBe('upstreams_failed')
  })

  test("logs of an unknown upstream doesn't suggest a start", async () => {
    await declare()
    expect(await bench.run('upstreams', 'logs', 'nobody')).toEqual({
      ...{ code: 1, stdout: '' },
      stderr: "error: Unknown upstream 'nobody'. Upstreams: paid, here, off.\n",
    })
    expect((await bench.run('upstreams', 'logs', 'paid')).stderr).toContain('No log for paid: ')
  })

  test.each([
    ['nobody', "Unknown upstream 'nobody'. Upstreams: paid, here, off."],
    ['off', 'is disabled. Enable it: tollgate upstreams edit off --enable'],
  ])('refuses %s, before anything is asked', async (id, message) => {
    await declare()
    const asked: string[] = []
    stopServer = pretendServer(bench.folder, toStatus(), async (each) => {
      asked.push(each)
      return null
    })
    const { code, stderr } = await bench.run('upstreams', 'test', 'here', id)
    expect([code, stderr, asked]).toEqual([1, expect.stringContaining(message), []])
  })
})
