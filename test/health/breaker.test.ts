/** Which keys a breaker blocks, and what counts as a row of failures: events of keys on one target, on the test's clock. */
import { describe, expect, test } from 'bun:test'
import { Breaker } from '../../src/health/breaker.ts'
import type { LogFields } from '../../src/log.ts'

function setUp() {
  let change: 'everyone' | 'key' | null = null
  const tell = (_event: string, _message: string, { key }: LogFields = {}) => {
    change = key === undefined ? 'everyone' : 'key'
  }
  const breaker = new Breaker({}, { info: tell, warn: tell })
  let nowMs = 1_000
  /** Returns the keys for which the breaker opens or closes. */
  const changeOf = (event: () => void) => {
    change = null
    event()
    return change as 'everyone' | 'key' | null
  }
  /** `team/a` is key `a` of that team. */
  const caller = (keyId: string) => ({ keyId, teamId: keyId.includes('/') ? keyId.replace(/\/.*/, '') : null })
  const fail = (keyId: string, times = 1) => {
    let last = null
    for (let each = 0; each < times; each++)
      last = changeOf(() => breaker.recordFailure(caller(keyId), 'status 500', false, nowMs))
    return last
  }
  const succeed = (keyId: string) => breaker.recordSuccess(caller(keyId), nowMs)
  /** The phase for a key. */
  const phaseFor = (keyId: string) => {
    const blocking = breaker.blocking(keyId, nowMs)
    if (blocking) return blocking.probe ? 'half_open' : 'open'
    return breaker.everyone.isOpen() || breaker.keys.get(keyId)?.isOpen() ? 'half_open' : 'closed'
  }
  const phases = (...keyIds: string[]) => keyIds.map(phaseFor)
  const tryEnter = (keyId: string) => {
    const request = caller(keyId)
    return breaker.enter(request, nowMs) ? request : null
  }
  const failProbe = (keyId: string) => {
    const probe = tryEnter(keyId)
    if (!probe) throw new Error(`${keyId} is not let in`)
    breaker.recordFailure(probe, 'status 500', false, nowMs)
  }
  const pass = (ms: number) => {
    nowMs += ms
  }
  return { breaker, changeOf, fail, succeed, phases, tryEnter, failProbe, pass, now: () => nowMs }
}

describe('a row of failures', () => {
  test('of one key opens the breaker for it at the fifth, and never for others', () => {
    const { fail, phases } = setUp()
    expect([fail('a', 4), ...phases('a', 'b')]).toEqual([null, 'closed', 'closed'])
    expect([fail('a'), ...phases('a', 'b')]).toEqual(['key', 'open', 'closed'])
    expect([fail('a', 100), ...phases('a', 'b')]).toEqual([null, 'open', 'closed'])
  })

  test("of a key isn't reset by other keys", () => {
    const { fail, succeed, phases } = setUp()
    for (let each = 0; each < 5; each++) {
      fail('a')
      succeed('b')
    }
    expect(phases('a', 'b')).toEqual(['open', 'closed'])
  })

  test('of a key is reset by its own success', () => {
    const { fail, succeed, phases } = setUp()
    for (let each = 0; each < 5; each++) {
      fail('a', 4)
      succeed('a')
    }
    expect(phases('a')).toEqual(['closed'])
  })

  test.each([
    [['a', 'a', 'a', 'a', 'b']],
    [['a', 'b', 'a', 'b', 'a']],
    [['a', 'b', 'c', 'd', 'e']],
    [['a', 'a', 'a', 'a', 'a', 'a', 'a', 'b']],
  ])('of several keys opens for everyone: %j', (keys) => {
    const { fail, phases } = setUp()
    const last = keys.map((key) => fail(key)).at(-1)
    expect([last, ...phases('a', 'b', 'z')]).toEqual(['everyone', 'open', 'open', 'open'])
  })

  test('for everyone is reset by any key’s success', () => {
    const { fail, succeed, phases } = setUp()
    fail('a', 8)
    succeed('b')
    fail('b')
    expect(phases('a', 'b', 'z')).toEqual(['open', 'closed', 'closed'])
    fail('c', 3)
    expect(phases('z')).toEqual(['closed'])
    fail('c')
    expect(phases('z')).toEqual(['open'])
  })

  test('of several keys of one team opens for each of these keys only, until a key without a team fails, too', () => {
    const { fail, phases } = setUp()
    fail('team/a', 8)
    fail('team/b', 8)
    expect(phases('team/a', 'team/b', 'team/c', 'z')).toEqual(['open', 'open', 'closed', 'closed'])
    fail('b')
    expect(phases('z')).toEqual(['open'])
  })

  test("of keys that fail while another succeeds doesn't count for others for ten minutes", () => {
    const { fail, succeed, tryEnter, pass, phases } = setUp()
    fail('a', 8)
    fail('b', 8)
    expect(phases('z')).toEqual(['open'])
    pass(10_000)
    expect(tryEnter('z')).not.toBeNull()
    succeed('z')
    fail('a', 8)
    fail('b', 8)
    expect(phases('a', 'b', 'z')).toEqual(['open', 'open', 'closed'])
    // Failures of other keys do count.
    fail('c', 4)
    expect(fail('d')).toBe('everyone')
    pass(10_000)
    succeed('z')
    pass(600_000)
    fail('a', 4)
    expect(fail('b')).toBe('everyone')
  })

  test('of a key whose breaker is open while another succeeds counts only for itself', () => {
    const { fail, succeed, phases } = setUp()
    fail('a', 5)
    succeed('z')
    fail('b', 5)
    succeed('z')
    for (const key of ['a', 'b', 'a', 'b']) fail(key, 4)
    expect(phases('a', 'b', 'z')).toEqual(['open', 'open', 'closed'])
  })

  test('of one key is confirmed for everyone by a free check, and no shorter row is', () => {
    const { breaker, changeOf, fail, phases, now } = setUp()
    const confirm = () => changeOf(() => breaker.confirmFailures(now()))
    fail('a', 4)
    expect(confirm()).toBeNull()
    fail('a')
    expect(phases('b')).toEqual(['closed'])
    expect(confirm()).toBe('everyone')
    expect(phases('a', 'b')).toEqual(['open', 'open'])
    expect(confirm()).toBeNull()
  })
})

describe('half-open', () => {
  test('for a key lets one request of that key pass, and all requests of others', () => {
    const { fail, tryEnter, pass, phases } = setUp()
    fail('a', 5)
    pass(9_999)
    expect(tryEnter('a')).toBeNull()
    pass(1)
    expect([tryEnter('a') !== null, tryEnter('a'), ...phases('a')]).toEqual([true, null, 'half_open'])
    expect([tryEnter('b'), tryEnter('b')]).not.toContain(null)
  })

  test('for everyone lets one request in total pass, and closes for all after its success', () => {
    const { breaker, changeOf, fail, tryEnter, pass, phases } = setUp()
    fail('a', 4)
    fail('b')
    pass(10_000)
    const probe = tryEnter('c')
    expect([probe !== null, tryEnter('a'), tryEnter('c')]).toEqual([true, null, null])
    expect(changeOf(() => probe && breaker.recordSuccess(probe, 11_000))).toBe('everyone')
    expect(phases('a', 'b', 'c')).toEqual(['closed', 'closed', 'closed'])
    expect(breaker.openCircuits()).toEqual([])
  })

  test("for everyone isn't reopened by one key’s failure: that key waits, and another may be the next probe", () => {
    const { fail, tryEnter, failProbe, succeed, pass, phases } = setUp()
    fail('a', 5)
    fail('b')
    pass(10_000)
    failProbe('a')
    expect(phases('a', 'b')).toEqual(['open', 'half_open'])
    expect(tryEnter('a')).toBeNull()
    expect(tryEnter('b')).not.toBeNull()
    succeed('b')
    expect(phases('a', 'b')).toEqual(['closed', 'closed'])
  })

  test('for everyone is reopened for everyone by a second key’s failure', () => {
    const { fail, failProbe, pass, phases } = setUp()
    fail('a', 5)
    fail('b')
    pass(10_000)
    failProbe('a')
    failProbe('b')
    expect(phases('a', 'b', 'z')).toEqual(['open', 'open', 'open'])
    pass(9_999)
    expect(phases('z')).toEqual(['open'])
    pass(1)
    expect(phases('a', 'b', 'z')).toEqual(['half_open', 'half_open', 'half_open'])
  })

  test('is closed by a probe that begins to respond, and reopened by the next failures', () => {
    const { breaker, changeOf, fail, tryEnter, failProbe, pass, phases } = setUp()
    fail('a', 5)
    pass(10_000)
    const own = tryEnter('a')
    expect(changeOf(() => own && breaker.halfOpenSuccess(own))).toBe('key')
    expect([...phases('a'), fail('a')]).toEqual(['closed', 'key'])
    fail('b')
    pass(10_000)
    const probe = tryEnter('b')
    expect(changeOf(() => probe && breaker.halfOpenSuccess(probe))).toBe('everyone')
    fail('a')
    expect([...phases('z'), fail('b'), ...phases('z')]).toEqual(['closed', 'everyone', 'open'])
    // Failures while half-open don't count toward a key's later ones.
    pass(10_000)
    failProbe('c')
    const next = tryEnter('b')
    if (next) breaker.halfOpenSuccess(next)
    fail('a')
    expect(phases('z')).toEqual(['closed'])
  })

  test('allows another probe if one ends without a result', () => {
    const { breaker, fail, tryEnter, pass } = setUp()
    fail('a', 5)
    pass(10_000)
    const probe = tryEnter('a')
    expect(tryEnter('a')).toBeNull()
    if (probe) breaker.abortProbe(probe)
    expect(tryEnter('a')).not.toBeNull()
  })

  test('comes at once, for all, if the cause is gone', () => {
    const { breaker, fail, tryEnter, phases } = setUp()
    fail('a', 4)
    fail('b')
    breaker.allowProbe()
    expect(phases('z')).toEqual(['half_open'])
    expect(tryEnter('a')).not.toBeNull()
  })
})

test('keys are remembered while their last request failed, for ten minutes at most', () => {
  const { breaker, fail, succeed, pass, phases } = setUp()
  for (let each = 0; each < 5_000; each++) {
    fail(`k${each}`)
    succeed('good')
  }
  fail('a', 5)
  expect(breaker.keys.size).toBe(5_001)
  pass(10 * 60_000)
  succeed('good')
  fail('b')
  expect([...breaker.keys.keys()]).toEqual(['b'])
  expect(phases('a')).toEqual(['closed'])
  succeed('b')
  expect(breaker.keys.size).toBe(0)
})
