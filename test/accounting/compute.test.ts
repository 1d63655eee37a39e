/** A server's working time on a call, if that has a price. The test controls the clock. */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { charge, toComputeMs, toMostComputeMs, toReportedBill } from '../../src/accounting/bill.ts'
import { Call, DisconnectedCalls } from '../../src/accounting/call.ts'
import { toMostNanoUsd } from '../../src/accounting/cost.ts'
import { DEFAULT_DEADLINES } from '../../src/domain/deadlines.ts'
import { NO_USAGE, type PricingItem } from '../../src/domain/usage.ts'
import { DONE, text } from '../support/answers.ts'
import { toKey, toTarget } from '../support/snapshot.ts'

const TIMED: PricingItem[] = [{ prompt: '0.000001', completion: '0.000002', second: '0.0005' }]
const UNTIMED: PricingItem[] = [{ prompt: '0.000001', completion: '0.000002' }]

/** A call at 0 on a clock that the test controls. */
function begin(pricing: PricingItem[], { stream = true, deadlines = DEFAULT_DEADLINES } = {}) {
  const clock = { nowMs: 0 }
  const deps = {
    key: toKey(),
    reservation: { releaseSlot() {} },
    disconnectedCalls: new DisconnectedCalls({ disconnectGraceMs: 0 }),
    monotonicMs: () => clock.nowMs,
  }
  const target = { ...toTarget({ local: true, deadlines }), pricing }
  return { clock, call: new Call(deps, 1, target, { model: 'm', messages: [], stream }, 'translated', null) }
}

describe('compute', () => {
  test('is the time from sending a call to its end, in whole ms, without any wait before', () => {
    const { clock, call } = begin(TIMED)
    clock.nowMs = 60_000
    call.sent()
    clock.nowMs = 61_200.4
    call.meter.take([text('abc')])
    expect(toComputeMs(call)).toBe(1_200)
    clock.nowMs = 62_000
    call.meter.take([{ kind: 'usage', usage: { ...NO_USAGE, prompt: 10, completion: 5 } }, DONE])
    clock.nowMs = 90_000
    expect(toReportedBill(call, 'ok')).toMatchObject({
      ...{ usage: { prompt: 10, completion: 5, computeMs: 2_000 }, estimated: false },
      costNanoUsd: 10 * 1_000 + 5 * 2_000 + 2_000 * 500,
    })
  })

  test('restarts if a call is sent again', () => {
    const { clock, call } = begin(TIMED)
    call.sent()
    clock.nowMs = 1_000
    call.sent()
    clock.nowMs = 1_300
    call.meter.take([DONE])
    expect(toComputeMs(call)).toBe(300)
  })

  test('is none for a call that was not sent, or failed before its first word', () => {
    const unsent = begin(TIMED)
    unsent.clock.nowMs = 5_000
    unsent.call.meter.end('cut')
    expect(toComputeMs(unsent.call)).toBe(0)
    const failed = begin(TIMED)
    failed.call.sent()
    failed.clock.nowMs = 5_000
    failed.call.meter.fail(new Error('it broke'))
    expect(toReportedBill(failed.call, 'failed')).toMatchObject({ usage: { computeMs: 0 }, costNanoUsd: 0 })
  })

  test('is not counted without a price', () => {
    const { clock, call } = begin(UNTIMED)
    call.sent()
    clock.nowMs = 5_000
    call.meter.take([DONE])
    expect(charge(call, 'ok', { ...NO_USAGE, prompt: 1 }, false)).toMatchObject({
      ...{ usage: { computeMs: 0 }, costNanoUsd: 1_000 },
    })
  })

  test('is recorded next to an upstream’s reported charge, and adds no cost', () => {
    const { clock, call } = begin(TIMED)
    call.sent()
    clock.nowMs = 400
    call.meter.take([{ kind: 'charged', nanoUsd: 7 }, DONE])
    const { usage, costNanoUsd } = charge(call, 'ok', NO_USAGE, false)
    expect([usage.computeMs, costNanoUsd]).toEqual([400, 7])
  })

  test('never costs more than its reservation, however late its end is noticed', () => {
    const ms = fc.nat({ max: 20_000 })
    const times = fc.record({ total: ms, totalWhole: ms, sentMs: fc.array(ms, { maxLength: 3 }), endMs: ms })
    fc.assert(
      fc.property(times, fc.boolean(), ({ total, totalWhole, sentMs, endMs }, stream) => {
        const { clock, call } = begin(TIMED, { stream, deadlines: { ...DEFAULT_DEADLINES, total, totalWhole } })
        const sent = sentMs.toSorted((a, b) => a - b)
        for (const at of sent) {
          clock.nowMs = at
          call.sent()
        }
        clock.nowMs += endMs
        call.meter.take([DONE])
        const { target, body } = call
        const most = toMostComputeMs(target.upstream, body)
        const { usage, costNanoUsd } = charge(call, 'ok', { ...NO_USAGE, prompt: 3, completion: 4 }, false)
        expect(usage.computeMs).toBe(sent.length === 0 ? 0 : Math.min(endMs, most))
        expect(costNanoUsd).toBe(3 * 1_000 + 4 * 2_000 + usage.computeMs * 500)
        expect(toMostNanoUsd(target, 3, 4, body)).toBeGreaterThanOrEqual(costNanoUsd)
      }),
      { numRuns: 500 },
    )
  })
})
