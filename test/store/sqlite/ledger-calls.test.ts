/** Further calls in the ledger: they stand and fall with their request, in whatever order the records arrive. */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { type LedgerRecord, type OpenRow, toFirstCall } from '../../../src/store/ledger-rows.ts'
import { createLedgerWriter } from '../../../src/store/sqlite/ledger-apply.ts'
import {
  abandonOthers,
  callGrowing,
  calling,
  contentsOf,
  createFolder,
  findingsOf,
  growing,
  HOUR,
  opening,
  settling,
  toCall,
  toOpen,
  toSettled,
  toSettledCall,
} from '../../ledger/fixture.ts'
import { forEachTest } from '../../support/lifetime.ts'

const folder = forEachTest(createFolder)

/** Throws where a record does not fit. */
function createHere() {
  const { apply } = createLedgerWriter(folder.database)
  return { apply: (records: readonly LedgerRecord[]) => expect(apply(records)).toEqual([]) }
}

const findings = () => findingsOf(folder.database, folder.path)

type Step = LedgerRecord | 'abandon'

/** What the ledger holds once the steps were taken, and whoever was left open has been given up. */
function play(steps: readonly Step[]) {
  for (const table of ['requests', 'calls', 'usage_hourly', 'usage_daily']) folder.database.run(`DELETE FROM ${table}`)
  const applier = createHere()
  for (const step of [...steps, 'abandon'] as const) {
    if (step === 'abandon') abandonOthers(folder.database, 'here')
    else applier.apply([step])
  }
  return contentsOf(folder.database)
}

function permutations<T>(items: readonly T[]): T[][] {
  if (items.length <= 1) return [[...items]]
  return items.flatMap((item, i) => permutations(items.toSpliced(i, 1)).map((rest) => [item, ...rest]))
}

test('a settled request and its calls are one commit; the rollup counts the request alone', () => {
  const row = toOpen()
  const calls = [2, 3].map((number) => toCall(row, number))
  const applier = createHere()
  applier.apply([opening(row), ...calls.map((call) => calling(call))])
  const cost = { promptTokens: 21, completionTokens: 13, costNanoUsd: 900, attempts: 3 }
  applier.apply([
    settling(
      toSettled(row, { ...cost, upstream: 'spare' }),
      calls.map((call) => toSettledCall(call)),
    ),
  ])
  const { calls: rows, rollup } = contentsOf(folder.database)
  const call = { request_id: row.id, reason: 'fan_out', status: 'ok', upstream: 'spare', cost_nano_usd: 200 }
  expect(rows).toEqual([
    expect.objectContaining({ number: 1, reason: 'first', reserved_nano_usd: 9_000, cost_nano_usd: 500 }),
    expect.objectContaining({ ...call, number: 2, reserved_nano_usd: 9_100 }),
    expect.objectContaining({ ...call, number: 3 }),
  ])
  expect(rollup).toEqual([
    expect.objectContaining({ upstream: 'spare', requests: 1, prompt_tokens: 21, cost_nano_usd: 900 }),
  ])
  expect(findings()).toEqual([])
})

describe('every order of a request, its calls, its outcome and a start in between', () => {
  const row = toOpen({ instance: 'gone' })
  const [second, third] = [toCall(row, 2), toCall(row, 3, { upstream: 'last' })]
  const begun = [opening(row), calling(second), calling(third)]
  const outcome = settling(toSettled(row, { costNanoUsd: 900, attempts: 3 }), [
    toSettledCall(second, { status: 'failed', costNanoUsd: 0 }),
    toSettledCall(third),
  ])
  // What each of them holds may grow: it costs the largest that is on record.
  const [more, most] = [12_000, 15_000].map((reservedNanoUsd) => ({
    reservedNanoUsd,
    reservedCompletionTokens: reservedNanoUsd,
  }))
  const grown = [growing(row, more ?? {}), growing({ ...row, ...more }, most ?? {}), callGrowing(second, more ?? {})]
  const partial = settling(toSettled(row, { attempts: 2 }), [toSettledCall(second)])
  const scenarios: [string, Step[], { status: string; cost_nano_usd: number; attempts: number }][] = [
    ['settles', [...begun, outcome], { status: 'ok', cost_nano_usd: 900, attempts: 3 }],
    ['gives up what no outcome ends', begun, { status: 'abandoned', cost_nano_usd: 27_200, attempts: 3 }],
    [
      'gives up what held more by then',
      [...begun.slice(0, 2), ...grown],
      { status: 'abandoned', cost_nano_usd: 27_000, attempts: 2 },
    ],
    ['settles what held more by then', [...grown, outcome], { status: 'ok', cost_nano_usd: 900, attempts: 3 }],
    ['forgets a call that was never made', [...begun, partial], { status: 'ok', cost_nano_usd: 500, attempts: 2 }],
  ]
  for (const [name, steps, end] of scenarios) {
    test(name, () => {
      const expected = play(steps)
      expect(expected.requests).toEqual([expect.objectContaining(end)])
      expect(expected.calls).toHaveLength(end.attempts)
      for (const order of permutations<Step>([...steps, 'abandon'])) {
        expect(play(order)).toEqual(expected)
        expect(findings()).toEqual([])
      }
    })
  }
})

test('a call that no outcome names is gone with the next start, or never there where it comes late', () => {
  const [early, late] = [toOpen({ instance: 'gone' }), toOpen({ instance: 'gone' })]
  const applier = createHere()
  applier.apply([opening(early), calling(toCall(early, 2))])
  applier.apply([settling(toSettled(early))])
  applier.apply([opening(late), settling(toSettled(late)), calling(toCall(late, 2))])
  expect(contentsOf(folder.database).calls).toMatchObject([{ request_id: early.id, status: 'open' }])
  expect(abandonOthers(folder.database, 'here')).toBe(0)
  expect(contentsOf(folder.database).calls).toEqual([])
  expect(findings()).toEqual([])
})

test('a call whose request is lost keeps its reserve, until that request turns up', () => {
  const row = toOpen({ instance: 'gone' })
  const applier = createHere()
  applier.apply([calling(toCall(row, 2))])
  abandonOthers(folder.database, 'here')
  expect(contentsOf(folder.database)).toMatchObject({
    requests: [],
    calls: [{ status: 'abandoned', cost_nano_usd: 9_100, estimated: 1 }],
    rollup: [],
  })
  applier.apply([opening(row)])
  abandonOthers(folder.database, 'here')
  expect(contentsOf(folder.database).rollup).toMatchObject([{ requests: 1, cost_nano_usd: 18_100 }])
  expect(findings()).toEqual([])
})

test('a settle of which one call does not fit leaves nothing of itself', () => {
  const row = toOpen()
  const bad = toSettledCall(toCall(row, 3))
  Reflect.set(bad, 'promptTokens', null)
  const settle = settling(toSettled(row, { attempts: 3 }), [toSettledCall(toCall(row, 2)), bad])
  const rejected = createLedgerWriter(folder.database).apply([opening(row), settle])
  expect(rejected.map(({ record }) => record)).toEqual([settle])
  expect(contentsOf(folder.database)).toMatchObject({ requests: [{ status: 'open' }], calls: [], rollup: [] })
})

/** A request with up to four further calls, some of which its outcome, if it has one, may not name. */
const story = fc
  .record({
    calls: fc.nat(4),
    named: fc.integer({ min: 1, max: 4 }),
    isSettled: fc.boolean(),
    isTold: fc.boolean(),
    hour: fc.nat(1),
    upstreams: fc.array(fc.constantFrom('paid', 'spare', 'last'), { minLength: 5, maxLength: 5 }),
    reserved: fc.array(fc.nat(1_000_000), { minLength: 5, maxLength: 5 }),
    cost: fc.array(fc.nat(1_000_000), { minLength: 5, maxLength: 5 }),
  })
  .map(({ calls: count, named, isSettled, isTold, hour, upstreams, reserved, cost }): LedgerRecord[] => {
    const row: OpenRow = toOpen({
      instance: 'gone',
      createdMs: HOUR + hour * 3_600_000 + 5,
      reservedNanoUsd: reserved[0] ?? 0,
    })
    const calls = Array.from({ length: count }, (_, i) =>
      toCall(row, i + 2, { upstream: upstreams[i] ?? 'paid', reservedNanoUsd: reserved[i + 1] ?? 0 }),
    )
    // Each says how the one before it has ended, which costs what it will have cost.
    const told = [toFirstCall(row), ...calls].map((call, i) => toSettledCall(call, { costNanoUsd: cost[i] ?? 0 }))
    const begun = [
      opening(row),
      ...calls.map((call, i) => (isTold ? calling(call, told.slice(i, i + 1)) : calling(call))),
    ]
    if (!isSettled) return begun
    const made = calls.slice(0, named).map((call, i) => toSettledCall(call, { costNanoUsd: cost[i + 1] ?? 0 }))
    const all = { promptTokens: 11 + 5 * made.length, completionTokens: 7 + 3 * made.length, cachedTokens: 9 }
    const costNanoUsd = made.reduce((sum, call) => sum + call.costNanoUsd, cost[0] ?? 0)
    const settled = toSettled(row, { ...all, reasoningTokens: 9, costNanoUsd, attempts: 1 + made.length })
    return [...begun, settling(settled, made)]
  })

test('any order and repetition of any records, with starts in between, ends the same and passes the audit', () => {
  const shuffles = fc.array(story, { minLength: 1, maxLength: 4 }).chain((stories) => {
    const steps: Step[] = stories.flat()
    const repeated = fc
      .tuple(fc.subarray(steps), fc.array(fc.constant<Step>('abandon'), { maxLength: 3 }))
      .chain(([again, starts]) => {
        const all = [...steps, ...again, ...starts]
        return fc.shuffledSubarray(all, { minLength: all.length, maxLength: all.length })
      })
    return fc.tuple(fc.constant(steps), repeated)
  })
  fc.assert(
    fc.property(shuffles, ([steps, shuffled]) => {
      const expected = play(steps)
      expect(play(shuffled)).toEqual(expected)
      expect(findings()).toEqual([])
    }),
    { numRuns: 150 },
  )
})
