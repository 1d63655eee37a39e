/** Writing a call may wait for seconds: if a client disconnects in between, nothing is sent. */
import { expect, test } from 'bun:test'
import { DisconnectedCalls } from '../../src/accounting/call.ts'
import { CallLog } from '../../src/accounting/call-log.ts'
import { endedBy } from '../../src/domain/error.ts'
import { NO_USAGE } from '../../src/domain/usage.ts'
import { AdaptiveConcurrency } from '../../src/gateway/adaptive-concurrency.ts'
import { createDispatch } from '../../src/gateway/dispatch.ts'
import { createLimiter } from '../../src/limits/limiter.ts'
import { toOpen } from '../ledger/fixture.ts'
import { onEvery } from '../support/backends.ts'
import { toKey, toTarget } from '../support/snapshot.ts'

test.each([
  ['the client', undefined],
  ['a request that has failed elsewhere', 'superseded'],
])("%s isn't checked in its turn", async (_, reason) => {
  const target = toTarget()
  const leaving = new AbortController()
  const { signal } = leaving
  const calls = new CallLog({
    ...{ isUncapped: true, outputCap: null },
    ...{ isUncapped: true, outputCap: null },
    ledger: { grow() {}, openCall: async () => {} },
    row: toOpen(),
    first: target,
    reservation: { raise: () => null, room: () => Number.POSITIVE_INFINITY, hasBudget: false, releaseSlot() {} },
    key: toKey({ id: 'k' }),
    signal,
    disconnectedCalls: new DisconnectedCalls({ disconnectGraceMs: 60_000 }),
    counter: { bound: async () => null, usage: async () => NO_USAGE },
    now: () => 0,
    monotonicMs: () => 0,
  })
  let asked = 0
  const call = async () => {
    asked++
    throw endedBy('disconnected')
  }
  const dispatch = createDispatch(
    {
      backends: onEvery({ call }),
      limiter: createLimiter(),
      concurrency: new AdaptiveConcurrency(() => 0),
      monotonicMs: () => 0,
      pace: {
        async run(_, work) {
          leaving.abort(reason)
          return work()
        },
      },
    },
    {
      id: 'r',
      calls,
      health: { report() {} },
      slot: { take: () => null },
      key: { quotaId: 'k' },
      waiting: { set() {} },
      isLong: true,
      hops: 'a',
      trace: null,
    },
  )
  const body = { model: 'm', messages: [{ role: 'user' as const, content: 'Hi' }] }
  await expect(dispatch({ target, body, passthrough: null, reason: 'first', signal })).rejects.toMatchObject({
    kind: 'aborted',
  })
  const [begun] = await calls.close()
  expect(asked).toBe(0)
  expect(begun?.meter).toMatchObject({ outcome: 'failed', isGivenUp: false })
})
