/**
 * The binary with a locked database, a stop during retries, and a kill during fallback: clients' responses are recorded
 * to the nano-dollar.
 */
import { Database } from 'bun:sqlite'
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { applyJournal, createWorkplace, type RunningBinary, type Workplace } from '../support/binary.ts'
import { HELLO } from '../support/gateway.ts'
import { answering, type CallRow, isOver, toSeveralCatalogue } from '../support/several-upstreams.ts'
import { type ScriptedUpstream, type Seen, startUpstream } from '../support/upstream.ts'
import { errorAnswer, streamAnswer } from '../support/upstream-answers.ts'

let place: Workplace
let first: ScriptedUpstream
let second: ScriptedUpstream
beforeEach(async () => {
  place = createWorkplace()
  first = await startUpstream(answering('first'))
  second = await startUpstream(answering('second'))
})
afterEach(async () => {
  await place.close()
  await Promise.all([first.stop(), second.stop()])
})

const data = () => join(place.folder, 'data')

async function serve(...args: string[]): Promise<RunningBinary> {
  const text = toSeveralCatalogue({ first: first.url, second: second.url, here: second.url })
  const catalog = await place.write('catalog.yaml', text)
  const all = ['--first-key', '--probe', 'off', '--catalog', catalog, ...args]
  return place.serve(all, { environment: { UPSTREAM_KEY: 'x' } })
}

interface Receipt {
  id: string
  status: number
  cost_nano_usd: number | null
}

/** Null if the connection broke before the end. */
async function ask({ baseUrl }: RunningBinary, key: string | null, body: object): Promise<Receipt | null> {
  const stream = 'stream' in body && body.stream === true
  const options = stream ? { stream_options: { include_usage: true } } : {}
  try {
    const response = await fetch(`${baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ ...HELLO, ...body, ...options }),
    })
    const text = await response.text()
    if (stream && response.ok && !text.endsWith('data: [DONE]\n\n')) return null
    const cost = /"cost_nano_usd":(\d+)/.exec(text)?.[1]
    const id = (response.headers.get('x-request-id') ?? '').replace(/^req_/, '')
    return { id, status: response.status, cost_nano_usd: cost === undefined ? null : Number(cost) }
  } catch {
    return null
  }
}

interface Row {
  id: string
  status: string
  attempts: number
  upstream: string
  error_code: string | null
  cost_nano_usd: number
  reserved_nano_usd: number
}

function read<T>(sql: string): T[] {
  const sqlite = new Database(join(data(), 'tollgate.db'), { readonly: true })
  try {
    return sqlite.query<T, []>(sql).all()
  } finally {
    sqlite.close()
  }
}

const rowsNow = () => read<Row>('SELECT * FROM requests ORDER BY id')
const callsNow = () =>
  read<CallRow & { request_id: string }>('SELECT * FROM calls WHERE number > 1 ORDER BY request_id, number')

/** Stops the server and verifies its ledger. */
async function stopAndAudit(server: RunningBinary): Promise<void> {
  server.signal('SIGTERM')
  expect(await server.exited).toBe(0)
  expect(await place.run('ledger', 'verify')).toMatchObject({ code: 0, stderr: '' })
  expect(readdirSync(join(data(), 'journal'))).toEqual([])
}

/** Each response has its row, and each row its response. */
function expectReceipts(receipts: (Receipt | null)[]): void {
  const told = receipts.map((receipt) => ({ id: receipt?.id, status: 'ok', cost_nano_usd: receipt?.cost_nano_usd }))
  const kept = rowsNow().map(({ id, status, cost_nano_usd }) => ({ id, status, cost_nano_usd }))
  expect(kept as typeof told).toEqual(told.sort((a, b) => (String(a.id) < String(b.id) ? -1 : 1)))
}

describe('while another process locks the database', () => {
  let holder: Database
  const lock = async () => {
    holder = new Database(join(data(), 'tollgate.db'), { readwrite: true })
    holder.run('PRAGMA busy_timeout = 5000')
    holder.run('BEGIN EXCLUSIVE')
  }
  const unlock = () => {
    holder.run('ROLLBACK')
    holder.close()
  }
  /** Some stream; a third fall back because the first upstream times out. */
  const askMany = async (server: RunningBinary, count: number) => {
    first.script((seen) => (seen.index % 3 === 0 ? errorAnswer(429) : answering('first')(seen)))
    return Promise.all(
      Array.from({ length: count }, (_, i) => ask(server, server.key, { model: 'acme/both', stream: i % 2 === 0 })),
    )
  }

  test('known keys get responses, also from a second upstream, and all are recorded afterwards', async () => {
    const server = await serve()
    const before = await askMany(server, 5)
    await applyJournal(data())
    await lock()
    // No lock until all have responses: a waiting request would never end.
    const during = [...(await askMany(server, 40)), ...(await askMany(server, 40))]
    expect(new Set(during.map((receipt) => receipt?.status))).toEqual(new Set([200]))
    expect(await (await fetch(new URL('/readyz', server.baseUrl))).json()).toEqual({ status: 'ok' })
    expect((await ask(server, 'sk-tg-nobody', {}))?.status).toBe(401)
    expect(rowsNow()).toHaveLength(before.length)
    await server.logged('database not accepting ledger rows; queued in the journal')
    unlock()
    const after = await askMany(server, 5)
    await server.logged('database accepting ledger rows again')
    await stopAndAudit(server)
    expectReceipts([...before, ...during, ...after])
    const fallbacks = callsNow().filter(({ reason, status }) => reason === 'fallback' && status === 'ok')
    expect(fallbacks).toHaveLength(second.requests.length)
    expect(fallbacks.length).toBeGreaterThan(10)
  })

  test('the server can stop, and its next start records what is missing', async () => {
    const server = await serve()
    await lock()
    const during = await askMany(server, 20)
    server.signal('SIGTERM')
    expect(await server.exited).toBe(0)
    expect(rowsNow()).toEqual([])
    unlock()
    const next = await serve()
    await stopAndAudit(next)
    expectReceipts(during)
  })
})

describe('a kill between the journal and the database', () => {
  const askMany = (server: RunningBinary) =>
    Promise.all(
      Array.from({ length: 20 }, (_, i) => ask(server, server.key, { model: 'acme/both', stream: i % 2 === 0 })),
    )
  const segments = () => readdirSync(join(data(), 'journal'))

  test('before any record is applied loses nothing: pending records are reported, and the next start applies them', async () => {
    const server = await serve()
    const holder = new Database(join(data(), 'tollgate.db'), { readwrite: true })
    holder.run('BEGIN IMMEDIATE')
    const receipts = await askMany(server)
    server.signal('SIGKILL')
    await server.exited
    holder.run('ROLLBACK')
    holder.close()
    expect(rowsNow()).toEqual([])
    const left = segments()
    const told = await place.run('ledger', 'verify')
    expect(told).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/^journal\/\S+ holds 40 records of a stopped instance/),
    })
    expect((await place.run('keys', 'list')).stderr).toBe(
      'note: 40 ledger records pending in the journal; the next server start applies them.\n',
    )
    // Only a server applies the journal.
    expect([rowsNow(), segments()]).toEqual([[], left])
    await stopAndAudit(await serve())
    expectReceipts(receipts)
  })

  test('after the commit, with the segment still present, changes nothing when it is applied again', async () => {
    const server = await serve()
    const receipts = await askMany(server)
    await applyJournal(data())
    const rows = rowsNow()
    server.signal('SIGKILL')
    await server.exited
    expect(segments().length).toBeGreaterThan(0)
    expect(await place.run('ledger', 'verify')).toMatchObject({ code: 0, stderr: '' })
    await stopAndAudit(await serve())
    expect(rowsNow()).toEqual(rows)
    expectReceipts(receipts)
  })

  test('with a torn last line loses only that line, which no client had a response for', async () => {
    const server = await serve()
    const holder = new Database(join(data(), 'tollgate.db'), { readwrite: true })
    holder.run('BEGIN IMMEDIATE')
    const receipts = await askMany(server)
    server.signal('SIGKILL')
    await server.exited
    holder.run('ROLLBACK')
    holder.close()
    const path = join(data(), 'journal', segments().find((name) => name.endsWith('-1.log')) ?? '')
    const bytes = readFileSync(path)
    const end = bytes.indexOf('\0')
    bytes.write('412 1a2b3c4d {"kind":"open","row":{"id":"01', end)
    writeFileSync(path, bytes)
    await stopAndAudit(await serve())
    expectReceipts(receipts)
  })
})

describe('a stop while requests wait for a retry', () => {
  /** Each request first has to retry: a pause without a call in flight. */
  const pausing = (seconds: number) => (seen: Seen) =>
    String(seen.headers['x-client-request-id']).endsWith('-1')
      ? errorAnswer(429, 'slow down', { 'retry-after': String(seconds) })
      : answering('first')(seen)
  const askTen = (server: RunningBinary) =>
    Array.from({ length: 10 }, (_, i) => ask(server, server.key, { model: 'acme/only', stream: i % 2 === 0 }))
  const allRefusedOnce = (all: Seen[]) => all.length === 10 && isOver(all)

  test('lets them be retried, and finish', async () => {
    const server = await serve()
    first.script(pausing(1))
    const asked = askTen(server)
    await first.waitFor(allRefusedOnce, 'the first round')
    await stopAndAudit(server)
    const receipts = await Promise.all(asked)
    expect(new Set(receipts.map((receipt) => receipt?.status))).toEqual(new Set([200]))
    expectReceipts(receipts)
    expect(new Set(rowsNow().map(({ attempts }) => attempts))).toEqual(new Set([2]))
    expect(callsNow().map(({ reason }) => reason)).toEqual(Array(10).fill('retry'))
  })

  test('without time for retries ends them: no further call, no charge', async () => {
    const server = await serve('--drain', '200ms')
    first.script(pausing(9))
    const asked = askTen(server)
    await first.waitFor(allRefusedOnce, 'the first round')
    await stopAndAudit(server)
    const receipts = await Promise.all(asked)
    expect(receipts.map((receipt) => receipt?.status)).toEqual(Array(10).fill(503))
    expect(first.requests).toHaveLength(10)
    const rows = rowsNow()
    expect(rows).toHaveLength(10)
    for (const row of rows) {
      expect(row).toMatchObject({ status: 'failed', error_code: 'server_stopping', attempts: 1, cost_nano_usd: 0 })
    }
  })

  test('nor for a silent second upstream: that one may charge for its request', async () => {
    const server = await serve('--drain', '200ms')
    first.script(errorAnswer(500))
    second.script({ kind: 'silent' })
    const asked = [false, true].map((stream) => ask(server, server.key, { model: 'acme/both', stream }))
    await second.waitFor((all) => all.length === 2, 'two calls of the second')
    await stopAndAudit(server)
    const receipts = await Promise.all(asked)
    expect(receipts.map((receipt) => receipt?.status)).toEqual([503, 503])
    await second.waitFor(isOver, 'the end of both')
    for (const row of rowsNow()) {
      expect(row).toMatchObject({ status: 'failed', error_code: 'server_stopping', attempts: 2, upstream: 'second' })
      expect(row.cost_nano_usd).toBeGreaterThan(0)
      // The second is ten times as expensive.
      expect(row.cost_nano_usd).toBeLessThan(10 * row.reserved_nano_usd)
    }
  })
})

test('a kill costs each request the reservation of its last call, which replaces that of the failed one', async () => {
  const server = await serve()
  const fails = errorAnswer(500)
  const waits = errorAnswer(429, 'slow down', { 'retry-after': '9' })
  first.script(({ json }) => (json?.user === 'pause' ? waits : fails))
  second.script({ kind: 'silent' })
  const asked = [
    ask(server, server.key, { model: 'acme/both', user: 'fallback' }),
    ask(server, server.key, { model: 'acme/both', user: 'fallback', stream: true }),
    ask(server, server.key, { model: 'acme/only', user: 'pause' }),
  ]
  await second.waitFor((all) => all.length === 2, 'two calls of the second')
  await first.waitFor((all) => all.length === 3 && isOver(all), 'three of the first')
  server.signal('SIGKILL')
  await server.exited
  expect(await Promise.all(asked)).toEqual([null, null, null])
  expect((await place.run('ledger', 'verify')).code).toBe(1)

  const next = await serve()
  await stopAndAudit(next)
  const [rows, calls] = [rowsNow(), callsNow()]
  expect(calls).toMatchObject(Array(2).fill({ number: 2, reason: 'fallback', status: 'abandoned', upstream: 'second' }))
  expect(rows.map(({ attempts }) => attempts).sort()).toEqual([1, 2, 2])
  for (const row of rows) {
    const own = calls.filter((call) => call.request_id === row.id)
    for (const call of own) expect(call.cost_nano_usd).toBe(call.reserved_nano_usd)
    const reserved = own[0]?.reserved_nano_usd ?? row.reserved_nano_usd
    expect(row).toMatchObject({ status: 'abandoned', cost_nano_usd: reserved, attempts: 1 + own.length })
    expect(row.upstream).toBe(own.length === 0 ? 'first' : 'second')
  }
})

test('the bounds of the command line hold', async () => {
  const server = await serve('--max-in-flight', '3', '--max-buffered', '64M', '--max-key-share', 'off')
  const gate = Promise.withResolvers<void>()
  first.script(() => streamAnswer({ after: gate.promise }))
  const large = { model: 'acme/only', stream: true, padding: 'x'.repeat(25_000_000) }
  const asked = [1, 2].map(() => ask(server, server.key, large))
  await first.waitFor((all) => all.length === 2, 'two calls', 15_000)
  expect((await ask(server, server.key, large))?.status).toBe(503)
  asked.push(ask(server, server.key, { model: 'acme/only', stream: true }))
  await first.waitFor((all) => all.length === 3, 'a third one that is small')
  expect((await ask(server, server.key, { model: 'acme/only' }))?.status).toBe(503)
  gate.resolve()
  const receipts = await Promise.all(asked)
  await stopAndAudit(server)
  expectReceipts(receipts)
})
