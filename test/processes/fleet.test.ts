/** Several model servers on one machine, with time and servers controlled by the test. */
import { describe, expect, test } from 'bun:test'
import type { ProcessSpec } from '../../src/domain/model-server.ts'
import { type Ask, Fleet } from '../../src/processes/fleet.ts'
import type { Lease } from '../../src/processes/model.ts'
import { DEFAULT_OPTIONS } from '../../src/upstreams/dialects/dialects.ts'
import { toModel, toSnapshot, toTarget } from '../support/snapshot.ts'
import { createClock, settle } from './clock.ts'
import { createServer, type FakeServer, toSpec } from './servers.ts'

interface Setup {
  /** Servers by upstream. */
  specs: Record<string, Partial<ProcessSpec>>
  /** Memory of the machine, or by device. */
  memory?: number | Record<string, number>
  concurrency?: number
}

const SILENT = { info() {}, warn() {}, error() {} }

function createTestFleet({ specs, memory = {}, concurrency = 1 }: Setup) {
  const clock = createClock()
  const servers = new Map<string, FakeServer[]>()
  const started: string[] = []
  /** Servers that never become ready. */
  const slow = new Set<string>()
  const measured = new Map<string, number>()
  const budgets = new Map<string | null, number>(typeof memory === 'number' ? [[null, memory]] : Object.entries(memory))
  let takes: number | null = null
  const fleet = new Fleet({
    clock,
    log: SILENT,
    measured: { get: (hash) => measured.get(hash) ?? null, note: (hash, bytes) => void measured.set(hash, bytes) },
    engine: {
      async launch(id) {
        const server = createServer(started.length + 1, { memoryBytes: takes })
        if (!slow.has(id)) server.look = 'ready'
        servers.set(id, [...(servers.get(id) ?? []), server])
        started.push(id)
        return server
      },
      look: async ({ port }) => {
        const server = [...servers.values()].flat().find((one) => one.port === port)
        return { state: server?.look ?? 'loading' }
      },
      async runStopCommand() {},
    },
  })
  const upstreamOf = (id: string, hash: string) =>
    toTarget({ id, baseUrl: null, local: true, process: hash, options: { ...DEFAULT_OPTIONS, concurrency } })
  const renew = (next: Record<string, Partial<ProcessSpec>>) => {
    const all = Object.entries(next).map(([id, fields]) => [id, toSpec({ hash: id, ...fields })] as const)
    const targets = all.map(([id, { hash }]) => upstreamOf(id, hash))
    const snapshot = toSnapshot(targets.map((target) => toModel(`local/${target.upstream.id}`, [target])))
    const upstreams = new Map(targets.map(({ upstream }) => [upstream.id, upstream]))
    fleet.renew({ ...snapshot, upstreams }, { byUpstream: new Map(all), memory: budgets })
  }
  renew(specs)
  const ask = (id: string, owner = 'k', options: Partial<Ask> = {}) => {
    const { upstream } = upstreamOf(id, id)
    return fleet.lease({ upstream, owner, signal: new AbortController().signal, patienceMs: 600_000, ...options })
  }
  const lastOf = (id: string): FakeServer => servers.get(id)?.at(-1) ?? createServer(0)
  const stateOf = (id: string) => fleet.status(id)?.state
  const take = (bytes: number) => {
    takes = bytes
  }
  return { clock, fleet, servers, started, slow, ask, renew, lastOf, stateOf, take }
}

const GONE = async (lease: Promise<Lease>) =>
  lease.then(
    () => 'a place',
    (error) => String(error.message),
  )

describe('a fleet of model servers', () => {
  test('starts a server once for any number of requests, and alternates between owners in its queue', async () => {
    const { clock, ask, started } = createTestFleet({ specs: { a: {} }, concurrency: 1 })
    const order: string[] = []
    const asked = ['x', 'x', 'x', 'y', 'z'].map(async (owner, index) => {
      const { over, upstream } = await ask('a', owner)
      order.push(`${owner}${index}`)
      expect([upstream.baseUrl, upstream.credential]).toEqual(['http://127.0.0.1:1/v1', 'key 1'])
      over('ok')
    })
    await clock.pass(1_000)
    await Promise.all(asked)
    expect(order).toEqual(['x0', 'y3', 'z4', 'x1', 'x2'])
    expect(started).toEqual(['a'])
  })

  test('tells each queued request its position, and the reason', async () => {
    const { clock, ask, slow, lastOf } = createTestFleet({ specs: { a: {} } })
    slow.add('a')
    const notes: (() => string)[] = []
    const onWaiting: Ask['onWaiting'] = (note) => void (note && notes.push(note))
    const asked = ['x', 'x', 'y'].map((owner) => ask('a', owner, { onWaiting }))
    await clock.pass(100)
    expect(notes.map((note) => note())).toEqual([
      'waiting, 1st of 3, loading',
      'waiting, 3rd of 3, loading',
      'waiting, 2nd of 3, loading',
    ])
    lastOf('a').look = 'ready'
    await clock.pass(1_000)
    expect(notes[1]?.()).toBe('waiting, 2nd of 2')
    const first = await asked[0]
    first?.over('ok')
  })

  test('keeps two of three models in memory, and unloads the least recently used one', async () => {
    const specs = { a: { memoryBytes: 4 }, b: { memoryBytes: 4 }, c: { memoryBytes: 4 } }
    const { clock, ask, stateOf } = createTestFleet({ specs, memory: 10 })
    for (const id of ['a', 'b', 'a', 'c']) {
      const lease = ask(id)
      await clock.pass(2_000)
      ;(await lease).over('ok')
      await clock.pass(2_000)
    }
    expect(['a', 'b', 'c'].map(stateOf)).toEqual(['ready', 'stopped', 'ready'])
  })

  test('never stops a server with requests in flight, however long another one is awaited', async () => {
    const { clock, ask, stateOf } = createTestFleet({
      specs: { a: { memoryBytes: 9 }, b: { memoryBytes: 9 } },
      memory: 10,
    })
    const first = ask('a')
    await clock.pass(1_000)
    const { over } = await first
    const second = ask('b')
    await clock.pass(300_000)
    expect([stateOf('a'), stateOf('b')]).toEqual(['ready', 'stopped'])
    over('ok')
    await clock.pass(2_000)
    expect([stateOf('a'), stateOf('b')]).toEqual(['stopped', 'ready'])
    ;(await second).over('ok')
  })

  test("serves queued requests for the loaded model first, then the other model's, without a change per request", async () => {
    const { clock, ask, started } = createTestFleet({
      specs: { a: { memoryBytes: 9 }, b: { memoryBytes: 9 } },
      memory: 10,
    })
    const order: string[] = []
    const use = async (id: string, name: string) => {
      const { over } = await ask(id)
      order.push(name)
      await new Promise<void>((resolve) => void clock.after(5_000, resolve))
      over('ok')
    }
    const asked = [
      ['a', 'A1'],
      ['b', 'B'],
      ['a', 'A2'],
      ['a', 'A3'],
      ['a', 'A4'],
      ['a', 'A5'],
      ['a', 'A6'],
    ]
    const all = asked.map(([id = '', name = '']) => use(id, name))
    await clock.pass(120_000)
    await Promise.all(all)
    expect(order).toEqual(['A1', 'A2', 'A3', 'A4', 'B', 'A5', 'A6'])
    expect(started).toEqual(['a', 'b', 'a'])
  })

  test('keeps pinned models, and stops idle ones', async () => {
    const { clock, ask, stateOf } = createTestFleet({ specs: { a: { pin: true }, b: { idleMs: 60_000 } } })
    for (const id of ['a', 'b']) {
      const lease = ask(id)
      await clock.pass(1_000)
      ;(await lease).over('ok')
    }
    await clock.pass(50_000)
    expect([stateOf('a'), stateOf('b')]).toEqual(['ready', 'ready'])
    await clock.pass(3_600_000)
    expect([stateOf('a'), stateOf('b')]).toEqual(['ready', 'stopped'])
  })

  test('preloads models that fit', async () => {
    const specs = { a: { preload: true, memoryBytes: 6 }, b: { preload: true, memoryBytes: 6 } }
    const { clock, started, stateOf } = createTestFleet({ specs, memory: 10 })
    await clock.pass(5_000)
    expect(started).toEqual(['a'])
    expect(stateOf('b')).toBe('stopped')
  })

  test("learns a model's memory, and then loads another one next to it", async () => {
    const { clock, ask, started, stateOf, take } = createTestFleet({
      specs: { a: {}, b: { memoryBytes: 5 } },
      memory: 10,
    })
    take(5)
    const first = ask('a')
    const second = ask('b')
    await clock.pass(2_000)
    ;(await first).over('ok')
    ;(await second).over('ok')
    expect(started).toEqual(['a', 'b'])
    expect(['a', 'b'].map(stateOf)).toEqual(['ready', 'ready'])
  })

  test('refuses a model that never fits at once, and tells administrators what to do', async () => {
    const { fleet, ask } = createTestFleet({ specs: { a: { memoryBytes: 30 * 2 ** 30 } }, memory: 22 * 2 ** 30 })
    expect(await GONE(ask('a'))).toBe('needs more memory than is available for models')
    expect(fleet.status('a')?.reason).toContain('needs 30.0 GiB')
    expect(fleet.status('a')?.reason).toContain('leaves 22.0 GiB next to pinned models; raise that limit')
  })

  test('stops the least recently used model on the device that is needed, and none elsewhere', async () => {
    const on = (device: string) => ({ memoryBytes: 4, device })
    const specs = { a: on('CUDA0'), b: on('CUDA0'), c: on('CUDA0'), old: on('CUDA1') }
    const { clock, ask, stateOf } = createTestFleet({ specs, memory: { CUDA0: 10, CUDA1: 5 } })
    for (const id of ['old', 'a', 'b', 'a', 'c']) {
      const lease = ask(id)
      await clock.pass(2_000)
      ;(await lease).over('ok')
      await clock.pass(2_000)
    }
    expect(['a', 'b', 'c', 'old'].map(stateOf)).toEqual(['ready', 'stopped', 'ready', 'ready'])
  })

  test('loads on one device while another one is awaited', async () => {
    const on = (device: string) => ({ memoryBytes: 9, device })
    const specs = { a: on('CUDA0'), b: on('CUDA0'), c: on('CUDA1'), d: on('CUDA1') }
    const { clock, ask, stateOf } = createTestFleet({ specs, memory: { CUDA0: 10, CUDA1: 10 } })
    const busy = ask('a')
    const short = ask('c')
    await clock.pass(2_000)
    ;(await short).over('ok')
    const blocked = ask('b')
    const other = ask('d')
    await clock.pass(2_000)
    ;(await other).over('ok')
    expect(['a', 'b', 'c', 'd'].map(stateOf)).toEqual(['ready', 'stopped', 'stopped', 'ready'])
    ;(await busy).over('ok')
    await clock.pass(2_000)
    ;(await blocked).over('ok')
  })

  test("uses a process's measured memory for the machine's, and for no other device's", async () => {
    const specs = {
      ...{ a: { device: 'cpu' }, b: { device: 'cpu', memoryBytes: 5 } },
      ...{ c: { device: 'CUDA0' }, d: { device: 'CUDA0', memoryBytes: 5 } },
    }
    const { clock, fleet, ask, stateOf, take } = createTestFleet({ specs, memory: { cpu: 10, CUDA0: 10 } })
    take(5)
    for (const id of ['a', 'b', 'c', 'd']) {
      const lease = ask(id)
      await clock.pass(2_000)
      ;(await lease).over('ok')
      await clock.pass(2_000)
    }
    expect(['a', 'b', 'c', 'd'].map(stateOf)).toEqual(['ready', 'ready', 'stopped', 'ready'])
    expect(['a', 'c'].map((id) => fleet.status(id)?.memory_bytes)).toEqual([5, null])
  })

  test('counts a server on the device where it was started, until it has ended', async () => {
    const b = { memoryBytes: 9, device: 'CUDA0' }
    for (const before of ['CUDA0', null]) {
      const { clock, ask, renew, stateOf } = createTestFleet({
        specs: { a: { memoryBytes: 9, device: before, pin: true }, b },
        memory: { CUDA0: 10, CUDA1: 10 },
      })
      const first = ask('a')
      await clock.pass(2_000)
      const { over } = await first
      renew({ a: { memoryBytes: 9, device: 'CUDA1', pin: true, hash: 'moved' }, b })
      const second = ask('b')
      await clock.pass(60_000)
      expect([stateOf('a'), stateOf('b')]).toEqual(['ready', 'stopped'])
      over('ok')
      await clock.pass(2_000)
      ;(await second).over('ok')
    }
  })

  test('names the device whose memory a model does not fit', async () => {
    const specs = { a: { memoryBytes: 30 * 2 ** 30, device: 'CUDA1' } }
    const { fleet, ask } = createTestFleet({ specs, memory: { CUDA0: 60 * 2 ** 30, CUDA1: 22 * 2 ** 30 } })
    expect(await GONE(ask('a'))).toBe('needs more memory than is available for models')
    expect(fleet.status('a')?.reason).toContain(
      'needs 30.0 GiB of CUDA1, but `memory.CUDA1` in the catalog leaves 22.0 GiB next to pinned models',
    )
  })

  test('reports a failed start to all queued requests, and to those that arrive meanwhile', async () => {
    const { clock, fleet, ask, slow, lastOf, stateOf } = createTestFleet({ specs: { a: {} } })
    slow.add('a')
    const asked = [GONE(ask('a')), GONE(ask('a'))]
    await clock.pass(10)
    lastOf('a').end('exited with 1')
    expect(await Promise.all(asked)).toEqual(Array.from({ length: 2 }, () => 'failed to start its model server'))
    expect(await GONE(ask('a'))).toBe('failed to start its model server')
    expect(stateOf('a')).toBe('failed')
    expect(fleet.status('a')?.reason).toContain('exited with 1')
    slow.clear()
    await clock.pass(1_000)
    const again = ask('a')
    await clock.pass(1_000)
    ;(await again).over('ok')
  })

  test('keeps requests in the queue if a ready server crashes, and restarts it', async () => {
    const { clock, fleet, ask, lastOf, started, stateOf } = createTestFleet({ specs: { a: {} } })
    const first = ask('a')
    const second = ask('a')
    await clock.pass(1_000)
    const { over } = await first
    // Calls notice before its end is reported.
    lastOf('a').look = 'loading'
    over('lost')
    await clock.pass(100)
    lastOf('a').end('was killed by SIGSEGV')
    await clock.pass(100)
    expect([stateOf('a'), await fleet.probe(toTarget({ id: 'a' }).upstream)]).toEqual(['failed', { state: 'ready' }])
    await clock.pass(3_000)
    ;(await second).over('ok')
    expect(started).toEqual(['a', 'a'])
  })

  test('sends nothing to an unreachable server before a health check, and restarts it if that fails', async () => {
    const { clock, ask, lastOf, started, stateOf } = createTestFleet({ specs: { a: {} }, concurrency: 2 })
    const [first, second] = [ask('a'), ask('a')]
    await clock.pass(1_000)
    lastOf('a').look = 'loading'
    ;(await first).over('lost')
    let isAsked = false
    const third = ask('a').then((lease) => {
      isAsked = true
      return lease
    })
    await clock.pass(300)
    expect(isAsked).toBe(false)
    lastOf('a').look = 'ready'
    await clock.pass(300)
    expect([isAsked, started]).toEqual([true, ['a']])
    ;(await third).over('ok')
    lastOf('a').look = 'loading'
    ;(await second).over('lost')
    const fourth = ask('a')
    await clock.pass(10_000)
    ;(await fourth).over('ok')
    expect([started, stateOf('a')]).toEqual([['a', 'a'], 'ready'])
  })

  test('stops a server that fails three times in a row, and restarts it for the next request', async () => {
    const { clock, ask, started, stateOf } = createTestFleet({ specs: { a: {} } })
    for (const outcome of ['failed', 'failed', 'ok', 'failed', 'failed', 'failed'] as const) {
      const lease = ask('a')
      await clock.pass(1_000)
      expect(started).toEqual(['a'])
      ;(await lease).over(outcome)
    }
    await clock.pass(1_000)
    expect(stateOf('a')).toBe('stopped')
    const lease = ask('a')
    await clock.pass(1_000)
    ;(await lease).over('ok')
    expect(started).toEqual(['a', 'a'])
  })

  test('stops none for failures of only one owner if others succeed', async () => {
    const { clock, ask, started, stateOf } = createTestFleet({ specs: { a: {} } })
    const use = async (owner: string, outcome: 'ok' | 'failed') => {
      const lease = ask('a', owner)
      await clock.pass(1_000)
      ;(await lease).over(outcome)
    }
    await use('y', 'ok')
    for (let times = 0; times < 5; times++) await use('x', 'failed')
    expect([started, stateOf('a')]).toEqual([['a'], 'ready'])
    await use('y', 'failed')
    await clock.pass(1_000)
    expect(stateOf('a')).toBe('stopped')
  })

  test('reports a model that can never fit as unavailable, with the reason, until there is enough memory', async () => {
    const { clock, fleet, renew } = createTestFleet({ specs: { a: { memoryBytes: 30 } }, memory: 20 })
    const { upstream } = toTarget({ id: 'a' })
    expect(await fleet.probe(upstream)).toEqual({
      state: 'down',
      reason: 'it needs more memory than is available for models',
    })
    expect(fleet.status('a')?.reason).toContain('`memory`')
    renew({ a: { memoryBytes: 10, hash: 'smaller' } })
    await clock.pass(0)
    expect([await fleet.probe(upstream), fleet.status('a')?.reason]).toEqual([{ state: 'ready' }, null])
  })

  test('drops requests whose clients disconnected, or that waited too long', async () => {
    const { clock, fleet, ask, slow } = createTestFleet({ specs: { a: { startMs: 600_000 } } })
    slow.add('a')
    const client = new AbortController()
    const left = GONE(ask('a', 'x', { signal: client.signal }))
    const late = GONE(ask('a', 'x', { patienceMs: 5_000 }))
    client.abort()
    expect(await left).toBe('the client disconnected')
    expect(fleet.status('a')?.queued).toBe(1)
    await clock.pass(5_000)
    expect(await late).toBe('no slot became free within 5 s')
    expect(fleet.status('a')?.queued).toBe(0)
  })

  test('refuses a request, with the expected wait, if its owner fills the queue', async () => {
    const { clock, ask, slow } = createTestFleet({ specs: { a: {} } })
    slow.add('a')
    const asked = Array.from({ length: 256 }, () => ask('a', 'x'))
    for (const lease of asked) lease.catch(() => {})
    await clock.pass(100)
    const error = await ask('a', 'x').catch((error) => error)
    expect([error.message, error.status, error.isOwnLimit]).toEqual([
      "its model server's queue is full (256 requests)",
      429,
      true,
    ])
    expect(error.retryAfterMs).toBeGreaterThan(1_000_000)
    const other = ask('a', 'y')
    expect(await GONE(asked.at(-1) ?? other)).toContain("its model server's queue is full")
  })

  test('applies a new command once requests in flight have ended, and keeps the queue', async () => {
    const { clock, ask, renew, started, lastOf } = createTestFleet({ specs: { a: {} } })
    const first = ask('a')
    const second = ask('a')
    await clock.pass(1_000)
    const { over } = await first
    renew({ a: { hash: 'other' } })
    await clock.pass(60_000)
    expect(lastOf('a').signals).toEqual([])
    over('ok')
    await clock.pass(2_000)
    expect(started).toEqual(['a', 'a'])
    ;(await second).over('ok')
  })

  test('stops undeclared servers, and reports it to queued requests', async () => {
    const { clock, fleet, ask, renew } = createTestFleet({ specs: { a: {} } })
    const first = ask('a')
    const second = GONE(ask('a'))
    await clock.pass(1_000)
    renew({})
    expect(await second).toBe('is no longer configured')
    expect(fleet.status('a')?.state).toBe('ready')
    ;(await first).over('ok')
    await clock.pass(1_000)
    expect(fleet.status('a')).toBeNull()
  })

  test('can be started and stopped manually', async () => {
    const { clock, fleet, ask, stateOf } = createTestFleet({ specs: { a: {} } })
    expect([fleet.start('a'), fleet.start('b')]).toEqual([true, false])
    await clock.pass(1_000)
    expect(stateOf('a')).toBe('ready')
    const lease = ask('a')
    await settle()
    fleet.stop('a')
    await clock.pass(60_000)
    expect(stateOf('a')).toBe('ready')
    ;(await lease).over('ok')
    await clock.pass(1_000)
    expect(stateOf('a')).toBe('stopped')
  })

  test('restarts a server without any output for as long as a response may take', async () => {
    const { clock, fleet, ask, started, lastOf } = createTestFleet({ specs: { a: {} }, concurrency: 2 })
    const { upstream } = toTarget({ id: 'a' })
    const [first, second] = [ask('a'), ask('a')]
    await clock.pass(1_000)
    const [writing, hung] = [await first, await second]
    const probeFor = async (ms: number) => {
      for (let passed = 0; passed < ms; passed += 60_000) {
        expect((await fleet.probe(upstream)).state).toBe('degraded')
        await clock.pass(60_000)
      }
    }
    lastOf('a').look = 'loading'
    await probeFor(540_000)
    writing.heard()
    await probeFor(540_000)
    // A disconnect, which also precedes a deadline, doesn't prove that the server works.
    hung.over('none')
    writing.over('none')
    const third = ask('a')
    expect(started).toEqual(['a'])
    await probeFor(120_000)
    ;(await third).over('none')
    const fourth = ask('a')
    await clock.pass(10_000)
    ;(await fourth).over('ok')
    expect(started).toEqual(['a', 'a'])
  })

  test('that hangs can be stopped at once, and is restarted for queued requests', async () => {
    const { clock, fleet, ask, started, lastOf, stateOf } = createTestFleet({ specs: { a: {} } })
    const first = ask('a')
    await clock.pass(1_000)
    const hung = await first
    const second = ask('a')
    const server = lastOf('a')
    fleet.stop('a', { now: true })
    const stopped = fleet.stopped('a')
    await clock.pass(0)
    expect(server.signals).toEqual(['SIGTERM'])
    hung.over('lost')
    await clock.pass(1_000)
    expect(await stopped).toMatchObject({ state: 'ready' })
    expect(started).toEqual(['a', 'a'])
    ;(await second).over('ok')
    expect(stateOf('a')).toBe('ready')
  })

  test('starts nothing while draining, serves admitted requests, and leaves no server at its end', async () => {
    const { clock, fleet, ask, lastOf } = createTestFleet({ specs: { a: {}, b: {} } })
    const first = ask('a')
    const second = ask('a')
    await clock.pass(1_000)
    const third = GONE(ask('b'))
    fleet.drain()
    expect(await third).toContain('the server is shutting down')
    ;(await first).over('ok')
    ;(await second).over('ok')
    const closed = fleet.close()
    await clock.pass(10_000)
    await closed
    expect([lastOf('a').ended, lastOf('b').ended]).toEqual(['was killed by SIGTERM', 'was killed by SIGTERM'])
  })
})
