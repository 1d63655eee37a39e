/** A keeper and its workers over real links and one real database, each with the parts of a server. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { Speeds } from '../../../src/accounting/settle.ts'
import { applyCatalog } from '../../../src/catalog/apply.ts'
import { parseCatalog } from '../../../src/catalog/file.ts'
import { UpstreamError } from '../../../src/domain/error.ts'
import type { Link } from '../../../src/domain/link.ts'
import type { Target } from '../../../src/domain/snapshot.ts'
import { createKey, revokeKey } from '../../../src/keys/service.ts'
import { hashToken } from '../../../src/keys/token.ts'
import { createRefusals } from '../../../src/ledger/refusals.ts'
import type { Log } from '../../../src/log.ts'
import { type Ask, Fleet } from '../../../src/processes/fleet.ts'
import { systemClock } from '../../../src/processes/supervisor.ts'
import { createLiveRequests } from '../../../src/server/admin-view/live-requests.ts'
import { createLive } from '../../../src/server/live.ts'
import { createMetrics } from '../../../src/server/metrics.ts'
import { ServedFacts } from '../../../src/server/served.ts'
import { connectLink, listenForLinks } from '../../../src/server/workers/link.ts'
import { FINISHED, type FinishedRows, shareAsKeeper, type Workers } from '../../../src/server/workers/shared.ts'
import { shareAsWorker } from '../../../src/server/workers/shared-worker.ts'
import type { ConfigStore } from '../../../src/store/config-store.ts'
import type { RefusalCount } from '../../../src/store/ledger-store.ts'
import { createConfigStore } from '../../../src/store/sqlite/config-store.ts'
import type { Readiness } from '../../../src/upstreams/backend.ts'
import { createFolder, toOpen, toSettled } from '../../ledger/fixture.ts'
import { createServer, toSpec } from '../../processes/servers.ts'
import { onEvery } from '../../support/backends.ts'
import { forEachTest } from '../../support/lifetime.ts'
import { until } from '../../support/until.ts'

const NO_LOG: Log = { info() {}, warn() {}, error() {}, flush: async () => {} }
const FACTS = `name: M, context_length: 8192, max_output_length: 1000, input_modalities: [text], output_modalities: [text],
    supported_features: []`
const CATALOG = `
version: 1
upstreams:
  paid: { dialect: openai, base_url: 'http://127.0.0.1:1/v1', api_key: ['\${ONE}', '\${TWO}'] }
  own: { dialect: openai, base_url: 'http://127.0.0.1:2/v1', local: true }
  run: { dialect: openai, process: [server, '{port}'], concurrency: 1 }
models:
  acme/large: { ${FACTS}, pricing: [{ prompt: '0.000001', completion: '0.000001' }], routes: [{ upstream: paid, model: large }] }
  acme/small: { ${FACTS}, routes: [{ upstream: own, model: small }] }
  acme/run: { ${FACTS}, routes: [{ upstream: run, model: run }] }
`
const environment = { ONE: 'sk-one', TWO: 'sk-two' }
const vault = { open: async () => new Map() }
const BY = { actor: 'test', nowMs: 1_000 }
const monotonicMs = performance.now.bind(performance)
const now = Date.now
const DOWN: Readiness = { state: 'down', reason: 'is unreachable' }

const status = (code: number) => new UpstreamError('status', 'their words', { status: code })

/** A real fleet of one server, which is ready when the test says so. */
function createTestFleet() {
  const server = createServer(9)
  const fleet = new Fleet({
    clock: systemClock,
    log: NO_LOG,
    measured: { get: () => null, note() {} },
    engine: {
      launch: async () => server,
      look: async () => ({ state: server.look }),
      async runStopCommand() {},
    },
  })
  return { fleet, server }
}

const folder = forEachTest(createFolder)

async function startKeeper() {
  const store = createConfigStore(folder.database)
  const { catalog } = await parseCatalog(CATALOG, { name: 'c.yaml', environment })
  await applyCatalog(store, catalog, { ...BY, origin: 'file', subject: 'c.yaml', digest: 'd' })
  const { fleet, server } = createTestFleet()
  const stored = (await store.readCatalog()).upstreams.find(({ id }) => id === 'run')?.options.process ?? ''
  const served = new ServedFacts({ log: NO_LOG, monotonicMs })
  const unreached: string[] = []
  const live = await createLive({
    ...{ store, vault, environment, probeMs: 0, now, monotonicMs, log: NO_LOG, fleet, served },
    reader: { spent: () => 0, underWay: () => new Map(), recent: () => [], latestHour: () => 0 },
    ledger: { unapplied: () => 0 },
    backends: onEvery({
      call: () => Promise.reject(new Error('not called')),
      async probe({ id }) {
        unreached.push(id)
        return DOWN
      },
    }),
    loadProcesses: async () => ({ byUpstream: new Map([['run', toSpec({ hash: stored })]]), memory: new Map() }),
  })
  const written: RefusalCount[] = []
  const refusals = createRefusals({
    ...{ writer: { add: (counts) => void written.push(...counts) }, onCommit() {}, log: NO_LOG, intervalMs: 1 },
  })
  const liveRequests = createLiveRequests({ snapshot: () => live.snapshot })
  const speeds = new Speeds()
  const { registry } = createMetrics()
  const warnings: string[] = []
  const workers = shareAsKeeper({
    ...{ live, health: live.health, served, fleet, speeds, liveRequests, refusals, registry },
    load: { isDraining: false, inFlight: 1, bufferedBytes: 10 },
    overload: { reason: null },
    ledger: { state: () => 'ok', backlog: () => ({ records: 1, ms: 5 }) },
    concurrency: { waiting: () => [['own', 1]] },
    log: { ...NO_LOG, warn: (event) => void warnings.push(event) },
  })
  return { store, live, fleet, server, served, speeds, liveRequests, registry, written, workers, unreached, warnings }
}

let links: Link[] = []
let numberOf = 0

async function connect(workers: Pick<Workers, 'connect'>): Promise<Link> {
  const path = join(folder.path, `${++numberOf}.sock`)
  const listener = listenForLinks(path, (link) => {
    links.push(link)
    workers.connect(link)
  })
  const link = await connectLink(path)
  links.push(link)
  await until('both ends', () => links.length % 2 === 0)
  listener.stop()
  return link
}

async function startWorker(
  workers: Pick<Workers, 'connect'>,
  store: Pick<ConfigStore, 'read'> = createConfigStore(folder.other()),
) {
  const link = await connect(workers)
  const figures = { inFlight: 2, bufferedBytes: 20 }
  const overload: { reason: string | null } = { reason: null }
  const metrics = createMetrics()
  const speeds = new Speeds()
  const shared = await shareAsWorker(link, {
    ...{ store, vault, environment, now, monotonicMs, log: NO_LOG, speeds, metrics },
    capacity: { load: figures, overload },
    concurrency: { waiting: () => [['own', 2]] },
    ledger: { state: () => 'behind' },
  })
  const target = (slug = 'acme/large'): Target => {
    const [first] = shared.live.snapshot.models.get(slug)?.targets ?? []
    if (first === undefined) throw new Error(`no target for ${slug}`)
    return first
  }
  return { link, shared, figures, overload, metrics, speeds, target }
}

type Keeper = Awaited<ReturnType<typeof startKeeper>>
type TestWorker = Awaited<ReturnType<typeof startWorker>>
let keeper: Keeper
let one: TestWorker
let other: TestWorker

beforeEach(async () => {
  links = []
  keeper = await startKeeper()
  one = await startWorker(keeper.workers)
  other = await startWorker(keeper.workers)
})
afterEach(async () => {
  for (const link of links) link.close()
  keeper?.live.prober.stop()
  await keeper?.fleet.close()
})

const request = ({ shared }: TestWorker, id: string) => shared.health.forRequest({ id, teamId: null })
const availability = (worker: TestWorker, slug?: string) => request(worker, 'k9').availability(worker.target(slug))
const stateOf = (id: string) => keeper.live.health.states().find((one) => one.id === id)
const upstreamOf = (id: string) => {
  const found = keeper.live.snapshot.upstreams.get(id)
  if (found === undefined) throw new Error(`no upstream ${id}`)
  return found
}

describe('health', () => {
  test('what a check of the keeper finds is known to all workers, also to those that start later', async () => {
    keeper.live.health.probed(upstreamOf('own'), DOWN)
    await until('news of the check', () => availability(one, 'acme/small') === 'unavailable')
    await until('news of the check', () => availability(other, 'acme/small') === 'unavailable')
    const later = await startWorker(keeper.workers)
    expect(availability(later, 'acme/small')).toBe('unavailable')
    expect(availability(later)).toBe('healthy')
    keeper.live.health.probed(upstreamOf('own'), { state: 'ready' })
    await until('news of its return', () => availability(later, 'acme/small') === 'healthy')
  })

  test('failures in several workers open one breaker everywhere, and a success anywhere closes it', async () => {
    for (const [worker, key] of [
      [one, 'k1'],
      [other, 'k2'],
      [one, 'k3'],
    ] as const)
      for (let each = 0; each < 2; each++) request(worker, key).report(worker.target(), status(500))
    await until('an open breaker', () => availability(one) === 'unavailable' && availability(other) === 'unavailable')
    expect(stateOf('paid')).toMatchObject({ state: 'failing', targets: [{ breaker: 'open' }] })
    expect(availability(await startWorker(keeper.workers))).toBe('unavailable')
    request(other, 'k4').report(other.target(), 'ok')
    await until('a closed breaker', () => availability(one) === 'healthy' && stateOf('paid')?.state === 'healthy')
  })

  test('calls of one request count once, in all processes', async () => {
    const retrying = request(one, 'k1')
    for (let each = 0; each < 9; each++) retrying.report(one.target(), status(500))
    request(one, 'k2').report(one.target(), status(500))
    await until('both', () => stateOf('paid')?.targets[0]?.failures_in_a_row === 2)
    expect(availability(other)).toBe('healthy')
  })

  test('a credential that was rejected is out of use in all processes', async () => {
    const [used] = one.target().upstream.each ?? []
    request(one, 'k1').report(one.target(), status(401), used)
    await until('a suspended credential', () => stateOf('paid')?.suspended.length === 1)
    const each = other.target().upstream.each ?? []
    const chosen = () => request(other, 'k1').withCredential(other.target(), each, 'c', new Set())?.credentialNumber
    await until('the other worker', () => chosen() === 2)
  })

  test('an upstream that a worker could not reach is checked by the keeper', async () => {
    keeper.live.prober.start()
    request(one, 'k1').report(one.target('acme/small'), new UpstreamError('connection', 'is unreachable'))
    await until('a check', () => keeper.unreached.includes('own'))
    await until('news of it', () => availability(other, 'acme/small') === 'unavailable')
  })

  test('costs a healthy upstream one message a second, and one that fails all the time no more than twenty', async () => {
    const told: unknown[] = []
    one.shared.health.share((news) => void told.push(news))
    for (let each = 0; each < 1_000; each++) request(one, 'k1').report(one.target(), 'ok')
    expect(told.length).toBeLessThan(10)
    told.length = 0
    for (let each = 0; each < 1_000; each++) request(one, `k${each}`).report(one.target(), status(500))
    expect(told.length).toBeLessThan(100)
  })

  test('news of a configuration that another process no longer has is ignored', async () => {
    const [news] = keeper.live.health.known()
    keeper.live.health.take({
      kind: 'probed',
      upstream: 'paid',
      config: `not ${news?.config}`,
      credential: 1,
      found: DOWN,
    })
    expect(stateOf('paid')?.state).toBe('unknown')
  })
})

describe('configuration', () => {
  test('a revoked key is unknown to every worker once the change is applied', async () => {
    const { key, secret } = await createKey(keeper.store, { name: 'dev' }, BY)
    await keeper.live.refresh()
    const keyOf = ({ shared }: TestWorker) => shared.live.snapshot.secrets.get(hashToken(secret))?.key
    expect([keyOf(one)?.revokedMs, keyOf(other)?.revokedMs]).toEqual([null, null])
    await revokeKey(keeper.store, key.id, BY)
    await keeper.live.refresh()
    expect([keyOf(one)?.revokedMs, keyOf(other)?.revokedMs]).toEqual([1_000, 1_000])
  })

  test('a worker that applies nothing delays one change, is logged, and catches up', async () => {
    let stuck: Promise<void> | null = null
    const store = createConfigStore(folder.other())
    const slow = await startWorker(keeper.workers, {
      async read() {
        await stuck
        return store.read()
      },
    })
    const gate = Promise.withResolvers<void>()
    stuck = gate.promise
    await createKey(keeper.store, { name: 'a' }, BY)
    await keeper.live.refresh()
    await createKey(keeper.store, { name: 'b' }, BY)
    await keeper.live.refresh()
    expect(keeper.warnings).toEqual(['worker_behind'])
    expect(one.shared.live.snapshot.secrets.size).toBe(2)
    expect(slow.shared.live.snapshot.secrets.size).toBe(0)
    gate.resolve()
    await until('both keys', () => slow.shared.live.snapshot.secrets.size === 2)
  })

  test('a change that cannot be read is tried again', async () => {
    const store = createConfigStore(folder.other())
    let failures = 0
    const failing = await startWorker(keeper.workers, {
      read: () => (failures-- > 0 ? Promise.reject(new Error('locked')) : store.read()),
    })
    failures = 2
    await createKey(keeper.store, { name: 'a' }, BY)
    await keeper.live.refresh()
    expect(failing.shared.live.snapshot.secrets.size).toBe(1)
  })

  test('what the keeper has read from a local server applies in workers', async () => {
    const known = {
      upstream: 'own',
      place: 'openai http://127.0.0.1:2/v1',
      models: [{ id: 'small', servedContext: 2_048 }],
    }
    keeper.served.take([known])
    const contextOf = (worker: TestWorker) => worker.target('acme/small').contextLength
    await until('the facts', () => contextOf(one) === 2_048 && contextOf(other) === 2_048)
    await keeper.live.refresh()
    expect(contextOf(one)).toBe(2_048)
    expect(contextOf(await startWorker(keeper.workers))).toBe(2_048)
  })
})

describe('counts', () => {
  const countOf = () => keeper.registry.requests.owners.get('acme/large')?.reduce((sum, count) => sum + count, 0) ?? 0

  test('of all workers add up in a scrape, each once, with examples', async () => {
    for (const { metrics } of [one, other]) {
      metrics.registry.requests.add(2, 'acme/large', 'chat', '2xx')
      metrics.registry.duration.observe(0.3, 'acme/large', '', 'a'.repeat(32))
    }
    keeper.registry.requests.add(1, 'acme/large', 'chat', '2xx')
    await keeper.workers.gather()
    expect(countOf()).toBe(5)
    await keeper.workers.gather()
    expect(countOf()).toBe(5)
    const cells = keeper.registry.duration.owners.get('acme/large') ?? new Float64Array()
    expect([...cells].filter((value) => value !== 0)).toEqual([2, 0.6])
    expect([...(keeper.registry.duration.exemplars.get(cells)?.values() ?? [])]).toMatchObject([{ value: 0.3 }])
    expect(keeper.workers.usage().rssBytes).toBeGreaterThan(1e6)
  })

  test('come by themselves, and all of them when a worker stops', async () => {
    one.metrics.registry.requests.add(1, 'acme/large', 'chat', '2xx')
    await until('the count', () => countOf() === 1)
    one.metrics.registry.requests.add(1, 'acme/large', 'chat', '2xx')
    one.shared.refusals.note('request_limit', { id: 'k1', teamId: null }, 7_200_000)
    await one.shared.close()
    one.link.close()
    expect(countOf()).toBe(2)
    expect(keeper.registry.rejected.owners.get('')?.includes(1)).toBe(true)
    const cpu = keeper.workers.usage().cpuSeconds
    await until('its end', () => keeper.workers.load.inFlight === 3)
    expect(keeper.workers.usage().cpuSeconds).toBe(cpu)
  })

  test('of rejected requests are gathered by key and code', async () => {
    for (let each = 0; each < 500; each++)
      one.shared.refusals.note('request_limit', { id: 'k1', teamId: 't1' }, 7_200_000 + each)
    other.shared.refusals.note('invalid_key', undefined, 7_200_000)
    await until('all of them', () => keeper.written.reduce((sum, { refused }) => sum + refused, 0) === 501)
    expect(keeper.written.length).toBeLessThan(10)
    expect(keeper.written).toContainEqual(expect.objectContaining({ keyId: 'k1', teamId: 't1', lastMs: 7_200_499 }))
  })

  test('of the present are those of all processes', async () => {
    const { load, overload, ledger, concurrency } = keeper.workers
    await until('figures of both', () => load.inFlight === 5)
    expect(load.bufferedBytes).toBe(50)
    expect(ledger.backlog()).toEqual({ records: 1, ms: 5 })
    expect(ledger.state()).toBe('behind')
    expect([...concurrency.waiting()]).toEqual([['own', 5]])
    other.overload.reason = '5 requests in flight (limit)'
    await until('its overload', () => overload.reason === '5 requests in flight (limit)')
    other.link.close()
    await until('its end', () => load.inFlight === 3 && overload.reason === null)
  })
})

describe('the live list', () => {
  const finish = (worker: TestWorker, model: string) => {
    const row = toSettled(toOpen({ model }), { model })
    worker.shared.finished({ row, reason: null, calls: [] })
  }

  test('has requests of all workers from its first byte on, and costs nothing before and after', async () => {
    const gone = new AbortController()
    finish(one, 'acme/before')
    const followed = keeper.liveRequests.followByCommand({}, gone.signal)
    const reader = followed?.body?.getReader()
    await reader?.read()
    finish(one, 'acme/one')
    finish(other, 'acme/other')
    let text = ''
    while (!text.includes('acme/one') || !text.includes('acme/other'))
      text += new TextDecoder().decode((await reader?.read())?.value)
    expect(text).not.toContain('acme/before')
    let sent = 0
    links[0]?.on(FINISHED, () => {
      sent++
      return null
    })
    gone.abort()
    await until('no followers', () => !keeper.liveRequests.isFollowed())
    await keeper.live.refresh()
    finish(one, 'acme/after')
    await one.shared.close()
    expect(sent).toBe(0)
  })

  test('says how many are left out, for a keeper that is too busy to take them', async () => {
    const gone = new AbortController()
    const reader = keeper.liveRequests.followByCommand({}, gone.signal)?.body?.getReader()
    await reader?.read()
    const gate = Promise.withResolvers<void>()
    const taken: FinishedRows[] = []
    links[0]?.on(FINISHED, async (finished) => {
      taken.push(finished)
      await gate.promise
      return null
    })
    finish(one, 'acme/first')
    await until('the first', () => taken.length === 1)
    for (let each = 0; each < 5_000; each++) finish(one, 'acme/more')
    gate.resolve()
    await one.shared.close()
    expect(taken.map(({ rows, dropped }) => [rows.length, dropped])).toEqual([
      [1, 0],
      [1_000, 4_000],
    ])
    gone.abort()
  })
})

describe('model servers', () => {
  const ask = (worker: TestWorker, more: Partial<Ask> = {}) => {
    const { upstream } = worker.target('acme/run')
    return worker.shared.fleet.lease({
      ...{ upstream, owner: 'k1', patienceMs: 10_000, signal: new AbortController().signal, ...more },
    })
  }
  const isAt = (answering: number, queued: number) =>
    until(`${answering} answering and ${queued} queued`, () => {
      const now = keeper.fleet.status('run')
      return now?.answering === answering && now.queued === queued
    })

  test('are lent by the keeper to one worker after the other', async () => {
    keeper.server.look = 'ready'
    const first = await ask(one)
    expect(first.upstream).toMatchObject({ id: 'run', baseUrl: 'http://127.0.0.1:9/v1', secrets: ['key 9'] })
    const second = ask(other)
    await isAt(1, 1)
    first.heard()
    first.over('ok')
    first.over('failed')
    expect((await second).upstream.credential).toBe('key 9')
    await isAt(1, 0)
  })

  test('have one queue: its place is told, and a client that leaves gives it up', async () => {
    const gone = new AbortController()
    let note: string | null = ''
    const asking = ask(one, {
      signal: gone.signal,
      onWaiting: (text) => {
        note = text?.() ?? null
      },
    })
    await until('its place', () => note === 'waiting, 1st of 1, loading')
    await isAt(0, 1)
    gone.abort('disconnected')
    await expect(asking).rejects.toMatchObject({ kind: 'aborted', end: 'disconnected', isOwnLimit: true })
    expect(note).toBeNull()
    await isAt(0, 0)
  })

  test('that are not available are refused as by the keeper', async () => {
    await expect(ask(one, { patienceMs: 20 })).rejects.toMatchObject({ kind: 'deadline', deadline: 'queue' })
    await keeper.fleet.close()
    await expect(ask(one)).rejects.toThrow('is no longer loaded, because the server is shutting down')
  })

  test('of a worker that ends are returned, those that it uses and those that it waits for', async () => {
    keeper.server.look = 'ready'
    await ask(one)
    const waiting = ask(one).catch((error: unknown) => error)
    await isAt(1, 1)
    one.link.close()
    expect(await waiting).toBeInstanceOf(UpstreamError)
    await isAt(0, 0)
  })

  test('have states that all workers know, and speeds', async () => {
    expect(one.target('acme/run').upstream.notReady).toBeNull()
    expect(other.shared.fleet.stateOf('run')).toBe('stopped')
    const asking = ask(one)
    await until('loading', () => other.shared.fleet.stateOf('run') === 'loading')
    keeper.server.look = 'ready'
    const { over } = await asking
    await until('ready', () => other.shared.fleet.stateOf('run') === 'ready')
    over('ok')
    const target = one.target('acme/run')
    one.shared.finished({
      row: toSettled(toOpen({}), {}),
      reason: null,
      calls: [{ target, meter: { tokensPerSecond: 40 } }],
    })
    await until('the speed', () => other.speeds.of(target) === 40 && keeper.speeds.of(target) === 40)
  })
})
