/** Fair-share limit of one key: slots and memory. */
import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/domain/error.ts'
import { type AdmissionSlot, Load, OverloadState } from '../../src/gateway/admission.ts'
import { startGateway } from '../support/gateway.ts'
import { toKey } from '../support/snapshot.ts'
import { until } from '../support/until.ts'
import { obliging } from '../support/upstream.ts'
import { sendHalf, statusOf } from './half-sent.ts'

const MIB = 1024 ** 2
/** Of the fixture's catalog. */
const KEYLESS = 'Upstream keyless is not ready.'
const [ann, bob] = ['ann', 'bob'].map((name) => toKey({ id: name, name })) as [
  ReturnType<typeof toKey>,
  ReturnType<typeof toKey>,
]

/** 8 slots and 80 MiB, a quarter of them per key. */
function createLoad(share = 0.25) {
  const clock = { nowMs: 0 }
  const load = new Load({ maxInFlight: 8, maxBufferedBytes: 80 * MIB, share, nowMs: () => clock.nowMs })
  return { load, clock }
}

function fill(load: Load, key = ann, kind: 'requests' | 'sessions' = 'requests') {
  const places: AdmissionSlot[] = []
  for (;;) {
    const entered = load.enter(key, kind)
    if (entered instanceof GatewayError) return { places, refusal: entered }
    places.push(entered)
  }
}

const leave = (places: readonly AdmissionSlot[]) => {
  for (const place of places) place[Symbol.dispose]()
}

describe('with 8 slots, a quarter per key,', () => {
  test('a key without others holds half, and is told its share', () => {
    const { places, refusal } = fill(createLoad().load)
    expect(places).toHaveLength(4)
    expect(refusal).toMatchObject({
      status: 429,
      type: 'requests',
      code: 'rate_limit_exceeded',
      headers: { 'retry-after': '1' },
    })
    expect(refusal.message).toBe(
      "Key `ann` has 4 of this server's 8 request slots: the rest are for other keys. Wait for a running request to finish, then retry.",
    )
  })

  test('each of several keys holds two, until all are taken', () => {
    const { load } = createLoad()
    const first = load.enter(bob)
    expect(fill(load).places).toHaveLength(2)
    expect(fill(load, bob).places).toHaveLength(1)
    const fillAs = (name: string) => fill(load, toKey({ id: name, name }))
    for (const name of ['cat', 'dan', 'eve', 'fay']) fillAs(name)
    expect(fillAs('gus').refusal).toMatchObject({ status: 503, code: 'server_is_overloaded' })
    leave([first as AdmissionSlot])
    expect(fillAs('gus').places).toHaveLength(1)
  })

  test.each([5, 20, 50])('%i keys that take all they can leave capacity for the next one', (count) => {
    const load = new Load({ maxInFlight: 4_096, maxBufferedBytes: 512 * MIB, share: 0.25, nowMs: () => 0 })
    for (let i = 0; i < count; i++) fill(load, toKey({ id: `k${i}`, name: `k${i}` }))
    expect(fill(load).places.length).toBeGreaterThan(0)
  })

  test('a key counts as active for a minute', () => {
    const { load, clock } = createLoad()
    leave([load.enter(bob) as AdmissionSlot])
    clock.nowMs += 59_999
    expect(fill(load).places).toHaveLength(2)
    clock.nowMs += 1
    expect(fill(load).places).toHaveLength(2)
  })

  test('with shares off, one holds them all', () => {
    expect(fill(createLoad(1).load)).toMatchObject({ places: { length: 8 }, refusal: { status: 503 } })
  })

  test("keys of one owner hold one key's share together", () => {
    const { load } = createLoad()
    load.enter(bob)
    const [home, work] = ['home', 'work'].map((name) => toKey({ id: name, name, ownerId: 'mia' }))
    expect(fill(load, home).places).toHaveLength(2)
    expect(fill(load, work)).toMatchObject({ places: { length: 0 }, refusal: { status: 429 } })
    expect(fill(load, work).refusal.message).toContain(
      "Key `work`, together with the other keys of its owner, has 2 of this server's 8 request slots",
    )
  })

  test('realtime sessions take none, and are shared the same way: half as many in total', () => {
    const { load } = createLoad()
    const { places, refusal } = fill(load, ann, 'sessions')
    expect([places.length, refusal.status]).toEqual([2, 429])
    expect(refusal.message).toContain("has 2 of this server's 4 realtime sessions: the rest are for other keys. Close")
    expect(fill(load, bob, 'sessions').places).toHaveLength(1)
    expect([load.inFlight, fill(load, bob).places.length]).toEqual([0, 4])
    leave(places)
    expect(fill(load, ann, 'sessions').places).toHaveLength(1)
  })

  test('a share of less than one is one', () => {
    const { load } = createLoad(0.01)
    load.enter(bob)
    expect(fill(load).places).toHaveLength(1)
  })
})

describe('with 80 MiB, a quarter per key,', () => {
  test('one of several keys holds 20, except for one request of any size', () => {
    const { load } = createLoad()
    load.enter(bob)
    const [large, small] = [load.enter(ann) as AdmissionSlot, load.enter(ann) as AdmissionSlot]
    expect(large.take(18 * MIB)).toBeNull()
    expect(small.take(2 * MIB)).toBeNull()
    expect(large.take(14 * MIB)).toBeNull()
    const refusal = small.take(1)
    expect(refusal).toMatchObject({ status: 429, type: 'requests', code: 'rate_limit_exceeded' })
    expect(refusal?.message).toContain(
      'Key `ann` holds 34 of the 80 MiB of request memory: the rest is for other keys.',
    )
    leave([large])
    expect(small.take(18 * MIB)).toBeNull()
  })

  test('a key without others holds half', () => {
    const { load } = createLoad()
    const places = Array.from({ length: 3 }, () => load.enter(ann) as AdmissionSlot)
    expect(places.map((place) => place.take(20 * MIB))).toEqual([null, null, expect.any(GatewayError)])
  })

  test("however many keys have a large request, another's small one fits", () => {
    const { load } = createLoad()
    for (const name of ['one', 'two', 'three', 'four', 'five']) {
      const place = load.enter(toKey({ id: name, name })) as AdmissionSlot
      while (place.take(MIB) === null);
    }
    expect((load.enter(ann) as AdmissionSlot).take(MIB)).toBeNull()
  })
})

test('a key that sends only the beginnings of bodies leaves slots for others', async () => {
  const gateway = await startGateway({ script: obliging, config: { maxInFlight: 40 } })
  const { app } = gateway
  const halves = Array.from({ length: 60 }, () => sendHalf(app, gateway.key))
  const refused = () => halves.filter(({ answer }) => answer.startsWith('HTTP/1.1 429')).length
  await until('all of them are held or refused', async () => refused() + (await statusOf(app)).in_flight === 60)
  expect(refused()).toBe(40)
  const other = app.key()
  const asked = Array.from({ length: 10 }, () => gateway.chat({}, { headers: { authorization: `Bearer ${other}` } }))
  for (const answer of await Promise.all(asked)) expect(answer.status).toBe(200)
  const more = await gateway.chat()
  expect([more.status, more.headers.get('retry-after')]).toEqual([429, '1'])
  expect(await statusOf(app)).toMatchObject({ reasons: [KEYLESS] })
  for (const { socket } of halves) socket.destroy()
  await until('they are gone', async () => (await statusOf(app)).in_flight === 0)
  expect((await gateway.chat()).status).toBe(200)
  await gateway.stop()
})

test('ten keys of one member hold one share', async () => {
  const gateway = await startGateway({ script: obliging, config: { maxInFlight: 40 } })
  const { app } = gateway
  const keys = Array.from({ length: 10 }, (_, i) => app.key({ name: `k${i}`, ownerId: 'mia' }))
  const other = sendHalf(app, gateway.key)
  await until('another key is there', async () => (await statusOf(app)).in_flight === 1)
  const halves = keys.flatMap((key) => [sendHalf(app, key), sendHalf(app, key)])
  const refused = () => halves.filter(({ answer }) => answer.startsWith('HTTP/1.1 429')).length
  await until('all of them are held or refused', async () => refused() + (await statusOf(app)).in_flight === 21)
  expect(refused()).toBe(10)
  for (const { socket } of [other, ...halves]) socket.destroy()
  await gateway.stop()
})

test('a server at capacity logs that once, until it has been quiet for a while', async () => {
  const gateway = await startGateway({ script: obliging, config: { maxInFlight: 2 } })
  const { app, chat, key } = gateway
  const halves = [sendHalf(app, key), sendHalf(app, app.key())]
  await until('both are held', async () => (await statusOf(app)).in_flight === 2)
  expect(await statusOf(app)).toMatchObject({ reasons: [KEYLESS] })
  for (let i = 0; i < 3; i++) expect((await chat()).status).toBe(503)
  expect(await statusOf(app)).toMatchObject({
    readiness: 'degraded',
    reasons: expect.arrayContaining([expect.stringContaining('2 requests in flight (limit).')]),
  })
  expect((await app.logLines()).filter(({ event }) => event === 'server_overloaded')).toHaveLength(1)
  for (const { socket } of halves) socket.destroy()
  await gateway.stop()
})

test('the overload ends ten seconds after the last rejection', () => {
  const told: (string | null)[] = []
  const timers: (() => void)[] = []
  const overload = new OverloadState({
    onChange: (reason) => told.push(reason),
    after: (ms, then) => {
      expect(ms).toBe(10_000)
      timers.push(then)
    },
  })
  const pass = () => timers.shift()?.()
  overload.note('one')
  overload.note('two')
  pass()
  expect([overload.reason, told]).toEqual(['one', ['one']])
  pass()
  expect([overload.reason, told, timers]).toEqual([null, ['one', null], []])
  overload.note('three')
  expect(told).toEqual(['one', null, 'three'])
})
