/** How calls and checks determine a target's availability: tables of events, on the test's clock. */
import { describe, expect, test } from 'bun:test'
import { UpstreamError } from '../../src/domain/error.ts'
import type { Target, Upstream } from '../../src/domain/snapshot.ts'
import { type Availability, type CallNews, createHealth } from '../../src/health/health.ts'
import type { Readiness } from '../../src/upstreams/backend.ts'
import { UNAFFORDABLE_CODE } from '../../src/upstreams/failure.ts'
import { toModel, toSnapshot, toTarget } from '../support/snapshot.ts'

const WALL_MS = Date.UTC(2026, 10, 21)

const status = (code: number, retryAfterMs?: number) =>
  new UpstreamError('status', 'their words', { status: code, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) })
const deadline = (name: string) => new UpstreamError('deadline', `${name} timeout (1 s)`, { deadline: name })
const refused = new UpstreamError('connection', 'is unreachable or closed the connection (ECONNREFUSED)')
const broken = new UpstreamError('broken', 'ended its stream before the response was complete')
const aborted = new UpstreamError('aborted', 'the client left')
const noFiles = new UpstreamError('connection', 'could not be reached', {
  cause: Object.assign(new Error(), { code: 'EMFILE' }),
})

function setUp(fields: Partial<Upstream> = {}) {
  let ms = 1_000
  const lines: string[] = []
  const write =
    (level: string) =>
    (_: string, message: string, more: object = {}) =>
      void lines.push(`${level} ${message} ${JSON.stringify(more)}`)
  let kicks = 0
  const known = createHealth({
    nowMs: () => ms,
    wallMs: () => WALL_MS + ms,
    log: { info: write('info'), warn: write('warn') },
    onUnreached: () => void kicks++,
  })
  const ask = (keyId = 'k1') => known.forRequest({ id: keyId, teamId: null })
  /** State for a new request each time. */
  const health = {
    ...known,
    unreached: () =>
      known
        .inUse()
        .filter((state) => state.isInDoubt())
        .map(({ upstream }) => upstream),
    availability: (at: Target) => ask().availability(at),
    enter: (at: Target) => ask().enter(at),
    report: (at: Target, news: CallNews) => ask().report(at, news),
    whyUnavailable: (at: Target) => ask().whyUnavailable(at),
  }
  const target = toTarget(fields)
  const renew = (...targets: Target[]) =>
    health.renew({
      ...toSnapshot([toModel('acme/large', targets)]),
      upstreams: new Map(targets.map(({ upstream }) => [upstream.id, upstream])),
    })
  renew(target)
  const fail = (times: number, end: CallNews = status(500), at = target) => {
    for (let each = 0; each < times; each++) health.report(at, end)
  }
  const pass = (byMs: number) => {
    ms += byMs
  }
  const stateOf = (id = 'paid') => health.states().find((state) => state.id === id)
  /** An admitted request: the probe if the breaker is half-open. */
  const enter = (keyId = 'k1', at = target) => {
    const request = ask(keyId)
    expect(request.enter(at)).toBe(true)
    return request
  }
  return { health, target, renew, ask, enter, fail, pass, lines, stateOf, kicks: () => kicks }
}

describe('the breaker', () => {
  test('opens for an upstream that begins every response and interrupts it', () => {
    const { health, target, enter } = setUp()
    for (let each = 0; each < 5; each++) {
      const request = enter()
      request.report(target, 'begun')
      request.report(target, broken)
    }
    expect(health.availability(target)).toBe('unavailable')
  })

  test('closes as soon as its probe begins to respond, and reopens at the next failure', () => {
    const { health, target, enter, fail, pass } = setUp()
    fail(5)
    pass(10_000)
    const probe = enter()
    probe.report(target, 'begun')
    expect(health.availability(target)).toBe('healthy')
    probe.report(target, broken)
    expect(health.availability(target)).toBe('unavailable')
  })

  test('stays open if a response and its failure arrived together, and is logged once', () => {
    const { health, target, ask, pass, lines } = setUp()
    for (let round = 0; round < 3; round++) {
      for (let each = 0; each < 5; each++) {
        const request = ask()
        if (!request.enter(target)) continue
        request.report(target, broken)
        request.report(target, 'begun')
      }
      expect(health.availability(target)).toBe('unavailable')
      pass(10_000)
    }
    expect(lines).toHaveLength(1)
  })

  test.each([
    ['a refused connection', refused],
    ['a deadline', deadline('idle')],
    ['a broken answer', broken],
    ['a 500', status(500)],
    ['a 503', status(503)],
    ['a 529', status(529)],
  ])('opens after five in a row of %s, and not before', (_, end) => {
    const { health, target, fail } = setUp()
    fail(4, end)
    expect([health.availability(target), health.enter(target), health.whyUnavailable(target)]).toEqual([
      'healthy',
      true,
      null,
    ])
    fail(1, end)
    expect([health.availability(target), health.enter(target)]).toEqual(['unavailable', false])
  })

  test.each([
    ['a 400', status(400)],
    ['a 408', status(408)],
    ['a 429', status(429)],
    ['a client that left', aborted],
    ['a call that was given up', 'aborted' as const],
    ['a process without files', noFiles],
  ])('neither counts %s nor restarts with it', (_, end) => {
    const { health, target, fail } = setUp()
    fail(20, end)
    expect(health.availability(target)).toBe('healthy')
    fail(4)
    fail(1, end)
    expect(health.availability(target)).toBe('healthy')
    fail(1)
    expect(health.availability(target)).toBe('unavailable')
  })

  test('starts again with a response', () => {
    const { health, target, fail } = setUp()
    fail(4)
    health.report(target, 'ok')
    fail(4)
    expect(health.availability(target)).toBe('healthy')
  })

  test('says why, and for how long', () => {
    const { health, target, fail, pass } = setUp()
    fail(4)
    fail(1, status(503))
    const reason = 'its last 5 calls to `paid` failed, most recently: status 503'
    expect(health.whyUnavailable(target)).toEqual({ reason, retryAfterMs: 10_000 })
    pass(9_500)
    expect(health.whyUnavailable(target)).toEqual({ reason, retryAfterMs: 1_000 })
    pass(500)
    expect(health.whyUnavailable(target)).toBeNull()
  })

  test('gives the reason without quoting an upstream at length', () => {
    const { health, target, fail } = setUp()
    fail(5, new UpstreamError('broken', `answered a stream with ${'x'.repeat(5_000)}`))
    expect(health.whyUnavailable(target)?.reason.length).toBeLessThan(200)
  })

  test('lets one call through after 10 s, and the others after its success', () => {
    const { health, target, enter, fail, pass } = setUp()
    fail(5)
    pass(9_999)
    expect(health.enter(target)).toBe(false)
    pass(1)
    expect(health.availability(target)).toBe('healthy')
    const probe = enter()
    expect(health.enter(target)).toBe(false)
    expect([health.availability(target), health.whyUnavailable(target)?.retryAfterMs]).toEqual(['degraded', 1_000])
    probe.report(target, 'ok')
    expect([health.availability(target), health.enter(target), health.enter(target)]).toEqual(['healthy', true, true])
    fail(4)
    expect(health.availability(target)).toBe('healthy')
  })

  test('opens for another 10 s if the probe fails', () => {
    const { health, target, enter, fail, pass } = setUp()
    fail(5)
    pass(10_000)
    enter().report(target, broken)
    expect(health.whyUnavailable(target)).toMatchObject({ retryAfterMs: 10_000 })
    pass(9_999)
    expect([health.availability(target), health.enter(target)]).toEqual(['unavailable', false])
    pass(1)
    expect([health.availability(target), health.enter(target)]).toEqual(['healthy', true])
  })

  test("isn't kept open by earlier calls", () => {
    const { health, target, fail, pass } = setUp()
    fail(5)
    pass(9_000)
    fail(30)
    pass(1_000)
    fail(1)
    expect(health.enter(target)).toBe(true)
  })

  test.each([
    ['was given up', 'aborted' as const],
    ['ended with its client', aborted],
    ['was refused for what it asked', status(400)],
  ])('allows another probe as soon as one %s', (_, end) => {
    const { health, target, enter, fail, pass } = setUp()
    fail(5)
    pass(10_000)
    enter().report(target, end)
    expect([health.availability(target), health.enter(target), health.enter(target)]).toEqual(['healthy', true, false])
  })

  test('allows another probe if one is silent for 10 s, and still accepts its result', () => {
    const { health, target, enter, fail, pass } = setUp()
    fail(5)
    pass(10_000)
    const probe = enter()
    pass(9_999)
    expect(health.enter(target)).toBe(false)
    pass(1)
    expect([health.enter(target), health.enter(target)]).toEqual([true, false])
    probe.report(target, 'ok')
    expect(health.availability(target)).toBe('healthy')
  })

  test('has its probe at its own position, and other requests after its neighbors', () => {
    const { health, target, fail, pass } = setUp()
    fail(5)
    pass(9_999)
    expect(health.availability(target)).toBe('unavailable')
    pass(1)
    expect([health.availability(target), health.enter(target), health.availability(target)]).toEqual([
      'healthy',
      true,
      'degraded',
    ])
  })

  test('gets another probe at its own position if the last one is silent for 10 s', () => {
    const { health, target, fail, pass } = setUp()
    fail(5)
    pass(20_000)
    health.enter(target)
    pass(9_999)
    expect(health.availability(target)).toBe('degraded')
    pass(1)
    expect([health.availability(target), health.enter(target)]).toEqual(['healthy', true])
  })

  test("doesn't admit many probes if many older calls are aborted", () => {
    const { health, target, fail, pass } = setUp()
    fail(5)
    pass(10_000)
    let probes = 0
    for (let each = 0; each < 50; each++) {
      if (health.enter(target)) probes++
      health.report(target, 'aborted')
    }
    expect(probes).toBe(1)
  })

  test('counts a request once, whatever its retries and calls', () => {
    const { health, target, ask, fail } = setUp()
    fail(3)
    const request = ask()
    for (let each = 0; each < 20; each++) request.report(target, status(500))
    expect(health.availability(target)).toBe('healthy')
    fail(1)
    expect(health.availability(target)).toBe('unavailable')
    // Other targets aren't affected.
    const other = toTarget({ id: 'other' })
    request.report(other, status(500))
    fail(4, status(500), other)
    expect(health.availability(other)).toBe('unavailable')
  })

  test('reopens for a half-open probe whose request was counted before', () => {
    const { health, target, ask, fail, pass } = setUp()
    const request = ask()
    request.report(target, status(500))
    fail(4)
    pass(10_000)
    expect(request.enter(target)).toBe(true)
    request.report(target, status(500))
    expect(health.availability(target)).toBe('unavailable')
  })

  test('is shared by all models with the same upstream model, and separate for others', () => {
    const { health, target, fail } = setUp()
    fail(5)
    const same = { ...toTarget(), model: 'acme/alias' }
    const other = { ...toTarget(), upstreamModel: 'small-v1' }
    const elsewhere = toTarget({ id: 'other' })
    expect([same, other, elsewhere].map(health.availability)).toEqual(['unavailable', 'healthy', 'healthy'])
    health.report(same, 'ok')
    expect(health.availability(target)).toBe('healthy')
  })
})

describe('the breaker of a key', () => {
  test('opens for that key only: others continue', () => {
    const { health, target, ask, fail, stateOf } = setUp()
    fail(8)
    expect([health.availability(target), ask('k2').availability(target)]).toEqual(['unavailable', 'healthy'])
    expect([ask('k2').enter(target), ask('k2').whyUnavailable(target)]).toEqual([true, null])
    expect(stateOf()?.targets).toMatchObject([{ breaker: 'open', open_for_keys: 1, failures_in_a_row: 5 }])
  })

  test('opens for everyone as soon as a second key fails in that row', () => {
    const { target, ask, fail, stateOf } = setUp()
    fail(5)
    ask('k2').report(target, status(500))
    expect([ask('k1'), ask('k2'), ask('k3')].map((each) => each.availability(target))).toEqual(
      Array(3).fill('unavailable'),
    )
    expect(stateOf()?.targets).toMatchObject([{ breaker: 'open', open_for_keys: null, failures_in_a_row: 6 }])
  })

  test.each<[string, Readiness]>([
    ['an error', { state: 'degraded', reason: '/models returned 503' }],
    ['no answer in time', { state: 'timeout', reason: 'late' }],
  ])('opens for everyone as soon as a free check fails, too, before or after: %s', (_, found) => {
    for (const isBefore of [true, false]) {
      const { health, target, ask, fail } = setUp()
      if (isBefore) health.probed(target.upstream, found)
      fail(5)
      if (!isBefore) health.probed(target.upstream, found)
      expect(ask('k2').availability(target)).toBe('unavailable')
    }
  })

  test("isn't opened for everyone by a check that succeeded or was rejected", () => {
    const { health, target, ask, fail } = setUp()
    fail(5)
    for (const state of ['ready', 'unknown'] as const) health.probed(target.upstream, { state })
    health.probed(target.upstream, { state: 'refused', reason: '/models returned 401', isWrong: true })
    expect(ask('k2').availability(target)).toBe('degraded')
  })
})

describe("an upstream's rejection", () => {
  test.each([
    [401, 'degraded', 'degraded', 'degraded'],
    [402, 'degraded', 'degraded', 'degraded'],
    [403, 'degraded', 'healthy', 'healthy'],
    [404, 'degraded', 'healthy', 'healthy'],
    [405, 'degraded', 'healthy', 'healthy'],
    [400, 'healthy', 'healthy', 'healthy'],
    [409, 'healthy', 'healthy', 'healthy'],
    [422, 'healthy', 'healthy', 'healthy'],
  ] as [number, Availability, Availability, Availability][])(
    'with %d makes its target %s for the key, its other models %s, and the target for other keys %s, for 60 s',
    (...row) => {
      const [code, ofTarget, ofOther, forOthers] = row
      const { health, ask, target, pass } = setUp()
      const other = { ...toTarget(), upstreamModel: 'small-v1' }
      health.report(target, status(code))
      expect([target, other].map(health.availability)).toEqual([ofTarget, ofOther])
      expect(ask('k2').availability(target)).toBe(forOthers)
      // It is still called: there may be no other.
      expect([health.enter(target), health.enter(target), health.whyUnavailable(target)]).toEqual([true, true, null])
      pass(60_000)
      expect([target, other].map(health.availability)).toEqual(['healthy', 'healthy'])
    },
  )

  test.each([401, 402, 404])('with %d is forgotten with a response, but not with a check, which is no chat', (code) => {
    const { health, target, lines } = setUp()
    health.report(target, status(code))
    health.report(target, 'ok')
    expect(health.availability(target)).toBe('healthy')
    lines.splice(0)
    for (let each = 0; each < 3; each++) {
      health.report(target, status(code))
      health.probed(target.upstream, { state: 'ready' })
      expect(health.availability(target)).toBe('degraded')
    }
    expect(lines).toHaveLength(1)
  })

  test('with 403 deprioritizes it for every key if its last check was rejected and no recent call succeeded', () => {
    const { health, ask, target, pass } = setUp()
    const forOthers = () => ask('k2').availability(target)
    const mayNot: Readiness = { state: 'refused', reason: '/models returned 403', isWrong: false }
    health.probed(target.upstream, mayNot)
    expect(forOthers()).toBe('healthy')
    health.report(target, status(404))
    ask('k3').report(target, 'ok')
    health.report(target, status(403))
    expect(forOthers()).toBe('healthy')
    pass(60_000)
    health.report(target, status(403))
    expect(forOthers()).toBe('degraded')
  })

  test("doesn't count if one request may cost more than the balance: smaller ones still go to it", () => {
    const { health, target } = setUp()
    health.report(target, new UpstreamError('status', 'pay', { status: 402, code: UNAFFORDABLE_CODE }))
    expect(health.availability(target)).toBe('healthy')
    health.report(target, status(402))
    expect(health.availability(target)).toBe('degraded')
  })

  test('is its state, which is neither healthy nor down', () => {
    const { health, target, stateOf, pass } = setUp()
    health.report(target, status(402))
    expect(stateOf()).toMatchObject({ state: 'refused', reason: expect.stringMatching(/^returned 402: /) })
    pass(60_000)
    health.probed(target.upstream, { state: 'ready' })
    expect(stateOf()).toMatchObject({ state: 'refused' })
    health.report(target, 'ok')
    expect(stateOf()).toMatchObject({ state: 'healthy', reason: null })
    pass(60_000)
    health.probed(target.upstream, { state: 'refused', reason: '/models returned 401', isWrong: true })
    expect(stateOf()).toMatchObject({ state: 'refused', reason: '/models returned 401' })
    health.probed(target.upstream, { state: 'ready' })
    expect(stateOf()).toMatchObject({ state: 'healthy', reason: null })
  })

  test('fails once its breaker opens for any key, until a call succeeds', () => {
    const { health, ask, fail, target, pass, stateOf } = setUp()
    fail(5)
    pass(3_600_000)
    health.probed(target.upstream, { state: 'ready' })
    expect(stateOf()).toMatchObject({ state: 'failing', reason: 'its last calls failed: status 500' })
    ask('k2').report(target, 'ok')
    expect(stateOf()).toMatchObject({ state: 'healthy', reason: null })
  })

  test('is in its state, in our words and not its own', () => {
    const { health, target, stateOf } = setUp()
    health.report(target, status(404))
    const why = "returned 404: base_url, or the route's model, not found at the provider"
    expect(stateOf()?.targets).toMatchObject([{ reason: `${why} (for one key)` }])
    health.report(target, status(401))
    expect(stateOf()?.reason).toBe('returned 401: missing or invalid api_key')
  })

  test.each([
    [5_000, 5_000],
    [3_600_000, 60_000],
    [Number.POSITIVE_INFINITY, 60_000],
  ])('for a pause of %d ms is degraded for %d ms, whatever the results of other calls', (asked, lasts) => {
    const { health, target, pass } = setUp()
    health.report(target, status(429, asked))
    health.report(target, 'ok')
    pass(lasts - 1)
    expect([health.availability(target), health.enter(target)]).toEqual(['degraded', true])
    pass(1)
    expect(health.availability(target)).toBe('healthy')
  })
})

describe('the result of a check', () => {
  const refusal: Readiness = { state: 'refused', reason: '/models returned 401', isWrong: true }
  const failing: Readiness = { state: 'degraded', reason: '/models returned 503' }
  const late: Readiness = { state: 'timeout', reason: '/models timed out' }

  test.each([
    ['a refusal', refusal, 'degraded'],
    ['an error', failing, 'healthy'],
    ['no answer in time', late, 'healthy'],
  ] as [string, Readiness, Availability][])('puts it behind others until a call or a probe goes well: %s', (...row) => {
    const [, found, afterAnswer] = row
    const { health, target, pass } = setUp()
    const ends: [() => void, Availability][] = [
      [() => health.report(target, 'ok'), 'healthy'],
      [() => health.probed(target.upstream, { state: 'ready' }), 'healthy'],
      [() => health.probed(target.upstream, { state: 'unknown' }), afterAnswer],
      [() => pass(60_000), 'healthy'],
    ]
    for (const [end, expected] of ends) {
      health.probed(target.upstream, found)
      expect([health.availability(target), health.enter(target)]).toEqual(['degraded', true])
      end()
      expect(health.availability(target)).toBe(expected)
      pass(60_000)
    }
  })

  test.each([refusal, failing, late])("doesn't count against an upstream that serves chats: %j", (found) => {
    const { health, target, pass, lines } = setUp()
    for (let round = 0; round < 3; round++) {
      health.report(target, 'ok')
      pass(59_999)
      health.probed(target.upstream, found)
      expect(health.availability(target)).toBe('healthy')
    }
    expect(lines).toEqual([])
  })

  test("doesn't count if our own files ran out", () => {
    const { health, target, fail, stateOf } = setUp()
    const none: Readiness = { state: 'not_made', reason: 'no files are left' }
    health.probed(target.upstream, none)
    expect(stateOf()).toMatchObject({ state: 'unknown', reason: null })
    fail(1, refused)
    health.probed(target.upstream, none)
    expect<unknown[]>([health.availability(target), health.unreached()]).toEqual(['healthy', [target.upstream]])
    health.probed(target.upstream, { state: 'down', reason: 'connection refused' })
    health.probed(target.upstream, none)
    expect(health.availability(target)).toBe('unavailable')
  })
})

describe('a check without a timely response', () => {
  const late: Readiness = { state: 'timeout', reason: '/models timed out' }

  test('is repeated soon if calls succeed, and counts if the next one is late, too', () => {
    const { health, target } = setUp()
    health.report(target, 'ok')
    health.probed(target.upstream, late)
    expect<unknown[]>([health.availability(target), health.unreached()]).toEqual(['healthy', [target.upstream]])
    health.probed(target.upstream, { state: 'unknown' })
    expect(health.unreached()).toEqual([])
    health.probed(target.upstream, late)
    health.report(target, 'ok')
    health.probed(target.upstream, late)
    expect(health.availability(target)).toBe('healthy')
    health.probed(target.upstream, late)
    expect([health.availability(target), health.enter(target)]).toEqual(['degraded', true])
  })

  test('never takes out an upstream whose calls get responses', () => {
    const { health, target } = setUp()
    for (let each = 0; each < 20; each++) health.probed(target.upstream, late)
    expect([health.availability(target), health.enter(target), health.unreached()]).toEqual(['degraded', true, []])
  })

  test("means a dead host if calls got no response either, and the next check doesn't", () => {
    const { health, target, fail, stateOf } = setUp()
    health.report(target, 'ok')
    fail(1, deadline('headers'))
    health.probed(target.upstream, late)
    expect(health.availability(target)).toBe('degraded')
    health.probed(target.upstream, late)
    expect(health.availability(target)).toBe('unavailable')
    const why = health.whyUnavailable(target)?.reason
    expect(why).toBe('upstream `paid` is down: /models timed out')
    health.probed(target.upstream, { state: 'ready' })
    expect([health.availability(target), stateOf()?.state]).toEqual(['healthy', 'healthy'])
  })

  test('is forgotten with a response that has begun', () => {
    const { health, target, fail } = setUp()
    fail(1, deadline('headers'))
    health.probed(target.upstream, late)
    health.report(target, 'begun')
    health.probed(target.upstream, late)
    expect([health.availability(target), health.enter(target)]).toEqual(['degraded', true])
  })

  test("doesn't raise an upstream that is down", () => {
    const { health, target } = setUp()
    health.probed(target.upstream, { state: 'down', reason: 'connection refused' })
    health.probed(target.upstream, late)
    expect(health.availability(target)).toBe('unavailable')
  })
})

describe('an upstream that is down', () => {
  const down: Readiness = { state: 'down', reason: 'connection refused' }

  test('takes out all its targets, and gives the reason', () => {
    const { health, target } = setUp()
    const other = { ...toTarget(), upstreamModel: 'small-v1' }
    health.probed(target.upstream, down)
    for (const each of [target, other]) {
      expect([health.availability(each), health.enter(each)]).toEqual(['unavailable', false])
      const why = health.whyUnavailable(each)
      expect(why?.reason).toBe('upstream `paid` is down: connection refused')
      expect(why?.retryAfterMs).toBeGreaterThanOrEqual(1_000)
    }
    expect(health.availability(toTarget({ id: 'other' }))).toBe('healthy')
  })

  test.each([
    ['a probe that finds it ready', { state: 'ready' }, 'healthy'],
    ['a probe that it answers', { state: 'unknown' }, 'healthy'],
    ['a probe that it refuses', { state: 'refused', reason: '/models returned 401', isWrong: true }, 'degraded'],
  ] as [string, Readiness, Availability][])('is up again with %s', (_, readiness, expected) => {
    const { health, target } = setUp()
    health.probed(target.upstream, down)
    health.probed(target.upstream, readiness)
    expect(health.availability(target)).toBe(expected)
  })

  test('is up again after a successful call', () => {
    const { health, target } = setUp()
    health.probed(target.upstream, down)
    health.report(target, 'ok')
    expect([health.availability(target), health.unreached()]).toEqual(['healthy', []])
  })

  test('is tried again if no check reaches it', () => {
    const { health, target, pass } = setUp()
    health.probed(target.upstream, down)
    pass(15_000)
    expect(health.availability(target)).toBe('unavailable')
    pass(15_000)
    expect([health.availability(target), health.enter(target), health.whyUnavailable(target)]).toEqual([
      'healthy',
      true,
      null,
    ])
  })
})

test('the breakers of a recovered upstream each get a half-open probe at once', () => {
  const { health, target, enter, fail } = setUp()
  fail(5, refused)
  health.probed(target.upstream, { state: 'down', reason: 'connection refused' })
  expect(health.availability(target)).toBe('unavailable')
  health.probed(target.upstream, { state: 'unknown' })
  expect(health.availability(target)).toBe('healthy')
  const probe = enter()
  expect(health.enter(target)).toBe(false)
  probe.report(target, 'begun')
  expect(health.availability(target)).toBe('healthy')
})

describe('the prober is triggered', () => {
  test.each([
    ['refused its connection', refused, 1],
    ['sent no headers in time', deadline('headers'), 1],
    ['gave no whole answer in time', deadline('total_whole'), 1],
    ['fell silent in the middle', deadline('idle'), 0],
    ['returned 503', status(503), 0],
    ['was not called for want of files', noFiles, 0],
  ])('at an upstream that %s', (_, end, expected) => {
    const { health, target, fail, kicks } = setUp()
    fail(3, end)
    expect([health.unreached().length, kicks()]).toEqual([expected, expected])
    health.probed(target.upstream, { state: 'down', reason: 'connection refused' })
    expect(health.unreached()).toEqual([target.upstream])
    health.probed(target.upstream, { state: 'unknown' })
    expect(health.unreached()).toEqual([])
  })

  test('but never for the demo, which has no address', () => {
    const { health, fail } = setUp({ dialect: 'demo', baseUrl: null })
    fail(1, refused)
    expect(health.unreached()).toEqual([])
  })
})

describe('a new configuration', () => {
  test('keeps the state of an unchanged upstream', () => {
    const { health, renew, fail } = setUp()
    fail(5)
    const next = toTarget({ deadlines: { ...toTarget().upstream.deadlines, headers: 1 } })
    renew(next)
    expect(health.availability(next)).toBe('unavailable')
    health.probed(next.upstream, { state: 'down', reason: 'no' })
    expect(health.unreached()[0]).toBe(next.upstream)
  })

  test.each([[{ baseUrl: 'http://127.0.0.1:2/v1' }], [{ credential: 'another' }], [{ dialect: 'demo' as const }]])(
    "forgets the state of one that changes to %j, and results of calls to the old one don't count",
    (fields) => {
      const { health, target, renew, fail, stateOf } = setUp()
      fail(5)
      health.probed(target.upstream, { state: 'down', reason: 'no' })
      const next = toTarget(fields)
      renew(next)
      expect<unknown[]>([health.availability(next), health.unreached(), stateOf()?.last_error]).toEqual([
        'healthy',
        [],
        null,
      ])
      fail(5)
      fail(5, status(401), { ...target })
      health.probed(target.upstream, { state: 'down', reason: 'no' })
      expect<unknown[]>([health.availability(next), health.unreached(), stateOf()?.last_error]).toEqual([
        'healthy',
        [],
        null,
      ])
    },
  )

  test('forgets removed upstreams, and later results about them', () => {
    const { health, target, renew, fail } = setUp()
    fail(1, refused)
    renew(toTarget({ id: 'other' }))
    health.report({ ...target }, refused)
    health.probed(target.upstream, { state: 'timeout', reason: 'late' })
    expect<unknown[]>([health.unreached(), health.states().map(({ id }) => id)]).toEqual([[], ['other']])
    renew(target)
    expect(health.states()).toMatchObject([{ id: 'paid', last_error: null }])
  })
})

describe('the state of an upstream', () => {
  test('begins as unknown, and reports what happened', () => {
    const { health, target, renew, fail, pass, stateOf } = setUp()
    const small = { ...toTarget(), upstreamModel: 'small-v1' }
    renew(target, small)
    expect(stateOf()).toEqual({
      id: 'paid',
      state: 'unknown',
      reason: null,
      suspended: [],
      last_ok_ms: null,
      last_error: null,
      targets: ['large-v1', 'small-v1'].map((upstream_model) => ({
        model: 'acme/large',
        upstream_model,
        breaker: 'closed',
        open_for_keys: null,
        failures_in_a_row: 0,
        retry_in_ms: null,
        reason: null,
      })),
    })
    health.report(small, 'ok')
    fail(5, status(500))
    pass(4_000)
    expect(stateOf()).toMatchObject({
      state: 'healthy',
      last_ok_ms: WALL_MS + 1_000,
      last_error: { message: 'status 500: their words', at_ms: WALL_MS + 1_000 },
      targets: [
        { breaker: 'open', open_for_keys: 1, failures_in_a_row: 5, retry_in_ms: 6_000 },
        { breaker: 'closed', failures_in_a_row: 0 },
      ],
    })
    pass(6_000)
    expect(stateOf()?.targets[0]).toMatchObject({ breaker: 'half_open', retry_in_ms: 0 })
    health.probed(target.upstream, { state: 'down', reason: 'connection refused' })
    expect(stateOf()).toMatchObject({ state: 'down', reason: 'connection refused' })
  })

  test('is not ready without its credential, and gives the reason', () => {
    const { stateOf } = setUp({ notReady: 'the variable X is not set on the server' })
    expect(stateOf()).toMatchObject({ state: 'not_ready', reason: 'the variable X is not set on the server' })
  })

  test.each([400, 422])("doesn't have a client’s %d as the last error", (code) => {
    const { health, target, stateOf } = setUp()
    health.report(target, status(code))
    expect(stateOf()?.last_error).toBeNull()
  })

  test('masks possible keys in the upstream’s text, and shortens it', () => {
    const { health, target, stateOf } = setUp()
    const words = `sk-abcdefghijklmnopqrstuvwxyz ${'x'.repeat(5_000)}`
    health.report(target, new UpstreamError('status', words, { status: 500 }))
    const { message = '' } = stateOf()?.last_error ?? {}
    expect(message).not.toContain('abcdefghijkl')
    expect(message.length).toBeLessThan(500)
  })
})

describe('the log', () => {
  test('has a line per change, and none per call', () => {
    const { health, target, ask, enter, fail, pass, lines } = setUp()
    fail(3)
    health.report(target, 'ok')
    expect(lines).toEqual([])
    fail(9)
    pass(10_000)
    enter().report(target, status(500))
    pass(10_000)
    enter().report(target, 'ok')
    expect(lines.splice(0)).toEqual([
      'warn circuit breaker opened {"upstream":"paid","model":"large-v1","key":"k1","reason":"status 500"}',
      'info circuit breaker closed {"upstream":"paid","model":"large-v1","key":"k1"}',
    ])
    for (let each = 0; each < 4; each++) for (const key of ['k1', 'k2']) ask(key).report(target, status(500))
    pass(20_000)
    enter('k2').report(target, 'ok')
    expect(lines.splice(0)).toEqual([
      'warn circuit breaker opened {"upstream":"paid","model":"large-v1","reason":"status 500"}',
      'info circuit breaker closed {"upstream":"paid","model":"large-v1"}',
    ])
    for (let each = 0; each < 3; each++) {
      health.probed(target.upstream, { state: 'down', reason: 'connection refused' })
      pass(30_000)
    }
    for (let each = 0; each < 3; each++) health.probed(target.upstream, { state: 'ready' })
    fail(3, status(401))
    health.report(target, 'ok')
    health.report(target, 'ok')
    expect(lines).toEqual([
      'warn upstream is down {"upstream":"paid","host":"127.0.0.1:1","reason":"connection refused"}',
      'info upstream is up again {"upstream":"paid"}',
      'warn upstream deprioritized {"upstream":"paid","reason":"returned 401: missing or invalid api_key"}',
      'info upstream no longer deprioritized {"upstream":"paid"}',
    ])
  })
})
