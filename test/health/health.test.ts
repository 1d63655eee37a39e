/** How calls and probes add up to the standing of a target: tables of events, with a clock that the test moves. */
import { describe, expect, test } from 'bun:test'
import { UpstreamError } from '../../src/domain/error.ts'
import type { Target, Upstream } from '../../src/domain/snapshot.ts'
import { type CallNews, createHealth, type Standing } from '../../src/health/health.ts'
import type { Readiness } from '../../src/upstreams/backend.ts'
import { toModel, toSnapshot, toTarget } from '../support/snapshot.ts'

const WALL_MS = Date.UTC(2026, 10, 21)

const status = (code: number, retryAfterMs?: number) =>
  new UpstreamError('status', 'their words', { status: code, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) })
const deadline = (name: string) =>
  new UpstreamError('deadline', `the ${name} deadline of 1 s passed`, { deadline: name })
const refused = new UpstreamError('connection', 'could not be reached or broke the connection (ECONNREFUSED)')
const broken = new UpstreamError('broken', 'ended its stream in the middle of the answer')
const aborted = new UpstreamError('aborted', 'the client left')
const noFiles = new UpstreamError('connection', 'could not be reached', {
  cause: Object.assign(new Error(), { code: 'EMFILE' }),
})

function setUp(fields: Partial<Upstream> = {}) {
  let ms = 1_000
  const lines: string[] = []
  const write = (level: string) => (message: string, more: object) =>
    void lines.push(`${level} ${message} ${JSON.stringify(more)}`)
  let kicks = 0
  const health = createHealth({
    nowMs: () => ms,
    wallMs: () => WALL_MS + ms,
    log: { info: write('info'), warn: write('warn') },
    onUnreached: () => void kicks++,
  })
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
  return { health, target, renew, fail, pass, lines, stateOf, kicks: () => kicks }
}

describe('the breaker', () => {
  test('opens for an upstream that begins every answer and breaks it off', () => {
    const { health, target, fail } = setUp()
    for (let each = 0; each < 5; each++) {
      expect(health.enter(target)).toBe(true)
      health.report(target, 'begun')
      fail(1, broken)
    }
    expect(health.standing(target)).toBe('out')
  })

  test('closes as soon as its trial has begun to answer, and opens again at the next failure', () => {
    const { health, target, fail, pass } = setUp()
    fail(5)
    pass(10_000)
    expect(health.enter(target)).toBe(true)
    health.report(target, 'begun')
    expect(health.standing(target)).toBe('well')
    fail(1, broken)
    expect(health.standing(target)).toBe('out')
  })

  test('stays open where an answer and its failure came at once, and says so once', () => {
    const { health, target, pass, lines } = setUp()
    for (let round = 0; round < 3; round++) {
      for (let each = 0; each < 5; each++) {
        if (!health.enter(target)) continue
        health.report(target, broken)
        health.report(target, 'begun')
      }
      expect(health.standing(target)).toBe('out')
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
    expect([health.standing(target), health.enter(target), health.whyOut(target)]).toEqual(['well', true, null])
    fail(1, end)
    expect([health.standing(target), health.enter(target)]).toEqual(['out', false])
  })

  test.each([
    ['a 400', status(400)],
    ['a 408', status(408)],
    ['a 429', status(429)],
    ['a client that left', aborted],
    ['a call that was given up', 'given_up' as const],
    ['a process without files', noFiles],
  ])('neither counts %s nor begins anew with it', (_, end) => {
    const { health, target, fail } = setUp()
    fail(20, end)
    expect(health.standing(target)).toBe('well')
    fail(4)
    fail(1, end)
    expect(health.standing(target)).toBe('well')
    fail(1)
    expect(health.standing(target)).toBe('out')
  })

  test('begins anew with an answer', () => {
    const { health, target, fail } = setUp()
    fail(4)
    health.report(target, 'ok')
    fail(4)
    expect(health.standing(target)).toBe('well')
  })

  test('says why, and for how long', () => {
    const { health, target, fail, pass } = setUp()
    fail(4)
    fail(1, status(503))
    const reason = 'its last 5 calls to `paid` failed, the last one with: status 503'
    expect(health.whyOut(target)).toEqual({ reason, retryAfterMs: 10_000 })
    pass(9_500)
    expect(health.whyOut(target)).toEqual({ reason, retryAfterMs: 1_000 })
    pass(500)
    expect(health.whyOut(target)).toBeNull()
  })

  test('says so without quoting at length what an upstream sent', () => {
    const { health, target, fail } = setUp()
    fail(5, new UpstreamError('broken', `answered a stream with ${'x'.repeat(5_000)}`))
    expect(health.whyOut(target)?.reason.length).toBeLessThan(200)
  })

  test('lets one call through after 10 s, and the others once that went well', () => {
    const { health, target, fail, pass } = setUp()
    fail(5)
    pass(9_999)
    expect(health.enter(target)).toBe(false)
    pass(1)
    expect([health.standing(target), health.enter(target), health.enter(target)]).toEqual(['doubtful', true, false])
    expect([health.standing(target), health.whyOut(target)?.retryAfterMs]).toEqual(['doubtful', 1_000])
    health.report(target, 'ok')
    expect([health.standing(target), health.enter(target), health.enter(target)]).toEqual(['well', true, true])
    fail(4)
    expect(health.standing(target)).toBe('well')
  })

  test('opens for another 10 s where the trial fails', () => {
    const { health, target, fail, pass } = setUp()
    fail(5)
    pass(10_000)
    health.enter(target)
    fail(1, broken)
    expect(health.whyOut(target)).toMatchObject({ retryAfterMs: 10_000 })
    pass(9_999)
    expect([health.standing(target), health.enter(target)]).toEqual(['out', false])
    pass(1)
    expect([health.standing(target), health.enter(target)]).toEqual(['doubtful', true])
  })

  test('is not held open by calls from before', () => {
    const { health, target, fail, pass } = setUp()
    fail(5)
    pass(9_000)
    fail(30)
    pass(1_000)
    fail(1)
    expect(health.enter(target)).toBe(true)
  })

  test.each([
    ['was given up', 'given_up' as const],
    ['ended with its client', aborted],
    ['was refused for what it asked', status(400)],
  ])('has room for another trial as soon as one %s', (_, end) => {
    const { health, target, fail, pass } = setUp()
    fail(5)
    pass(10_000)
    health.enter(target)
    health.report(target, end)
    expect([health.standing(target), health.enter(target), health.enter(target)]).toEqual(['doubtful', true, false])
  })

  test('has room for another trial when one says nothing for 10 s, and hears that one still', () => {
    const { health, target, fail, pass } = setUp()
    fail(5)
    pass(10_000)
    health.enter(target)
    pass(9_999)
    expect(health.enter(target)).toBe(false)
    pass(1)
    expect([health.enter(target), health.enter(target)]).toEqual([true, false])
    fail(1)
    expect(health.standing(target)).toBe('out')
  })

  test('that nobody tried for 10 s gets its trial in its own place: a neighbour that is well would keep it waiting', () => {
    const { health, target, fail, pass } = setUp()
    fail(5)
    pass(19_999)
    expect(health.standing(target)).toBe('doubtful')
    pass(1)
    expect([health.standing(target), health.enter(target), health.standing(target)]).toEqual(['well', true, 'doubtful'])
  })

  test('gets another trial in its own place where nobody has heard of the last one for 10 s', () => {
    const { health, target, fail, pass } = setUp()
    fail(5)
    pass(20_000)
    health.enter(target)
    pass(9_999)
    expect(health.standing(target)).toBe('doubtful')
    pass(1)
    expect([health.standing(target), health.enter(target)]).toEqual(['well', true])
  })

  test('lets no crowd of trials in for a crowd of older calls that are given up', () => {
    const { health, target, fail, pass } = setUp()
    fail(5)
    pass(10_000)
    let trials = 0
    for (let each = 0; each < 50; each++) {
      if (health.enter(target)) trials++
      health.report(target, 'given_up')
    }
    expect(trials).toBe(2)
    // And again once the next one has failed.
    fail(1)
    pass(10_000)
    health.enter(target)
    health.report(target, 'given_up')
    expect(health.enter(target)).toBe(true)
  })

  test('is one for all models that lead to the same one there, and another for each model there', () => {
    const { health, target, fail } = setUp()
    fail(5)
    const same = { ...toTarget(), model: 'acme/alias' }
    const other = { ...toTarget(), upstreamModel: 'small-v1' }
    const elsewhere = toTarget({ id: 'other' })
    expect([same, other, elsewhere].map(health.standing)).toEqual(['out', 'well', 'well'])
    health.report(same, 'ok')
    expect(health.standing(target)).toBe('well')
  })
})

describe('what an upstream refuses', () => {
  test.each([
    [401, 'doubtful', 'doubtful'],
    [402, 'doubtful', 'doubtful'],
    [403, 'doubtful', 'doubtful'],
    [404, 'doubtful', 'well'],
    [405, 'doubtful', 'well'],
    [400, 'well', 'well'],
    [409, 'well', 'well'],
    [422, 'well', 'well'],
  ] as [number, Standing, Standing][])('with %d makes its target %s, and its other models %s, for 60 s', (...row) => {
    const [code, ofTarget, ofOther] = row
    const { health, target, pass } = setUp()
    const other = { ...toTarget(), upstreamModel: 'small-v1' }
    health.report(target, status(code))
    expect([target, other].map(health.standing)).toEqual([ofTarget, ofOther])
    // It is still tried: nothing else may be there.
    expect([health.enter(target), health.enter(target), health.whyOut(target)]).toEqual([true, true, null])
    pass(60_000)
    expect([target, other].map(health.standing)).toEqual(['well', 'well'])
  })

  test.each([401, 402, 404])('with %d is forgotten with an answer, and not with a probe: that is no chat', (code) => {
    const { health, target, lines } = setUp()
    health.report(target, status(code))
    health.report(target, 'ok')
    expect(health.standing(target)).toBe('well')
    lines.splice(0)
    for (let each = 0; each < 3; each++) {
      health.report(target, status(code))
      health.probed(target.upstream, { state: 'ready' })
      expect(health.standing(target)).toBe('doubtful')
    }
    expect(lines).toHaveLength(1)
  })

  test('is its state, in which it is neither up nor down', () => {
    const { health, target, stateOf, pass } = setUp()
    health.report(target, status(403))
    expect(stateOf()).toMatchObject({ state: 'refused', reason: expect.stringMatching(/^it answered 403: /) })
    pass(60_000)
    expect(stateOf()).toMatchObject({ state: 'unknown', reason: null })
    health.probed(target.upstream, { state: 'refused', reason: 'its /models answered 401' })
    expect(stateOf()).toMatchObject({ state: 'refused', reason: 'its /models answered 401' })
    health.probed(target.upstream, { state: 'ready' })
    expect(stateOf()).toMatchObject({ state: 'up', reason: null })
  })

  test('is in its state, in words and without its own', () => {
    const { health, target, stateOf } = setUp()
    health.report(target, status(404))
    expect(stateOf()?.targets).toMatchObject([{ doubt: expect.stringMatching(/^it answered 404: its base_url, or/) }])
    health.report(target, status(401))
    expect(stateOf()?.reason).toBe('it answered 401: its api_key in the catalogue is missing or wrong')
  })

  test.each([
    [5_000, 5_000],
    [3_600_000, 60_000],
    [Number.POSITIVE_INFINITY, 60_000],
  ])('for a pause of %d ms is doubtful for %d ms, whatever other calls do', (asked, lasts) => {
    const { health, target, pass } = setUp()
    health.report(target, status(429, asked))
    health.report(target, 'ok')
    pass(lasts - 1)
    expect([health.standing(target), health.enter(target)]).toEqual(['doubtful', true])
    pass(1)
    expect(health.standing(target)).toBe('well')
  })
})

describe('what a probe meets with', () => {
  const refusal: Readiness = { state: 'refused', reason: 'its /models answered 401' }
  const late: Readiness = { state: 'doubtful', reason: 'its /models did not answer in time' }

  test.each([
    ['a refusal', refusal, 'doubtful'],
    ['a late answer, or an error', late, 'well'],
  ] as [string, Readiness, Standing][])('puts it behind others until a call or a probe goes well: %s', (...row) => {
    const [, found, afterAnswer] = row
    const { health, target, pass } = setUp()
    const ends: [() => void, Standing][] = [
      [() => health.report(target, 'ok'), 'well'],
      [() => health.probed(target.upstream, { state: 'ready' }), 'well'],
      [() => health.probed(target.upstream, { state: 'unknown' }), afterAnswer],
      [() => pass(60_000), 'well'],
    ]
    for (const [end, expected] of ends) {
      health.probed(target.upstream, found)
      expect([health.standing(target), health.enter(target)]).toEqual(['doubtful', true])
      end()
      expect(health.standing(target)).toBe(expected)
      pass(60_000)
    }
  })

  test.each([refusal, late])('says nothing of one that chats: %j', (found) => {
    const { health, target, pass, lines } = setUp()
    for (let round = 0; round < 3; round++) {
      health.report(target, 'ok')
      pass(59_999)
      health.probed(target.upstream, found)
      expect(health.standing(target)).toBe('well')
    }
    expect(lines).toEqual([])
  })

  test('does not raise one that cannot be reached, where it was only late', () => {
    const { health, target } = setUp()
    health.probed(target.upstream, { state: 'down', reason: 'connection refused' }, 'look')
    health.probed(target.upstream, late)
    expect(health.standing(target)).toBe('out')
  })
})

describe('a look that was late', () => {
  const late: Readiness = { state: 'doubtful', reason: 'no connection within 2 s' }

  test('is held against one that did answer only where the next one is late too', () => {
    const { health, target } = setUp()
    const look = (readiness: Readiness) => health.probed(target.upstream, readiness, 'look')
    look({ state: 'unknown' })
    look(late)
    expect([health.standing(target), health.unreached()]).toEqual(['well', [target.upstream]])
    look({ state: 'unknown' })
    expect(health.unreached()).toEqual([])
    look(late)
    health.report(target, 'ok')
    look(late)
    expect(health.standing(target)).toBe('well')
    look(late)
    expect(health.standing(target)).toBe('out')
    expect(health.whyOut(target)?.reason).toBe('its upstream `paid` is down: no connection within 2 s')
  })

  test.each([
    ['that never answered', false],
    ['whose calls fail as well', true],
  ])('puts down one %s', (_, answered) => {
    const { health, target, fail } = setUp()
    if (answered) {
      health.report(target, 'ok')
      health.probed(target.upstream, late, 'look')
      health.report(target, 'ok')
      fail(1, deadline('headers'))
    }
    health.probed(target.upstream, late, 'look')
    expect(health.standing(target)).toBe('out')
  })
})

describe('an upstream that is down', () => {
  const down: Readiness = { state: 'down', reason: 'connection refused' }

  test('takes all its targets out, and says why', () => {
    const { health, target } = setUp()
    const other = { ...toTarget(), upstreamModel: 'small-v1' }
    health.probed(target.upstream, down, 'look')
    for (const each of [target, other]) {
      expect([health.standing(each), health.enter(each)]).toEqual(['out', false])
      const why = health.whyOut(each)
      expect(why?.reason).toBe('its upstream `paid` is down: connection refused')
      expect(why?.retryAfterMs).toBeGreaterThanOrEqual(1_000)
    }
    expect(health.standing(toTarget({ id: 'other' }))).toBe('well')
  })

  test.each([
    ['a probe that finds it ready', { state: 'ready' }, 'well'],
    ['a probe that it answers', { state: 'unknown' }, 'well'],
    ['a probe that it refuses', { state: 'refused', reason: 'its /models answered 401' }, 'doubtful'],
  ] as [string, Readiness, Standing][])('is up again with %s', (_, readiness, expected) => {
    for (const found of ['look', 'probe'] as const) {
      const { health, target } = setUp()
      health.probed(target.upstream, down, found)
      health.probed(target.upstream, readiness)
      expect(health.standing(target)).toBe(expected)
    }
  })

  test('is up again with a call that went well', () => {
    const { health, target } = setUp()
    health.probed(target.upstream, down)
    health.report(target, 'ok')
    expect([health.standing(target), health.unreached()]).toEqual(['well', []])
  })

  test('for want of a connection is up again with one; where a probe saw more than that, it is not', () => {
    const { health, target } = setUp()
    health.probed(target.upstream, down, 'look')
    health.probed(target.upstream, { state: 'unknown' }, 'look')
    expect(health.standing(target)).toBe('well')
    health.probed(target.upstream, { state: 'down', reason: 'its certificate has expired' }, 'probe')
    health.probed(target.upstream, { state: 'unknown' }, 'look')
    expect(health.standing(target)).toBe('out')
  })

  test('is tried again where no probe comes back to it', () => {
    const { health, target, pass } = setUp()
    health.probed(target.upstream, down)
    pass(15_000)
    expect(health.standing(target)).toBe('out')
    pass(15_000)
    expect([health.standing(target), health.enter(target), health.whyOut(target)]).toEqual(['well', true, null])
  })
})

test('the breakers of an upstream that is found again have their trial at once, one each', () => {
  const { health, target, fail } = setUp()
  fail(5, refused)
  health.probed(target.upstream, { state: 'down', reason: 'connection refused' }, 'look')
  expect(health.standing(target)).toBe('out')
  health.probed(target.upstream, { state: 'unknown' }, 'look')
  expect(health.standing(target)).toBe('well')
  expect([health.enter(target), health.enter(target)]).toEqual([true, false])
  health.report(target, 'begun')
  expect(health.standing(target)).toBe('well')
})

describe('the TCP prober is asked to look', () => {
  test.each([
    ['refused its connection', refused, 1],
    ['sent no headers in time', deadline('headers'), 1],
    ['gave no whole answer in time', deadline('total_whole'), 1],
    ['fell silent in the middle', deadline('idle'), 0],
    ['answered 503', status(503), 0],
    ['was not called for want of files', noFiles, 0],
  ])('at an upstream that %s', (_, end, expected) => {
    const { health, target, fail, kicks } = setUp()
    fail(3, end)
    expect([health.unreached().length, kicks()]).toEqual([expected, expected])
    health.probed(target.upstream, { state: 'down', reason: 'connection refused' }, 'look')
    expect(health.unreached()).toEqual([target.upstream])
    health.probed(target.upstream, { state: 'unknown' }, 'look')
    expect(health.unreached()).toEqual([])
  })

  test('but never at the demo, which has no address', () => {
    const { health, fail } = setUp({ dialect: 'demo', baseUrl: null })
    fail(1, refused)
    expect(health.unreached()).toEqual([])
  })
})

describe('a new configuration', () => {
  test('keeps what is known of an upstream that stays', () => {
    const { health, renew, fail } = setUp()
    fail(5)
    const next = toTarget({ deadlines: { ...toTarget().upstream.deadlines, headers: 1 } })
    renew(next)
    expect(health.standing(next)).toBe('out')
    health.probed(next.upstream, { state: 'down', reason: 'no' }, 'look')
    expect(health.unreached()[0]).toBe(next.upstream)
  })

  test.each([[{ baseUrl: 'http://127.0.0.1:2/v1' }], [{ credential: 'another' }], [{ dialect: 'demo' }]])(
    'forgets it for one that changes to %j, and what calls to the old one find out does not count',
    (fields) => {
      const { health, target, renew, fail, stateOf } = setUp()
      fail(5)
      health.probed(target.upstream, { state: 'down', reason: 'no' }, 'look')
      const next = toTarget(fields)
      renew(next)
      expect<unknown[]>([health.standing(next), health.unreached(), stateOf()?.last_error]).toEqual(['well', [], null])
      fail(5)
      fail(5, status(401), { ...target })
      health.probed(target.upstream, { state: 'down', reason: 'no' }, 'look')
      expect<unknown[]>([health.standing(next), health.unreached(), stateOf()?.last_error]).toEqual(['well', [], null])
    },
  )

  test('forgets what is gone', () => {
    const { health, target, renew, fail } = setUp()
    fail(1, refused)
    renew(toTarget({ id: 'other' }))
    expect<unknown[]>([health.unreached(), health.states().map(({ id }) => id)]).toEqual([[], ['other']])
    renew(target)
    expect(health.states()).toMatchObject([{ id: 'paid', last_error: null }])
  })
})

describe('the state of an upstream', () => {
  test('begins as unknown, and tells what happened', () => {
    const { health, target, renew, fail, pass, stateOf } = setUp()
    const small = { ...toTarget(), upstreamModel: 'small-v1' }
    renew(target, small)
    expect(stateOf()).toEqual({
      id: 'paid',
      state: 'unknown',
      reason: null,
      last_ok_ms: null,
      last_error: null,
      targets: ['large-v1', 'small-v1'].map((upstream_model) => ({
        model: 'acme/large',
        upstream_model,
        breaker: 'closed',
        failures_in_a_row: 0,
        retry_in_ms: null,
      })),
    })
    health.report(small, 'ok')
    fail(5, status(500))
    pass(4_000)
    expect(stateOf()).toMatchObject({
      state: 'up',
      last_ok_ms: WALL_MS + 1_000,
      last_error: { message: 'status 500: their words', at_ms: WALL_MS + 1_000 },
      targets: [
        { breaker: 'open', failures_in_a_row: 5, retry_in_ms: 6_000 },
        { breaker: 'closed', failures_in_a_row: 0 },
      ],
    })
    pass(6_000)
    expect(stateOf()?.targets[0]).toMatchObject({ breaker: 'half_open', retry_in_ms: 0 })
    health.probed(target.upstream, { state: 'down', reason: 'connection refused' }, 'look')
    expect(stateOf()).toMatchObject({ state: 'down', reason: 'connection refused' })
  })

  test('without its credential is not ready, and says why', () => {
    const { stateOf } = setUp({ notReady: 'the variable X is not set on the server' })
    expect(stateOf()).toMatchObject({ state: 'not_ready', reason: 'the variable X is not set on the server' })
  })

  test.each([400, 422])('does not call a client’s %d its last error', (code) => {
    const { health, target, stateOf } = setUp()
    health.report(target, status(code))
    expect(stateOf()?.last_error).toBeNull()
  })

  test('masks what looks like a key in the upstream’s words, and cuts them', () => {
    const { health, target, stateOf } = setUp()
    const words = `sk-abcdefghijklmnopqrstuvwxyz ${'x'.repeat(5_000)}`
    health.report(target, new UpstreamError('status', words, { status: 500 }))
    const { message = '' } = stateOf()?.last_error ?? {}
    expect(message).not.toContain('abcdefghijkl')
    expect(message.length).toBeLessThan(500)
  })
})

describe('the log', () => {
  test('has a line for each change, and none for each call', () => {
    const { health, target, fail, pass, lines } = setUp()
    fail(3)
    health.report(target, 'ok')
    expect(lines).toEqual([])
    fail(9)
    pass(10_000)
    health.enter(target)
    fail(1)
    pass(10_000)
    health.enter(target)
    health.report(target, 'ok')
    expect(lines.splice(0)).toEqual([
      'warn a breaker opened {"upstream":"paid","model":"large-v1","reason":"status 500"}',
      'info a breaker closed {"upstream":"paid","model":"large-v1"}',
    ])
    for (let each = 0; each < 3; each++) {
      health.probed(target.upstream, { state: 'down', reason: 'connection refused' }, 'look')
      pass(30_000)
    }
    for (let each = 0; each < 3; each++) health.probed(target.upstream, { state: 'ready' })
    fail(3, status(401))
    health.report(target, 'ok')
    health.report(target, 'ok')
    expect(lines).toEqual([
      'warn an upstream is down {"upstream":"paid","host":"127.0.0.1:1","reason":"connection refused"}',
      'info an upstream is up again {"upstream":"paid"}',
      'warn an upstream is marked {"upstream":"paid","reason":"it answered 401: its api_key in the catalogue is missing or wrong"}',
      'info an upstream is no longer marked {"upstream":"paid"}',
    ])
  })
})
