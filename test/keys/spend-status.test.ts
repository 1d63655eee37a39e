/** Spend status of keys: which periods are read from the ledger, and the result. */
import { expect, test } from 'bun:test'
import type { Period } from '../../src/domain/limits.ts'
import { readSpendStatuses, toFirstSpendStatus } from '../../src/keys/spend-status.ts'
import type { Span } from '../../src/store/ledger-store.ts'
import type { Spending, SpendReader } from '../../src/store/report-store.ts'

const NOW = Date.UTC(2026, 10, 21, 13)
const LAST_USE = { atMs: NOW - 1, model: 'acme/large' }
const SPENDING: Spending = { nanoUsd: { day: 1, week: 20, month: 300, total: 4_000 }, lastUse: LAST_USE }

async function read(latestMs = NOW, id?: string) {
  const asked: { spans: Readonly<Record<Period, Span>>; id: string | undefined }[] = []
  const reader: SpendReader = {
    async spending(_, spans, only) {
      asked.push({ spans, id: only })
      return new Map([['k', SPENDING]])
    },
    latestHour: async () => latestMs,
    refused: async () => new Map(),
  }
  return { statusOf: await readSpendStatuses(reader, 'key', NOW, id), asked }
}

test('the ledger is queried once for all keys, for the current periods', async () => {
  const { statusOf, asked } = await read(NOW, 'k')
  for (let i = 0; i < 3; i++) statusOf({ id: 'k', budget: null })
  const spans = {
    day: { fromMs: Date.UTC(2026, 10, 21), untilMs: Date.UTC(2026, 10, 22) },
    week: { fromMs: Date.UTC(2026, 10, 16), untilMs: Date.UTC(2026, 10, 23) },
    month: { fromMs: Date.UTC(2026, 10, 1), untilMs: Date.UTC(2026, 11, 1) },
    total: { fromMs: 0, untilMs: Number.MAX_SAFE_INTEGER },
  }
  expect(asked).toMatchObject([{ spans, id: 'k' }])
})

test('if the clock was set back, periods stay as far as they got', async () => {
  const { asked } = await read(Date.UTC(2026, 10, 23, 1))
  expect(asked[0]?.spans).toMatchObject({
    day: { fromMs: Date.UTC(2026, 10, 21), untilMs: Date.UTC(2026, 10, 24) },
    week: { fromMs: Date.UTC(2026, 10, 16), untilMs: Date.UTC(2026, 10, 30) },
  })
})

test.each([
  ['day', 1, Date.UTC(2026, 10, 22)],
  ['week', 20, Date.UTC(2026, 10, 23)],
  ['month', 300, Date.UTC(2026, 11, 1)],
  ['total', 4_000, null],
] as const)(
  'a budget per %s stands at what was spent in that, until the next one',
  async (period, spentNanoUsd, resetMs) => {
    const status = (await read()).statusOf({ id: 'k', budget: { nanoUsd: 5_000, period } })
    expect(status).toMatchObject({ budget: { spentNanoUsd, resetMs }, monthNanoUsd: 300, totalNanoUsd: 4_000 })
  },
)

test('without a budget there are spend and last use, and nothing for an unused key', async () => {
  const { statusOf } = await read()
  const spent = { budget: null, monthNanoUsd: 300, totalNanoUsd: 4_000, lastUse: LAST_USE, refusal: null }
  expect(statusOf({ id: 'k', budget: null })).toEqual(spent)
  const budget = { nanoUsd: 5, period: 'day' } as const
  expect(statusOf({ id: 'other', budget })).toEqual(toFirstSpendStatus({ budget }, NOW))
  expect(toFirstSpendStatus({ budget }, NOW)).toMatchObject({
    budget: { spentNanoUsd: 0 },
    totalNanoUsd: 0,
    lastUse: null,
  })
})
