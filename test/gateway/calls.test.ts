/** The order of targets and the final error, on scripted calls; `failover.test.ts` uses sockets. */
import { describe, expect, test } from 'bun:test'
import type { PlannedCall } from '../../src/accounting/call.ts'
import { GatewayError, UpstreamError, type UpstreamErrorDetail } from '../../src/domain/error.ts'
import type { Answer, AnswerEvent } from '../../src/domain/events.ts'
import type { Target } from '../../src/domain/snapshot.ts'
import { NO_USAGE } from '../../src/domain/usage.ts'
import { attempt } from '../../src/gateway/calls.ts'
import type { CallNews } from '../../src/health/health.ts'
import { DONE, stop, text, toStreamed, toWhole } from '../support/answers.ts'
import { toTarget } from '../support/snapshot.ts'

const status = (code: number, detail: UpstreamErrorDetail = {}) =>
  new UpstreamError('status', `answered ${code}`, {
    status: code,
    retryable: code >= 500 || [408, 409, 429].includes(code),
    ...detail,
  })
const refused = () => new UpstreamError('connection', 'could not be reached')
const late = () => new UpstreamError('deadline', 'too late', { deadline: 'headers', retryable: true })
const broken = () => new UpstreamError('broken', 'returned 200 with HTML')

type Outcome = Error | Answer | 'answer'

interface Played {
  /** `<target>:<reason>` of each call. */
  calls: string[]
  reported: [string, CallNews][]
  value: unknown
  events: readonly AnswerEvent[]
  error: unknown
}

/** The script's last outcome repeats. */
async function play(
  script: Record<string, Outcome[]>,
  {
    retries = 2,
    out = [] as string[],
    enters = (id: string) => !out.includes(id),
    signal = new AbortController().signal,
    backoffMs = 1,
    contexts = {} as Record<string, number>,
    take = (_: number): GatewayError | null => null,
  } = {},
): Promise<Played> {
  const targets: Target[] = Object.keys(script).map((id) => {
    const target = toTarget({ id })
    return { ...target, contextLength: contexts[id] ?? target.contextLength }
  })
  const calls: string[] = []
  const reported: [string, CallNews][] = []
  const dispatch = async ({ target, reason }: PlannedCall) => {
    calls.push(`${target.upstream.id}:${reason}`)
    const left = script[target.upstream.id] ?? []
    const outcome = left.length > 1 ? left.shift() : left[0]
    if (outcome instanceof Error) throw outcome
    return outcome === undefined || outcome === 'answer' ? toWhole(text('Hi')) : outcome
  }
  const health = {
    enter: (target: Target) => enters(target.upstream.id),
    report: (target: Target, end: CallNews) => void reported.push([target.upstream.id, end]),
    whyUnavailable: () => ({ reason: 'its upstream is down', retryAfterMs: 2_500 }),
  }
  const body = { model: 'acme/large', messages: [] }
  try {
    const { target, events } = await attempt(
      { retries, backoffMs },
      { health, dispatch, targets, body, passthrough: () => null, take, signal },
    )
    return { calls, reported, value: target.upstream.id, events, error: null }
  } catch (error) {
    return { calls, reported, value: null, events: [], error }
  }
}

describe('a target that fails', () => {
  test.each([
    ['refuses the connection', refused()],
    ['breaks its answer', broken()],
    ['keeps silent beyond a deadline', late()],
    ['answers 408', status(408)],
    ['answers 409', status(409)],
    ['answers 429', status(429)],
    ['answers 500', status(500)],
    ['answers 503', status(503)],
    ['does not know our key', status(401)],
    ['does not know its model', status(404)],
    ['says that the prompt is too long for it', status(400, { code: 'context_length_exceeded' })],
    ['does not know a parameter', status(400, { code: 'unsupported_parameter' })],
    ['takes no body of that size', status(413)],
  ])('and %s fails over to the next at once', async (_, error) => {
    const { calls, value, reported } = await play({ a: [error], b: ['answer'] }, { backoffMs: 60_000 })
    expect({ calls, value }).toEqual({ calls: ['a:first', 'b:fallback'], value: 'b' })
    expect(reported).toEqual([['b', 'begun']])
  })

  test.each([
    ['what is wrong with the request', status(400)],
    ['that it cannot process it', status(422)],
  ])("because the upstream says %s doesn't fail over", async (_, error) => {
    expect(await play({ a: [error], b: ['answer'] })).toMatchObject({ calls: ['a:first'], error })
  })

  test.each([
    ['the client left', new UpstreamError('aborted', 'left', { retryable: false })],
    ['the gateway itself ends the request', new GatewayError('insufficient_quota', 'spent')],
    ['of a mistake of ours', new TypeError('a bug')],
  ])("because %s doesn't either", async (_, error) => {
    const played = await play({ a: [error], b: ['answer'] })
    expect(played).toMatchObject({ calls: ['a:first'], error })
    // If no call was made, the breaker's half-open slot is returned.
    expect(played.reported).toEqual([['a', 'aborted']])
  })
})

describe('a stream', () => {
  const failure = (error = broken()): AnswerEvent => ({ kind: 'failure', error })
  const origin: AnswerEvent = { kind: 'origin', origin: { service_tier: 'flex' } }

  test('that fails before its first token fails over to the next target', async () => {
    const played = await play({ a: [toStreamed([origin], [failure()])], b: [toStreamed([origin, text('Hi')], [DONE])] })
    expect(played).toMatchObject({ calls: ['a:first', 'b:fallback'], value: 'b', reported: [['b', 'begun']] })
    expect(played.events).toEqual([origin, text('Hi')])
  })

  test('that fails in the same batch as its first token has begun', async () => {
    const ends = failure()
    const { calls, value, events } = await play({ a: [toStreamed([text('Hi'), ends])], b: ['answer'] })
    expect({ calls, value, events }).toEqual({ calls: ['a:first'], value: 'a', events: [text('Hi'), ends] })
  })

  test('without content is a response, if it is complete', async () => {
    const { calls, events } = await play({ a: [toStreamed([origin], [stop(), DONE])], b: ['answer'] })
    expect({ calls, events }).toEqual({ calls: ['a:first'], events: [origin, stop(), DONE] })
  })

  test('is read only to its first token', async () => {
    const answer = toStreamed([origin], [text('Hi')], [text(' there')], [stop(), DONE])
    const { events } = await play({ a: [answer] })
    expect(events).toEqual([origin, text('Hi')])
    const rest: AnswerEvent[] = []
    await answer.rest?.pump((batch) => rest.push(...batch) > 0)
    expect(rest).toEqual([text(' there'), stop(), DONE])
  })

  const raw = (data: string): AnswerEvent => ({
    ...{ kind: 'raw', name: 'ping', data, origin: null, isContent: false, isTail: false },
  })

  test('takes memory for events before its first token, and none for repeated ones', async () => {
    const taken: number[] = []
    const take = (bytes: number) => {
      taken.push(bytes)
      return null
    }
    const usage = (prompt: number): AnswerEvent => ({ kind: 'usage', usage: { ...NO_USAGE, prompt } })
    const pings = Array.from({ length: 1_000 }, (_, at) => [raw('ping'), usage(at)])
    const { events } = await play({ a: [toStreamed([raw('start')], ...pings, [text('Hi')])] }, { take })
    expect(events).toEqual([raw('start'), raw('ping'), usage(999), text('Hi')])
    expect(taken).toHaveLength(3)
    expect(Math.min(...taken)).toBeGreaterThan(0)
  })

  test('ends the request if there is no memory for it', async () => {
    const full = new GatewayError('overloaded', 'full')
    const take = () => full
    const played = await play({ a: [toStreamed([raw('start')], [text('Hi')])], b: ['answer'] }, { take })
    expect(played).toMatchObject({ calls: ['a:first'], error: full })
  })

  test('keeps nothing for a disconnected client', async () => {
    const controller = new AbortController()
    const take = () => {
      controller.abort()
      return null
    }
    const answer = toStreamed([raw('one')], [raw('two')], [raw('three')], [text('Hi')])
    const { events } = await play({ a: [answer] }, { take, signal: controller.signal })
    expect(events).toEqual([text('Hi')])
  })

  test('of ours that throws an internal error ends the request', async () => {
    const refusal = new GatewayError('schema_not_met', 'no JSON')
    const played = await play({ a: [toStreamed(refusal)], b: ['answer'] })
    expect(played).toMatchObject({ calls: ['a:first'], error: refusal, reported: [['a', 'aborted']] })
  })
})

describe('when no target is left', () => {
  test('the list is tried twice more, in order, and the first to recover responds', async () => {
    const { calls, value } = await play({ a: [status(500)], b: [refused(), refused(), 'answer'] })
    expect(calls).toEqual(['a:first', 'b:fallback', 'a:retry', 'b:retry', 'a:retry', 'b:retry'])
    expect(value).toBe('b')
  })

  test('one found down in between is still tried once it is up again', async () => {
    const seen: boolean[] = [true, false, true]
    const { calls, value } = await play({ a: [refused(), 'answer'] }, { enters: () => seen.shift() ?? false })
    expect({ calls, value, seen }).toEqual({ calls: ['a:first', 'a:retry'], value: 'a', seen: [] })
  })

  test('no more than twice', async () => {
    const { calls, error } = await play({ a: [status(502)] })
    expect(calls).toEqual(['a:first', 'a:retry', 'a:retry'])
    expect(error).toMatchObject({ status: 502, upstream: 'a' })
  })

  test.each([
    ['passed a deadline', late()],
    ['refused our key', status(401)],
    ['has no room for the prompt', status(400, { code: 'context_length_exceeded' })],
    ['asks for a longer pause than a request has', status(429, { retryAfterMs: 10_001 })],
  ])("one that %s isn't retried", async (_, error) => {
    const { calls } = await play({ a: [error], b: [status(500), 'answer'] })
    expect(calls).toEqual(['a:first', 'b:fallback', 'b:retry'])
  })

  test("a prompt too long for one target isn't sent to a smaller one, which may truncate it silently", async () => {
    const tooLong = status(400, { code: 'context_length_exceeded' })
    const contexts = { a: 8_000, b: 4_000, c: 8_000, d: 32_000 }
    const found = await play({ a: [tooLong], b: ['answer'], c: [tooLong], d: ['answer'] }, { contexts })
    expect(found.calls).toEqual(['a:first', 'c:fallback', 'd:fallback'])
    const lost = await play({ a: [tooLong], b: ['answer'] }, { contexts })
    expect([lost.calls, lost.error]).toMatchObject([['a:first'], { code: 'context_length_exceeded' }])
  })

  test('an upstream gets the pause it requests', async () => {
    const order: string[] = []
    setTimeout(() => order.push('most of the pause is over'), 75)
    const { calls } = await play({ a: [status(429, { retryAfterMs: 150 }), 'answer'] })
    order.push(...calls)
    expect(order).toEqual(['most of the pause is over', 'a:first', 'a:retry'])
  })

  test("a client that disconnected before the pause doesn't wait for its end", async () => {
    const controller = new AbortController()
    const script = { a: [status(500, { retryAfterMs: 9_000 })] }
    const enters = () => {
      controller.abort()
      return true
    }
    const played = play(script, { signal: controller.signal, enters })
    expect(await played).toMatchObject({ calls: ['a:first'], error: { kind: 'aborted' } })
  })

  test('a client that disconnects during the pause ends it', async () => {
    const controller = new AbortController()
    const played = play({ a: [status(500)] }, { backoffMs: 60_000, signal: controller.signal })
    setTimeout(() => controller.abort(), 5)
    expect(await played).toMatchObject({ calls: ['a:first'], error: { kind: 'aborted' } })
  })

  test.each([
    ['the last one', { a: [status(500)], b: [refused()] }, { kind: 'connection', upstream: 'b' }],
    ['the one that may pass', { a: [status(503)], b: [status(401)] }, { status: 503, upstream: 'a' }],
    ['not the one that limits its rate', { a: [status(500)], b: [status(429)] }, { status: 500, upstream: 'a' }],
    ['unless all do', { a: [status(429)], b: [status(429)] }, { status: 429, upstream: 'b' }],
  ] as [string, Record<string, Outcome[]>, object][])('the client is told %s', async (_, script, expected) => {
    expect((await play(script, { retries: 0 })).error).toMatchObject(expected)
  })
})

describe('a target that is unavailable', () => {
  test('is skipped without a call', async () => {
    const { calls, value } = await play({ a: ['answer'], b: ['answer'] }, { out: ['a'] })
    expect({ calls, value }).toEqual({ calls: ['b:first'], value: 'b' })
  })

  test('leaves no target: the model is not ready, with reason and time', async () => {
    const { calls, error } = await play({ a: ['answer'] }, { out: ['a'] })
    expect(calls).toEqual([])
    expect(error).toMatchObject({ kind: 'model_not_ready', status: 503, headers: { 'retry-after': '3' } })
    expect(String(error)).toContain('its upstream is down')
  })
})
