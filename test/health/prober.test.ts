/** The prober against scripted upstreams on real sockets, and against questions that the test answers itself. */
import { afterEach, describe, expect, test } from 'bun:test'
import { UpstreamError } from '../../src/domain/error.ts'
import type { Snapshot, Target } from '../../src/domain/snapshot.ts'
import { createHealth } from '../../src/health/health.ts'
import { createProber, type ProberDeps } from '../../src/health/prober.ts'
import type { Look } from '../../src/health/tcp.ts'
import { createAllBackends } from '../../src/server/backends.ts'
import type { Readiness } from '../../src/upstreams/backend.ts'
import { toModel, toSnapshot, toTarget } from '../support/snapshot.ts'
import { startUpstream } from '../support/upstream.ts'

const ending: (() => unknown)[] = []
afterEach(async () => {
  for (const end of ending.splice(0).reverse()) await end()
})

const toRoutes = (...targets: Target[]): Snapshot => ({
  ...toSnapshot([toModel('acme/large', targets)]),
  upstreams: new Map(targets.map(({ upstream }) => [upstream.id, upstream])),
})

/** A started prober with its health, on targets that can be exchanged. */
function setUp(targets: Target[], deps: Partial<ProberDeps> = {}) {
  let snapshot = toRoutes(...targets)
  const health = createHealth({
    nowMs: () => performance.now(),
    wallMs: Date.now,
    onUnreached: () => prober.kick(),
  })
  const prober = createProber({ health, snapshot: () => snapshot, backendFor: createAllBackends(), ...deps })
  health.renew(snapshot)
  ending.push(prober.stop)
  const change = (...next: Target[]) => {
    snapshot = toRoutes(...next)
    health.renew(snapshot)
    prober.kick()
  }
  prober.start()
  const until = async (state: string, reason: string | null = null, id = 'paid') => {
    const isSo = () => health.states().some((one) => one.id === id && one.state === state && one.reason === reason)
    for (let left = 1_000; !isSo(); left--) {
      if (left === 0) throw new Error(`never ${state} (${reason}): ${JSON.stringify(health.states())}`)
      await Bun.sleep(5)
    }
  }
  return { health, prober, change, until }
}

async function serve(port = 0) {
  const upstream = await startUpstream(undefined, port)
  ending.push(upstream.stop)
  return upstream
}

/** A backend whose answers come when the test says so. */
function createAsked() {
  const asked: { id: string; signal: AbortSignal; answer: (readiness: Readiness) => void }[] = []
  const backendFor: ProberDeps['backendFor'] = () => ({
    probe: ({ id }, signal) => new Promise((answer) => asked.push({ id, signal, answer })),
  })
  const looked: string[] = []
  const look: Look = async ({ id }) => {
    looked.push(id)
    return { state: 'unknown' }
  }
  const count = async (expected: number) => {
    for (let left = 1_000; asked.length < expected; left--) {
      if (left === 0) throw new Error(`${asked.length} questions instead of ${expected}`)
      await Bun.sleep(5)
    }
  }
  return { asked, looked, backendFor, look, count }
}

/** Long enough for anything that is due now. */
const soon = () => Bun.sleep(60)

describe('at its start, it', () => {
  test('finds out which upstreams are there', async () => {
    const [good, loading, dead] = await Promise.all([serve(), serve(), serve()])
    await dead.stop()
    loading.script({ kind: 'whole', status: 503, body: {} })
    const { until } = setUp([
      toTarget({ id: 'good', baseUrl: good.url }),
      toTarget({ id: 'loading', baseUrl: loading.url }),
      toTarget({ id: 'dead', baseUrl: dead.url }),
      toTarget({ id: 'demo', dialect: 'demo', baseUrl: null }),
    ])
    await until('up', null, 'good')
    await until('up', null, 'demo')
    await until('doubtful', 'its /models answered 503', 'loading')
    await until('down', 'connection refused', 'dead')
  })

  test('asks only those that a route leads to and that can be called, each once', async () => {
    const { asked, backendFor, look, count } = createAsked()
    const unused = toTarget({ id: 'unused' })
    const used = toTarget({ id: 'used' })
    const snapshot = toRoutes(used, { ...used, model: 'acme/other' }, toTarget({ id: 'bare', notReady: 'no key' }))
    const health = createHealth({ nowMs: () => 0, wallMs: () => 0 })
    const upstreams = new Map([...snapshot.upstreams, ['unused', unused.upstream]])
    const prober = createProber({ health, snapshot: () => ({ ...snapshot, upstreams }), backendFor, look })
    ending.push(prober.stop)
    prober.start()
    await count(1)
    await soon()
    expect(asked.map(({ id }) => id)).toEqual(['used'])
  })

  test('asks nothing of one that it cannot connect to', async () => {
    const { asked, backendFor } = createAsked()
    for (const state of ['down', 'doubtful'] as const) {
      const { until } = setUp([toTarget()], { backendFor, look: async () => ({ state, reason: 'no connection' }) })
      await until('down', 'no connection')
      await soon()
    }
    expect(asked).toEqual([])
  })

  test('asks nothing where that is switched off', async () => {
    const { asked, looked, backendFor, look } = createAsked()
    const { prober } = setUp([toTarget()], { backendFor, look, intervalMs: 0 })
    prober.kick()
    await soon()
    expect([asked.length, looked.length]).toEqual([0, 0])
  })
})

describe('later on, it', () => {
  test('asks again and again, and never an upstream twice at a time', async () => {
    const { asked, backendFor, look, count } = createAsked()
    const { prober } = setUp([toTarget()], { backendFor, look, intervalMs: 5 })
    await count(1)
    prober.kick()
    await soon()
    expect(asked.length).toBe(1)
    asked[0]?.answer({ state: 'ready' })
    await count(2)
    asked[1]?.answer({ state: 'ready' })
    await count(3)
  })

  test('asks upstreams that are new or have changed at once, and no others', async () => {
    const { asked, backendFor, look, count } = createAsked()
    const [same, moved] = [toTarget({ id: 'same' }), toTarget({ id: 'moved' })]
    const { change } = setUp([same, moved], { backendFor, look })
    await count(2)
    asked[0]?.answer({ state: 'ready' })
    await soon()
    change({ ...same }, toTarget({ id: 'moved', credential: 'new' }), toTarget({ id: 'fresh' }))
    await count(4)
    await soon()
    expect(asked.map(({ id }) => id)).toEqual(['same', 'moved', 'moved', 'fresh'])
  })

  test('believes nothing that it learns about an upstream that has changed meanwhile', async () => {
    const { asked, backendFor, look, count } = createAsked()
    const { change, health } = setUp([toTarget()], { backendFor, look })
    await count(1)
    const next = toTarget({ credential: 'new' })
    change(next)
    await count(2)
    expect(asked[0]?.signal.aborted).toBe(true)
    asked[0]?.answer({ state: 'down', reason: 'old' })
    await soon()
    expect(health.standing(next)).toBe('well')
  })

  test('survives a backend that throws, and asks it again', async () => {
    let calls = 0
    const errors: unknown[] = []
    const backendFor = () => ({
      probe() {
        calls++
        throw new TypeError('a bug of ours')
      },
    })
    const { look } = createAsked()
    const log = { error: (message: string, fields: object) => void errors.push([message, fields]) }
    setUp([toTarget()], { backendFor, look, log, intervalMs: 5 })
    while (calls < 2) await Bun.sleep(5)
    expect(JSON.stringify(errors[0])).toContain('a bug of ours')
  })

  test('holds a slow answer against nobody who takes connections', async () => {
    const { asked, backendFor, look, count } = createAsked()
    const target = toTarget()
    const { health, until } = setUp([target], { backendFor, look, timeoutMs: 20 })
    await count(1)
    const [question] = asked
    while (!question?.signal.aborted) await Bun.sleep(5)
    question.answer({ state: 'doubtful', reason: 'its /models did not answer in time' })
    await until('doubtful', 'its /models did not answer in time')
    expect([health.standing(target), health.enter(target)]).toEqual(['doubtful', true])
  })

  test('is silent once it is stopped', async () => {
    const { asked, backendFor, look, count } = createAsked()
    const { prober, health } = setUp([toTarget()], { backendFor, look, intervalMs: 5 })
    await count(1)
    prober.stop()
    expect(asked[0]?.signal.aborted).toBe(true)
    asked[0]?.answer({ state: 'down', reason: 'stopped' })
    prober.kick()
    await soon()
    expect([asked.length, health.states()[0]?.state]).toEqual([1, 'up'])
  })
})

describe('after a call that could not be made, it', () => {
  const failed = new UpstreamError('connection', 'could not be reached')

  test('looks at once, and finds the upstream again when it is back', async () => {
    const upstream = await serve()
    const target = toTarget({ baseUrl: upstream.url })
    const { health, until } = setUp([target], { intervalMs: 0 })
    await upstream.stop()
    health.report(target, failed)
    await until('down', 'connection refused')
    expect(health.standing(target)).toBe('out')
    await serve(upstream.port)
    await until('up')
    expect(health.standing(target)).toBe('well')
  })

  test('asks whether it is ready as soon as it can be reached again', async () => {
    const { asked, backendFor, count } = createAsked()
    let isThere = true
    const look: Look = async () => (isThere ? { state: 'unknown' } : { state: 'down', reason: 'connection refused' })
    const target = toTarget()
    const { health, until } = setUp([target], { backendFor, look })
    await count(1)
    asked[0]?.answer({ state: 'ready' })
    await soon()
    isThere = false
    health.report(target, failed)
    await until('down', 'connection refused')
    isThere = true
    await count(2)
    asked[1]?.answer({ state: 'doubtful', reason: 'its /models answered 503' })
    await until('doubtful', 'its /models answered 503')
  })

  test('looks again soon, at first: it may only have been restarted', async () => {
    const { backendFor } = createAsked()
    let looks = 0
    const look: Look = async () =>
      ++looks < 3 ? { state: 'down', reason: 'connection refused' } : { state: 'unknown' }
    const target = toTarget()
    const { health, until } = setUp([target], { backendFor, look, intervalMs: 0 })
    health.report(target, failed)
    await until('down', 'connection refused')
    // Timers of one process go off in their order, however busy the machine is.
    await Bun.sleep(1_200)
    expect([looks, health.standing(target)]).toEqual([3, 'well'])
  })

  test('looks less and less often as it stays away', async () => {
    const { backendFor } = createAsked()
    const times: number[] = []
    const look: Look = async () => {
      times.push(performance.now())
      return { state: 'down', reason: 'connection refused' }
    }
    const target = toTarget()
    const { health } = setUp([target], { backendFor, look, intervalMs: 0 })
    health.report(target, failed)
    while (times.length < 4) await Bun.sleep(5)
    const pauses = times.slice(1).map((time, at) => time - (times[at] ?? 0))
    expect([245, 495, 995].every((ms, at) => (pauses[at] ?? 0) >= ms)).toBe(true)
  })

  test('leaves one behind a proxy in peace, where a look learns nothing', async () => {
    const { backendFor } = createAsked()
    let looks = 0
    const look: Look = async () => {
      looks++
      return null
    }
    const target = toTarget()
    const { health } = setUp([target], { backendFor, look, intervalMs: 0 })
    const startMs = performance.now()
    for (let round = 0; round < 100; round++) {
      health.report(target, failed)
      await Bun.sleep(5)
    }
    expect(looks).toBeGreaterThan(0)
    expect(looks).toBeLessThanOrEqual(1 + (performance.now() - startMs) / 2_000)
  })

  test('looks four times a second at most, however often it is told', async () => {
    const { looked, backendFor, look } = createAsked()
    const target = toTarget()
    const { health } = setUp([target], { backendFor, look, intervalMs: 0 })
    const startMs = performance.now()
    for (let round = 0; round < 50; round++) {
      health.report(target, failed)
      await Bun.sleep(2)
    }
    expect(looked.length).toBeGreaterThan(0)
    expect(looked.length).toBeLessThanOrEqual(1 + (performance.now() - startMs) / 250)
  })
})

test('it does not keep a process alive', async () => {
  const script = `
    import { createHealth } from './src/health/health.ts'
    import { createProber } from './src/health/prober.ts'
    import { createBackends } from './src/upstreams/registry.ts'
    import { toModel, toSnapshot, toTarget } from './test/support/snapshot.ts'
    const health = createHealth({ nowMs: () => 0, wallMs: () => 0 })
    const snapshot = toSnapshot([toModel('a/b', [toTarget()])])
    createProber({ health, snapshot: () => snapshot, backendFor: createBackends() }).start()
    await Bun.sleep(100)`
  const child = Bun.spawn([process.execPath, '-e', script], { cwd: `${import.meta.dir}/../..` })
  ending.push(() => child.kill('SIGKILL'))
  expect(await child.exited).toBe(0)
})
