/** The prober, on scripted upstreams over real sockets, and on checks that the test answers. */
import { afterEach, describe, expect, test } from 'bun:test'
import { UpstreamError } from '../../src/domain/error.ts'
import type { Snapshot, Target } from '../../src/domain/snapshot.ts'
import { createHealth } from '../../src/health/health.ts'
import { createProber, type ProberDeps } from '../../src/health/prober.ts'
import { createAllBackends } from '../../src/server/backends.ts'
import type { Readiness } from '../../src/upstreams/backend.ts'
import { toModel, toSnapshot, toTarget } from '../support/snapshot.ts'
import { startUpstream } from '../support/upstream.ts'

const ending: (() => unknown)[] = []
const backends = createAllBackends()
afterEach(async () => {
  for (const end of ending.splice(0).reverse()) await end()
})

const toRoutes = (...targets: Target[]): Snapshot => ({
  ...toSnapshot([toModel('acme/large', targets)]),
  upstreams: new Map(targets.map(({ upstream }) => [upstream.id, upstream])),
})

/** A started prober with its health, on replaceable targets. */
function setUp(targets: Target[], deps: Partial<ProberDeps> = {}) {
  const health = createHealth({
    nowMs: () => performance.now(),
    wallMs: Date.now,
    onUnreached: () => prober.trigger(),
  })
  const prober = createProber({ health, backendFor: ({ upstream }) => backends[upstream.dialect], ...deps })
  health.renew(toRoutes(...targets))
  ending.push(prober.stop)
  const change = (...next: Target[]) => {
    health.renew(toRoutes(...next))
    prober.trigger()
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

/** A backend that responds when the test says so. */
function createAsked() {
  const asked: { id: string; signal: AbortSignal; answer: (readiness: Readiness) => void }[] = []
  const backendFor: ProberDeps['backendFor'] = () => ({
    probe: ({ id }, signal) => new Promise((answer) => asked.push({ id, signal, answer })),
  })
  const count = async (expected: number) => {
    for (let left = 1_000; asked.length < expected; left--) {
      if (left === 0) throw new Error(`${asked.length} questions instead of ${expected}`)
      await Bun.sleep(5)
    }
  }
  return { asked, backendFor, count }
}

/** Long enough for anything due now. */
const soon = () => Bun.sleep(60)

describe('at start, it', () => {
  test('finds which upstreams are up', async () => {
    const [good, loading, dead] = await Promise.all([serve(), serve(), serve()])
    await dead.stop()
    loading.scriptProbes({ kind: 'whole', status: 503, body: {} })
    const { until } = setUp([
      toTarget({ id: 'good', baseUrl: good.url }),
      toTarget({ id: 'loading', baseUrl: loading.url }),
      toTarget({ id: 'dead', baseUrl: dead.url }),
      toTarget({ id: 'demo', dialect: 'demo', baseUrl: null }),
    ])
    await until('healthy', null, 'good')
    await until('healthy', null, 'demo')
    await until('degraded', '/models returned 503', 'loading')
    await until('down', 'connection refused', 'dead')
  })

  test('checks only those that have a route and can be called, once each', async () => {
    const { asked, backendFor, count } = createAsked()
    const unused = toTarget({ id: 'unused' })
    const used = toTarget({ id: 'used' })
    const snapshot = toRoutes(used, { ...used, model: 'acme/other' }, toTarget({ id: 'bare', notReady: 'no key' }))
    const health = createHealth({ nowMs: () => 0, wallMs: () => 0 })
    const upstreams = new Map([...snapshot.upstreams, ['unused', unused.upstream]])
    health.renew({ ...snapshot, upstreams })
    const prober = createProber({ health, backendFor })
    ending.push(prober.stop)
    prober.start()
    await count(1)
    await soon()
    expect(asked.map(({ id }) => id)).toEqual(['used'])
  })

  test('checks nothing if checks are off', async () => {
    const { asked, backendFor } = createAsked()
    const { prober } = setUp([toTarget()], { backendFor, intervalMs: 0 })
    prober.trigger()
    await soon()
    expect(asked).toEqual([])
  })
})

describe('later, it', () => {
  test('checks repeatedly, and never an upstream twice at once', async () => {
    const { asked, backendFor, count } = createAsked()
    const { prober } = setUp([toTarget()], { backendFor, intervalMs: 5 })
    await count(1)
    prober.trigger()
    await soon()
    expect(asked.length).toBe(1)
    asked[0]?.answer({ state: 'ready' })
    await count(2)
    asked[1]?.answer({ state: 'ready' })
    await count(3)
  })

  test('checks new and changed upstreams at once, and no others', async () => {
    const { asked, backendFor, count } = createAsked()
    const [same, moved] = [toTarget({ id: 'same' }), toTarget({ id: 'moved' })]
    const { change } = setUp([same, moved], { backendFor })
    await count(2)
    asked[0]?.answer({ state: 'ready' })
    await soon()
    change({ ...same }, toTarget({ id: 'moved', credential: 'new' }), toTarget({ id: 'fresh' }))
    await count(4)
    await soon()
    expect(asked.map(({ id }) => id)).toEqual(['same', 'moved', 'moved', 'fresh'])
  })

  test('ignores results for an upstream that has changed in between', async () => {
    const { asked, backendFor, count } = createAsked()
    const { change, health } = setUp([toTarget()], { backendFor })
    await count(1)
    const next = toTarget({ credential: 'new' })
    change(next)
    await count(2)
    expect(asked[0]?.signal.aborted).toBe(true)
    asked[0]?.answer({ state: 'down', reason: 'old' })
    await soon()
    expect(health.forRequest({ id: 'k1', teamId: null }).availability(next)).toBe('healthy')
  })

  test('survives a backend that throws, and checks it again', async () => {
    let calls = 0
    const errors: unknown[] = []
    const backendFor = () => ({
      probe() {
        calls++
        throw new TypeError('a bug of ours')
      },
    })
    const log = { error: (_: string, message: string, fields: object = {}) => void errors.push([message, fields]) }
    setUp([toTarget()], { backendFor, log, intervalMs: 5 })
    while (calls < 2) await Bun.sleep(5)
    expect(JSON.stringify(errors[0])).toContain('a bug of ours')
  })

  test('deprioritizes an upstream for a slow response, and nothing else', async () => {
    const { asked, backendFor, count } = createAsked()
    const target = toTarget()
    const { health, until } = setUp([target], { backendFor, timeoutMs: 20 })
    await count(1)
    const [question] = asked
    while (!question?.signal.aborted) await Bun.sleep(5)
    question.answer({ state: 'timeout', reason: '/models timed out' })
    await until('degraded', '/models timed out')
    const request = health.forRequest({ id: 'k1', teamId: null })
    expect([request.availability(target), request.enter(target)]).toEqual(['degraded', true])
  })

  test("doesn't take a stall of our own for silence", async () => {
    const upstream = await serve()
    const { until } = setUp([toTarget({ baseUrl: upstream.url })], { timeoutMs: 200 })
    await upstream.waitFor(() => upstream.probes.length > 0)
    const startMs = performance.now()
    while (performance.now() < startMs + 400);
    await until('healthy')
  })

  test('does nothing once it is stopped', async () => {
    const { asked, backendFor, count } = createAsked()
    const { prober, health } = setUp([toTarget()], { backendFor, intervalMs: 5 })
    await count(1)
    prober.stop()
    expect(asked[0]?.signal.aborted).toBe(true)
    asked[0]?.answer({ state: 'down', reason: 'stopped' })
    prober.trigger()
    await soon()
    expect([asked.length, health.states()[0]?.state]).toEqual([1, 'unknown'])
  })
})

describe("after a call that couldn't connect, it", () => {
  const failed = new UpstreamError('connection', 'could not be reached')
  const down: Readiness = { state: 'down', reason: 'connection refused' }
  const late: Readiness = { state: 'timeout', reason: '/models timed out' }

  /** A target whose checks the test answers at once, and their times. */
  function setUpAnswered(answer: (count: number) => Readiness, deps: Partial<ProberDeps> = {}) {
    const times: number[] = []
    const backendFor = () => ({
      async probe() {
        times.push(performance.now())
        return answer(times.length)
      },
    })
    const target = toTarget()
    const { health, until } = setUp([target], { backendFor, intervalMs: 0, ...deps })
    const fail = () => health.forRequest({ id: 'k1', teamId: null }).report(target, failed)
    return {
      fail,
      until,
      times,
      availability: () => health.forRequest({ id: 'k1', teamId: null }).availability(target),
    }
  }

  test('checks at once, and finds the upstream again when it is back', async () => {
    const upstream = await serve()
    const target = toTarget({ baseUrl: upstream.url })
    const { health, until } = setUp([target], { intervalMs: 0 })
    await upstream.stop()
    health.forRequest({ id: 'k1', teamId: null }).report(target, failed)
    await until('down', 'connection refused')
    expect(health.forRequest({ id: 'k1', teamId: null }).availability(target)).toBe('unavailable')
    await serve(upstream.port)
    await until('healthy')
    expect(health.forRequest({ id: 'k1', teamId: null }).availability(target)).toBe('healthy')
  })

  test('marks a silent host down after its own time limit, and finds it again when it is back', async () => {
    const upstream = await serve()
    upstream.scriptProbes({ kind: 'silent' })
    const target = toTarget({ baseUrl: upstream.url })
    const { health, until } = setUp([target], { intervalMs: 0, unreachedTimeoutMs: 50 })
    health.forRequest({ id: 'k1', teamId: null }).report(target, failed)
    await until('down', '/models timed out')
    expect(health.forRequest({ id: 'k1', teamId: null }).availability(target)).toBe('unavailable')
    await upstream.waitFor(() => upstream.probes.every(({ abortedAtMs }) => abortedAtMs !== null), 'probes to hang up')
    upstream.scriptProbes({ kind: 'whole', body: {} })
    await until('healthy')
  })

  test('checks again soon, at first: the upstream may only have been restarted', async () => {
    const { fail, until, times, availability } = setUpAnswered((count) => (count < 3 ? down : { state: 'unknown' }))
    fail()
    await until('down', 'connection refused')
    // Timers of one process fire in order, even on a busy machine.
    await Bun.sleep(1_200)
    expect([times.length, availability()]).toEqual([3, 'healthy'])
  })

  test.each([
    ['refuses', down],
    ['is silent', late],
  ])('checks less often the longer it stays away: it %s', async (_, found) => {
    const { fail, times } = setUpAnswered(() => found)
    fail()
    while (times.length < 4) await Bun.sleep(5)
    const pauses = times.slice(1).map((time, at) => time - (times[at] ?? 0))
    expect([245, 495, 995].every((ms, at) => (pauses[at] ?? 0) >= ms)).toBe(true)
  })

  test('checks four times per second at most, however often it is triggered', async () => {
    const { fail, times } = setUpAnswered(() => ({ state: 'unknown' }))
    const startMs = performance.now()
    for (let round = 0; round < 50; round++) {
      fail()
      await Bun.sleep(2)
    }
    expect(times.length).toBeGreaterThan(0)
    expect(times.length).toBeLessThanOrEqual(1 + (performance.now() - startMs) / 250)
  })

  test('checks again soon, once, after the first late response', async () => {
    const { until, times } = setUpAnswered(() => late, { intervalMs: 60_000 })
    await until('degraded', '/models timed out')
    await Bun.sleep(1_000)
    expect(times.length).toBe(2)
  })
})

test('a check uses a proxy as calls do, and never bypasses it', async () => {
  const upstream = await serve()
  const { port } = upstream
  const script = `
    import { createAllBackends } from './src/server/backends.ts'
    import { toTarget } from './test/support/snapshot.ts'
    const { upstream } = toTarget({ baseUrl: 'http://upstream.invalid/v1' })
    const readiness = await createAllBackends().openai.probe(upstream, new AbortController().signal)
    console.log(readiness.state)`
  const run = async (proxy: string) => {
    const env = { ...process.env, HTTP_PROXY: proxy, http_proxy: proxy }
    const child = Bun.spawn([process.execPath, '-e', script], { cwd: `${import.meta.dir}/../..`, env, stdout: 'pipe' })
    ending.push(() => child.kill('SIGKILL'))
    return (await new Response(child.stdout).text()).trim()
  }
  expect([await run(`http://127.0.0.1:${port}`), upstream.requests.length]).toEqual(['ready', 1])
  expect(await run('http://127.0.0.1:1')).toBe('down')
})

test('it does not keep a process alive', async () => {
  const script = `
    import { createHealth } from './src/health/health.ts'
    import { createProber } from './src/health/prober.ts'
    import { createAllBackends } from './src/server/backends.ts'
    import { toModel, toSnapshot, toTarget } from './test/support/snapshot.ts'
    const health = createHealth({ nowMs: () => 0, wallMs: () => 0 })
    const target = toTarget()
    health.renew({ ...toSnapshot([toModel('a/b', [target])]), upstreams: new Map([['paid', target.upstream]]) })
    createProber({ health, backendFor: () => createAllBackends().openai }).start()
    await Bun.sleep(100)`
  const child = Bun.spawn([process.execPath, '-e', script], { cwd: `${import.meta.dir}/../..` })
  ending.push(() => child.kill('SIGKILL'))
  expect(await child.exited).toBe(0)
})
