/**
 * Limits decided by another process, over real links: the same decisions as in one process, for any number of workers.
 */
import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { GatewayError, UpstreamError } from '../../src/domain/error.ts'
import { mintId } from '../../src/domain/id.ts'
import type { Link } from '../../src/domain/link.ts'
import type { Key, Team } from '../../src/domain/snapshot.ts'
import type { Cost } from '../../src/limits/budget.ts'
import type { Amount, Ask, Limiter, Permit, RequestLimiter, Reservation } from '../../src/limits/limiter.ts'
import { createRecallingLimiter } from '../../src/limits/recall.ts'
import { createRemoteLimiter } from '../../src/limits/remote.ts'
import { LEAVE, PERMIT } from '../../src/limits/remote-topics.ts'
import { serveLimits } from '../../src/limits/serve.ts'
import { connectLink, listenForLinks } from '../../src/server/workers/link.ts'
import { until } from '../support/until.ts'
import {
  at,
  budget,
  CENT,
  cents,
  createLimiter,
  limited,
  NOON,
  standing,
  tokens,
  toTeam,
  toUpstream,
} from './asking.ts'

const folder = mkdtempSync(join(tmpdir(), 'limits-'))
afterAll(() => rmSync(folder, { recursive: true }))
let sockets = 0
let requests = 0

/** A keeper, whose clock stands still, and its workers. */
async function start(
  workers = 1,
  sleep: (ms: number) => Promise<void> = () => new Promise(() => {}),
  patienceMs = 10_000,
) {
  const path = join(folder, `${++sockets}.sock`)
  const near: Link[] = []
  const listener = listenForLinks(path, (link) => near.push(link))
  const far = await Promise.all(Array.from({ length: workers }, () => connectLink(path)))
  listener.stop()
  const keeper = createLimiter()
  const deps = { limiter: keeper, monotonicMs: () => 0, now: () => at(0).wallMs, sleep }
  const served = near.map((link) => serveLimits(link, deps))
  const limiters = far.map((link) =>
    createRemoteLimiter(link, { monotonicMs: () => 0, now: () => at(0).wallMs, workers, patienceMs }),
  )
  const worker = (at: number) => {
    const limiter = limiters[at]
    if (!limiter) throw new Error('no such worker')
    return limiter
  }
  /** Resolves once all messages have arrived. */
  const settled = () =>
    Promise.all(limiters.map((one) => one.permit({ ...toUpstream({ rpm: 1e9 }), id: 'other' }, 0, 0)))
  return { keeper, served, limiters, worker, limiter: worker(0), links: far, near, settled }
}

const keyOf = (nanoUsdCents: number, more: Partial<Key> = {}) => limited({}, { budget: budget(nanoUsdCents), ...more })

/** Calls a limiter as the gateway does. */
async function ask(limiter: RequestLimiter, key: Key, amount: Ask, team: Team | null = null, id = `r${++requests}`) {
  const entered = await limiter.enter(id, key, team, 0)
  if (entered instanceof GatewayError) return entered
  const decided = await entered.admit(amount, at(0))
  if (decided instanceof GatewayError) await entered.refuse(decided, 0)
  return decided
}

async function admitted(...asked: Parameters<typeof ask>): Promise<Reservation> {
  const decided = await ask(...asked)
  if (decided instanceof GatewayError) throw decided
  return decided
}

const costing = (nanoUsdCents: number, likely: number, most: number): Ask & { counts: number } => {
  const cost: Cost = { likelyNanoUsd: likely * CENT, mostNanoUsd: most * CENT, reservedNanoUsd: 0 }
  const one = {
    ...{ tokens: 1, nanoUsd: nanoUsdCents * CENT, counts: 0 },
    counting: {
      leastNanoUsd: () => 0,
      count: async () => {
        one.counts++
        return cost
      },
    },
  }
  return one
}

const toFigures = (decided: unknown) => {
  if (decided instanceof GatewayError) {
    const { kind, message, headers, status, code } = decided
    return { kind, message, headers, status, code }
  }
  if (decided instanceof UpstreamError) return { ...decided, message: decided.message }
  return (decided as Partial<Reservation>).headers ?? 'permitted'
}

test('requests without limits need no message', async () => {
  const { limiter, links } = await start()
  links[0]?.close()
  const entered = limiter.enter('r', limited({}), toTeam(null), 0)
  expect(entered).not.toBeInstanceOf(Promise)
  expect(await ask(limiter, limited({}), tokens(1e9))).toMatchObject({ hasBudget: false, headers: {} })
  expect(limiter.permit(toUpstream({}), 1, 0)).not.toBeInstanceOf(Promise)
  expect(limiter.isFull(toUpstream({}), 1e9, 0)).toBe(false)
})

test('decisions, errors, and headers match those of one process', async () => {
  const upstream = toUpstream({ rpm: 1, tpm: 100 })
  const team = toTeam(budget(20), 't1', { rpm: 3 })
  const key = limited({ rpm: 4, tpm: 100, concurrency: 2 }, { budget: budget(10) })
  const decide = async (limiter: RequestLimiter) => {
    const decided: unknown[] = []
    const of = async (...[who, amount, group]: [Key, Amount, Team?]) => {
      const one = await ask(limiter, who, amount, group ?? null)
      decided.push(one)
      return one instanceof GatewayError ? null : one
    }
    const first = await of(key, { tokens: 60, nanoUsd: 6 * CENT }, team)
    await of(key, tokens(41), team)
    await of(key, { tokens: 1, nanoUsd: 5 * CENT }, team)
    const second = await of(key, { tokens: 10, nanoUsd: 1 })
    await of(key, tokens(1))
    decided.push(await first?.raise({ tokens: 70, nanoUsd: 11 * CENT, isMore: true }), first?.hasBudget)
    first?.releaseSlot()
    first?.settle({ tokens: 20, nanoUsd: 9 * CENT })
    first?.settle({ tokens: 0, nanoUsd: 0 })
    second?.cancel()
    await of(key, { tokens: 70, nanoUsd: 2 * CENT })
    await of(key, { tokens: 70, nanoUsd: CENT }, team)
    await of(limited({}, { id: 'k2' }), { tokens: 1, nanoUsd: 11 * CENT }, team)
    const entered = await limiter.enter('bad', limited({ rpm: 1 }, { id: 'k3' }), null, 0)
    const bad = new GatewayError('invalid_request', 'no JSON')
    if (!(entered instanceof GatewayError)) await entered.refuse(bad, 0)
    const unread = await limiter.enter('unread', limited({ rpm: 2 }, { id: 'k4' }), null, 0)
    const wrong = new GatewayError('unsupported_content_type', 'no JSON')
    if (!(unread instanceof GatewayError)) {
      unread.cancel()
      await unread.refuse(wrong, 0)
    }
    decided.push(wrong, bad, await limiter.enter('next', limited({ rpm: 1 }, { id: 'k3' }), null, 0))
    for (const amount of [101, 60]) decided.push(await limiter.permit(upstream, amount, 0))
    decided.push(await limiter.permit(upstream, 41, 0))
    return decided.map((one) => (one !== null && typeof one === 'object' ? toFigures(one) : one))
  }
  const { limiter, served } = await start()
  const here = await decide(createLimiter())
  expect(await decide(limiter)).toEqual(here)
  expect(here.filter((one) => typeof one === 'object' && one !== null && 'message' in one).length).toBe(11)
  expect(served[0]?.requests().length).toBe(1)
})

describe('four workers with many concurrent requests admit no more than one process does', () => {
  const stampede = async (limiters: RequestLimiter[], key: Key, toAsked: () => Ask, team: Team | null = null) => {
    const all = limiters.flatMap((one) => Array.from({ length: 50 }, () => ask(one, key, toAsked(), team)))
    const decided = await Promise.all(all)
    return decided.filter((one): one is Reservation => !(one instanceof GatewayError))
  }

  test('by a rate', async () => {
    const { limiters } = await start(4)
    expect((await stampede(limiters, limited({ rpm: 33 }), () => tokens(1))).length).toBe(33)
  })

  test('by tokens, and a settled request returns what it has not used', async () => {
    const { limiters, settled } = await start(4)
    const key = limited({ tpm: 100 })
    const taken = await stampede(limiters, key, () => tokens(3))
    expect(taken.length).toBe(33)
    for (const one of taken) one.settle(tokens(1))
    await settled()
    expect((await stampede(limiters, key, () => tokens(3))).length).toBe(22)
  })

  test('by slots, and a slot that one worker frees is available to another', async () => {
    const { limiters, settled } = await start(4)
    const key = limited({ concurrency: 7 })
    const taken = await stampede(limiters, key, () => tokens(1))
    expect(taken.length).toBe(7)
    for (const one of taken.slice(0, 3)) one.releaseSlot()
    for (const one of taken.slice(2, 5)) one.settle(tokens(1))
    await settled()
    expect((await stampede(limiters, key, () => tokens(1))).length).toBe(5)
  })

  test('by a budget at the worst case', async () => {
    const { limiters, keeper } = await start(4)
    const team = toTeam(budget(70))
    expect((await stampede(limiters, keyOf(100), () => cents(3), team)).length).toBe(23)
    expect(standing(keeper, keyOf(100), team, at(0))).toEqual({ kind: 'key', spent: 0, reserved: 69 * CENT })
  })

  test('by a budget with counts: it is exceeded by at most one request', async () => {
    const { limiters } = await start(4)
    expect((await stampede(limiters, keyOf(10), () => costing(4, 1, 4))).length).toBe(3)
  })

  test('by an upstream', async () => {
    const { limiters } = await start(4)
    const upstream = toUpstream({ concurrency: 5 })
    const all = limiters.flatMap((one) => Array.from({ length: 20 }, () => one.permit(upstream, 1, 0)))
    const permits = (await Promise.all(all)).filter((one): one is Permit => !(one instanceof UpstreamError))
    expect(permits.length).toBe(5)
    permits[0]?.leave(1)
    permits[0]?.leave(1)
    // Each link is in order; this is the first worker's.
    const [again, oneMore] = await Promise.all([0, 1].map(() => limiters[0]?.permit(upstream, 1, 0)))
    expect([again instanceof UpstreamError, oneMore instanceof UpstreamError]).toEqual([false, true])
  })
})

describe('a nearly spent budget', () => {
  test('has the requests of other workers counted', async () => {
    const { worker, keeper } = await start(2)
    const [one, other] = [worker(0), worker(1)]
    const [first, second] = [costing(6, 1, 2), costing(8, 6, 8)]
    await admitted(one, keyOf(10), first)
    await admitted(other, keyOf(10), second)
    expect([first.counts, second.counts]).toEqual([1, 1])
    expect(standing(keeper, keyOf(10), null, at(0)).reserved).toBe(10 * CENT)
  })

  test('does not wait for a worker that was paused, or has ended', async () => {
    const { worker, links } = await start(3, async () => {})
    const [one, other, third] = [worker(0), worker(1), worker(2)]
    const stuck = costing(4, 1, 1)
    if (stuck.counting) stuck.counting.count = () => new Promise(() => {})
    await admitted(one, keyOf(10), stuck)
    await admitted(third, keyOf(10), costing(4, 1, 1))
    links[2]?.close()
    expect(await ask(other, keyOf(10), costing(8, 4, 8))).toMatchObject({ kind: 'insufficient_quota' })
  })

  test('reports its remaining amount in refusals', async () => {
    const { limiter } = await start()
    const first = await admitted(limiter, keyOf(10), cents(4))
    expect(await first.raise(cents(11))).toBeInstanceOf(GatewayError)
    expect(first.room()).toBe(10 * CENT)
    const entered = await limiter.enter('r', keyOf(10), null, 0)
    if (entered instanceof GatewayError) throw entered
    expect(await entered.admit(cents(7), at(0))).toBeInstanceOf(GatewayError)
    expect(entered.room(at(0))).toBe(6 * CENT)
    expect(await entered.admit(cents(6), at(0))).not.toBeInstanceOf(GatewayError)
  })
})

test('an upstream at its limit counts as such for a moment, or until a slot is free', async () => {
  const { limiter, settled } = await start()
  const [rated, slots] = [toUpstream({ rpm: 2, tpm: 50 }), { ...toUpstream({ concurrency: 1 }), id: 'slots' }]
  const isFull = (asked: number, atMs: number) => limiter.isFull(rated, asked, atMs)
  await limiter.permit(rated, 20, 0)
  expect([isFull(20, 0), isFull(51, 0)]).toEqual([false, true])
  const second = await limiter.permit(rated, 20, 0)
  if (!(second instanceof UpstreamError)) second.leave(20)
  await settled()
  expect([isFull(20, 0), isFull(20, 199), isFull(20, 200)]).toEqual([true, true, false])
  expect(limiter.isFull(toUpstream({ rpm: 3 }), 20, 0)).toBe(false)
  expect(await limiter.permit(rated, 20, 0)).toBeInstanceOf(UpstreamError)
  expect([isFull(20, 199), isFull(10, 199)]).toEqual([true, false])
  const permit = await limiter.permit(slots, 1, 0)
  expect(limiter.isFull(slots, 1, 0)).toBe(true)
  if (!(permit instanceof UpstreamError)) permit.leave(1)
  await settled()
  expect(limiter.isFull(slots, 1, 0)).toBe(false)
})

describe('a worker that ends', () => {
  const key = limited({ rpm: 10, tpm: 1000, concurrency: 3 }, { budget: budget(100) })
  const upstream = toUpstream({ concurrency: 1 })

  test("keeps its requests' reservations until its journal is read, then charges their cost", async () => {
    const { worker, links, near, served, keeper } = await start(2)
    const [dying, other] = [worker(0), worker(1)]
    const abandoned = mintId(NOON)
    for (const id of [abandoned, 'never recorded'])
      await admitted(dying, key, { tokens: 100, nanoUsd: 30 * CENT }, null, id)
    await dying.enter('reading', key, null, 0)
    await dying.permit(upstream, 1, 0)
    links[0]?.close()
    await near[0]?.ended
    expect(served[0]?.requests()).toEqual([abandoned, 'never recorded', 'reading'])
    expect(await ask(other, key, cents(1))).toMatchObject({ kind: 'request_limit' })
    expect(await other.permit(upstream, 1, 0)).toBeInstanceOf(UpstreamError)
    served[0]?.ended({ id: abandoned, keyId: key.id, teamId: null, costNanoUsd: 45 * CENT })
    served[0]?.resolve((id) => (id === abandoned ? { nanoUsd: 45 * CENT, tokens: null } : null))
    expect(standing(keeper, key, null, at(0))).toMatchObject({ spent: 45 * CENT, reserved: 0 })
    expect(served[0]?.requests()).toEqual([])
    const next = await admitted(other, key, { tokens: 1, nanoUsd: 55 * CENT })
    expect(next.headers).toMatchObject({
      'x-ratelimit-remaining-requests': '8',
      'x-ratelimit-remaining-tokens': '899',
    })
    expect(await other.permit(upstream, 1, 0)).not.toBeInstanceOf(UpstreamError)
  })

  test('and had settled requests that its journal lacks: the ledger is right', async () => {
    const { limiter, links, near, served, keeper, settled } = await start()
    const [recorded, lost] = [mintId(NOON), mintId(NOON)]
    for (const id of [recorded, lost]) (await admitted(limiter, keyOf(100), cents(30), null, id)).settle(cents(5))
    await settled()
    links[0]?.close()
    await near[0]?.ended
    const ended = (id: string, costs: number) =>
      served[0]?.ended({ id, keyId: keyOf(100).id, teamId: null, costNanoUsd: costs * CENT })
    ended(recorded, 5)
    ended(lost, 30)
    served[0]?.resolve(() => null)
    expect(standing(keeper, keyOf(100), null, at(0))).toMatchObject({ spent: 35 * CENT, reserved: 0 })
  })

  test('during a count leaves no reservation', async () => {
    const { limiter, links, near, served, keeper } = await start()
    const slow = costing(101, 50, 60)
    const asked = Promise.withResolvers<void>()
    if (slow.counting)
      slow.counting.count = () => {
        asked.resolve()
        return new Promise(() => {})
      }
    void ask(limiter, key, slow, null, 'counted')
    await asked.promise
    links[0]?.close()
    await near[0]?.ended
    served[0]?.resolve(() => null)
    await Bun.sleep(1)
    expect(standing(keeper, key, null, at(0))).toMatchObject({ spent: 0, reserved: 0 })
  })
})

describe('an amount that the keeper has leased', () => {
  const team = toTeam(budget(1_000_000), 't1', { rpm: 3000, tpm: 1e6, concurrency: 1000 })
  const key = limited({ rpm: 2000, tpm: 1e6, concurrency: 1000 }, { budget: budget(1_000_000) })
  const rounds = async (limiter: RequestLimiter, count: number, asked: Ask = cents(1)) => {
    const all: (Reservation | GatewayError)[] = []
    for (let each = 0; each < count; each++) all.push(await ask(limiter, key, asked, team, mintId(NOON)))
    return all
  }
  const spentOf = (keeper: Limiter) => [...keeper.budgetUses('key', NOON)][0]?.spentNanoUsd
  const isAdmitted = (one: Reservation | GatewayError): one is Reservation => !(one instanceof GatewayError)

  test('admits most requests without a message, and all workers together no more than the limit', async () => {
    const { limiters, served, keeper, settled } = await start(3)
    let count = 0
    let isFull = false
    while (!isFull) {
      const decided = (await Promise.all(limiters.map((one) => rounds(one, 20)))).flat()
      for (const one of decided.filter(isAdmitted)) one.settle(cents(1))
      count += decided.filter(isAdmitted).length
      isFull = !decided.every(isAdmitted)
    }
    expect(count).toBe(2000)
    await settled()
    expect(served.flatMap((one) => one.requests()).length).toBe(0)
    await until('all to be told', () => spentOf(keeper) === 2000 * CENT)
  })

  test('is returned once another worker needs it, and prompts of its requests are counted then', async () => {
    const { worker } = await start(2)
    const likely = costing(10_000, 100, 100)
    const running = (await rounds(worker(0), 10, likely)).filter(isAdmitted)
    expect(running.length).toBe(10)
    expect((await admitted(worker(1), key, costing(999_000, 999_000, 999_000), team)).hasBudget).toBe(true)
    expect(await ask(worker(1), key, cents(1), team)).toMatchObject({ kind: 'insufficient_quota' })
    for (const one of running) one.cancel()
    await admitted(worker(1), key, cents(10 * 100), team)
  })

  test('is returned once a request at the keeper needs it', async () => {
    const { limiter, keeper, settled } = await start()
    const own = createRecallingLimiter(keeper)
    const upstream = toUpstream({ concurrency: 100 })
    for (const one of await rounds(limiter, 10)) if (isAdmitted(one)) one.settle(cents(1))
    for (let each = 0; each < 10; each++) await limiter.permit(upstream, 1, 0)
    const first = await admitted(own, key, cents(990_000), team)
    for (const one of await rounds(limiter, 1)) if (isAdmitted(one)) one.cancel()
    await settled()
    const canceled = await own.enter('canceled', key, team, 0)
    if (canceled instanceof GatewayError) throw canceled
    const admitting = canceled.admit(cents(9_500), at(0))
    canceled.cancel()
    expect(await admitting).toMatchObject({ kind: 'overloaded' })
    expect(await first.raise(cents(999_990))).toBeNull()
    expect(await ask(own, key, cents(1), team)).toMatchObject({ kind: 'insufficient_quota' })
    for (let each = 0; each < 90; each++) expect(await own.permit(upstream, 1, 0)).not.toBeInstanceOf(UpstreamError)
    expect(await own.permit(upstream, 1, 0)).toBeInstanceOf(UpstreamError)
    first.settle(cents(1))
  })

  test('covers a request that grows, until the keeper has the request, which then knows its cost either way', async () => {
    const { limiter, served, keeper, settled } = await start()
    const decided: Reservation[] = []
    let asked = -1
    while (asked !== served[0]?.requests().length) {
      asked = served[0]?.requests().length ?? 0
      decided.push(...(await rounds(limiter, 1)).filter(isAdmitted))
    }
    const last = decided.at(-1)
    expect(await last?.raise(cents(100))).toBeNull()
    expect(served[0]?.requests().length).toBe(asked)
    expect(await last?.raise(cents(500_000))).toBeNull()
    expect(await last?.raise({ ...cents(1_000_001), isMore: true })).toMatchObject({ kind: 'insufficient_quota' })
    expect(served[0]?.requests().length).toBe(asked + 1)
    for (const one of decided) one.settle(cents(3))
    await settled()
    await until('all to be told', () => spentOf(keeper) === 3 * decided.length * CENT)
  })

  test('is free once its worker has ended, and budgets have spent what the ledger has', async () => {
    const { worker, served, keeper, near, links } = await start(2)
    const ids: string[] = []
    const admit = async (count: number) => {
      const all = []
      for (let each = 0; each < count; each++) all.push(await admitted(worker(0), key, cents(10), team, mintId(NOON)))
      return all
    }
    const ended = (costs: number) => {
      const id = mintId(NOON)
      ids.push(id)
      served[0]?.ended({ id, keyId: key.id, teamId: team.id, costNanoUsd: costs * CENT })
    }
    for (const one of await admit(40)) one.settle(cents(4))
    for (let each = 0; each < 40; each++) ended(4)
    await until('a part to be told', () => spentOf(keeper) === 160 * CENT)
    const [, , ...rest] = await admit(12)
    for (const one of rest) one.settle(cents(4))
    links[0]?.close()
    await near[0]?.ended
    for (let each = 0; each < 10; each++) ended(4)
    ended(10)
    served[0]?.ended({ id: ids.at(-1) ?? '', keyId: key.id, teamId: team.id, costNanoUsd: 10 * CENT })
    served[0]?.resolve(() => null)
    expect(standing(keeper, key, team, at(0))).toMatchObject({ spent: 210 * CENT, reserved: 0 })
    expect((await admitted(worker(1), key, cents(1_000_000 - 210), team)).hasBudget).toBe(true)
  })

  test('is not needed for requests that should be free, but their cost counts anyway', async () => {
    const { limiter, keeper, served } = await start()
    const [free, decided]: [Key, Reservation[]] = [keyOf(100), []]
    for (let each = 0; each < 10; each++) decided.push(await admitted(limiter, free, tokens(1)))
    expect(served[0]?.requests().length).toBeLessThan(10)
    for (const one of decided) one.settle(cents(5))
    await until('all to be told', () => spentOf(keeper) === 50 * CENT)
  })

  test('is returned even if the keeper leased it later than any request waits', async () => {
    const { limiter } = await start(1, undefined, 100)
    const first = await admitted(limiter, key, cents(1), team)
    // It has requested a lease meanwhile.
    Bun.sleepSync(150)
    await Bun.sleep(20)
    first.cancel()
    expect((await admitted(limiter, key, cents(1_000_000), team)).hasBudget).toBe(true)
  })

  test('continues after a takeover by another server that failed', async () => {
    const { limiter, served, keeper } = await start()
    const before = (await rounds(limiter, 40)).filter(isAdmitted)
    limiter.askSuccessor(async () => undefined)
    const after = (await rounds(limiter, 40)).filter(isAdmitted)
    expect(served[0]?.requests().length).toBeLessThan(40)
    for (const one of [...before, ...after]) one.settle(cents(1))
    await until('all to be told', () => spentOf(keeper) === 80 * CENT)
  })

  test('if returned for a request that ends meanwhile, leaves nothing of that request', async () => {
    const { limiter, served, keeper } = await start()
    const slots = limited({ concurrency: 200 })
    for (let each = 0; each < 10; each++) await admitted(limiter, slots, tokens(1))
    const unread = limiter.enter('unread', slots, null, 0)
    while (!(keeper.enter('local', slots, null, 0) instanceof GatewayError));
    if (unread instanceof Promise || unread instanceof GatewayError) throw new Error('is not covered')
    const bad = new GatewayError('invalid_request', 'no JSON')
    await unread.refuse(bad, 0)
    expect(served[0]?.requests()).not.toContain('unread')
  })

  test('if returned for a call that its worker gives up, leaves nothing of that call', async () => {
    const { limiter, keeper, links } = await start(2)
    const upstream = toUpstream({ concurrency: 200 })
    for (let each = 0; each < 10; each++) await limiter.permit(upstream, 1, 0)
    const fill = () => {
      let count = 0
      while (!(keeper.permit(upstream, 1, 0) instanceof UpstreamError)) count++
      return count
    }
    const before = fill()
    const asking = links[1]?.ask(PERMIT, { ...upstream, number: 1, tokens: 1 })
    await Promise.all([asking, links[1]?.ask(LEAVE, { number: 1, tokens: null })])
    expect(before + fill()).toBe(190)
  })

  test("does not raise the remaining amounts in its requests' headers", async () => {
    const { limiter, links, settled } = await start()
    const rate = limited({ rpm: 1000 })
    const enter = async () => {
      const entered = await limiter.enter('r', rate, null, 0)
      if (entered instanceof GatewayError) throw entered
      return entered
    }
    const [last, next, ...first] = [await enter(), await enter(), await enter(), await enter(), await enter()]
    for (const one of first) await one.admit(tokens(1), at(0))
    // Requested before the lease, and decided before it.
    const before = links[0]?.ask(LEAVE, { number: 0, tokens: null }).then(() => next?.admit(tokens(1), at(0)))
    await Promise.all([last?.admit(tokens(1), at(0)), before])
    await settled()
    const { headers } = await admitted(limiter, rate, tokens(1))
    expect(headers['x-ratelimit-remaining-requests']).toBe('994')
  })
})

describe('without its keeper', () => {
  test('a worker refuses new requests with limits, and lets admitted ones call their upstreams', async () => {
    const { limiter, near } = await start()
    const entered = await limiter.enter('r', limited({ rpm: 9 }), null, 0)
    near[0]?.close()
    if (entered instanceof GatewayError) throw entered
    const error = await entered.admit(tokens(1), at(0))
    expect(error).toMatchObject({ kind: 'overloaded', status: 503, headers: { 'retry-after': '1' } })
    expect(await ask(limiter, keyOf(9), cents(1))).toMatchObject({
      message: "The Tollgate process that enforces limits doesn't respond or has ended. Try again in a few seconds.",
    })
    expect(await limiter.enter('r', limited({ rpm: 9 }), null, 0)).toMatchObject({ kind: 'overloaded' })
    await entered.refuse(error as GatewayError, 0)
    expect(await limiter.permit(toUpstream({ rpm: 1 }), 1, 0)).not.toBeInstanceOf(UpstreamError)
  })

  test('if its response is too late, a worker refuses, and the keeper reserves nothing', async () => {
    const path = join(folder, `${++sockets}.sock`)
    const near: Link[] = []
    const listener = listenForLinks(path, (link) => near.push(link))
    const link = await connectLink(path)
    listener.stop()
    const limiter = createRemoteLimiter(link, {
      monotonicMs: () => 0,
      now: () => at(0).wallMs,
      workers: 1,
      patienceMs: 1,
    })
    const key = limited({ rpm: 5, concurrency: 1 }, { budget: budget(10) })
    const upstream = toUpstream({ concurrency: 1 })
    expect(await ask(limiter, key, cents(3))).toMatchObject({ kind: 'overloaded' })
    expect(await ask(limiter, keyOf(10), cents(3))).toMatchObject({ kind: 'overloaded' })
    const permit = await limiter.permit(upstream, 1, 0)
    if (!(permit instanceof UpstreamError)) permit.leave(1)
    const keeper = createLimiter()
    for (const one of near)
      serveLimits(one, { limiter: keeper, monotonicMs: () => 0, now: () => at(0).wallMs, sleep: Bun.sleep })
    await link.ask(LEAVE, { number: 0, tokens: null })
    expect(standing(keeper, key, null, at(0))).toMatchObject({ spent: 0, reserved: 0 })
    expect(keeper.permit(upstream, 1, 0)).not.toBeInstanceOf(UpstreamError)
    expect((await admitted(keeper, key, cents(10))).headers).toMatchObject({ 'x-ratelimit-remaining-requests': '4' })
  })

  test('a request that ends while its prompt is counted reserves nothing', async () => {
    const keeper = createLimiter()
    const slow = costing(101, 50, 60)
    const entered = keeper.enter('r', keyOf(100), null, 0)
    if (entered instanceof GatewayError) throw entered
    const admitting = entered.admit(slow, at(0))
    entered.cancel()
    await admitting
    expect(standing(keeper, keyOf(100), null, at(0))).toMatchObject({ spent: 0, reserved: 0 })
  })

  test('a running request costs more only within the next server’s budgets, else within the last known amounts', async () => {
    const { limiter, near } = await start()
    const key = keyOf(10)
    const running = await admitted(limiter, key, cents(2), null, 'running')
    near[0]?.close()
    expect(await running.raise(cents(10))).toBeNull()
    expect(await running.raise(costing(12, 9, 9))).toBeNull()
    expect((await running.raise({ ...cents(11), isMore: true }))?.message).toStartWith('The response ends here: ')
    const next = createLimiter()
    next.renew([key], [], (_, __, inFlight) => inFlight.set('running', 2 * CENT).size * 2 * CENT, at(1))
    limiter.askSuccessor(async (raise) => next.raiseHeld(raise))
    next.admit(key, null, cents(5), at(2))
    expect(await running.raise(cents(5))).toBeNull()
    expect(await running.raise({ ...cents(6), isMore: true })).toMatchObject({ kind: 'insufficient_quota' })
    limiter.askSuccessor(async () => undefined)
    expect(await running.raise(cents(6))).toBeNull()
    running.settle(cents(1))
  })
})
