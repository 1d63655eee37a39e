/** Checks of keys by `doctor`: expired or expiring ones, and budgets spent or nearly spent. */
import { describe, expect, test } from 'bun:test'
import { checkKeys } from '../../src/documents/checks.ts'
import type { Budget } from '../../src/domain/limits.ts'
import { decideKey, type KeyOptions, type ListedKey } from '../../src/keys/service.ts'
import { readSpendStatuses } from '../../src/keys/spend-status.ts'
import type { SpendReader } from '../../src/store/report-store.ts'

const NOW = Date.UTC(2026, 10, 21)
const DAY = 86_400_000
const BY = { actor: 'test', nowMs: NOW - 60 * DAY }
const MONTHLY: Budget = { nanoUsd: 20_000_000_000, period: 'month' }

const toKey = (options: Partial<KeyOptions>): ListedKey =>
  decideKey({ keys: [], teams: [] }, { name: 'dev', models: [], ...options }, BY).value.key

async function look(keys: ListedKey[], spent = 0) {
  const nanoUsd = { day: spent, week: spent, month: spent, total: spent }
  const reader: SpendReader = {
    spending: async () => new Map(keys.map(({ id }) => [id, { nanoUsd, lastUse: null }])),
    latestHour: async () => 0,
    refused: async () => new Map(),
  }
  const statuses = await readSpendStatuses(reader, 'key', NOW)
  return checkKeys({ keys, teams: [] }, () => statuses, NOW).map((check) => Object.values(check).join(': '))
}

describe('keys', () => {
  test('that are active are counted', async () => {
    expect(await look([toKey({}), toKey({ name: 'ci', budget: MONTHLY })])).toEqual([
      'keys: ok: 2 active keys; none expires soon or is near its budget.',
    ])
  })

  test('without an active one are a finding', async () => {
    expect(await look([])).toEqual([expect.stringContaining('No active keys. Create one')])
    expect(await look([{ ...toKey({}), revokedMs: NOW - 1 }])).toEqual([
      expect.stringContaining('tollgate keys create'),
    ])
  })

  test('that expire or expired within a week are named with the time', async () => {
    const keys = [
      toKey({}),
      toKey({ name: 'soon', expiresMs: NOW + 2 * DAY }),
      toKey({ name: 'late', expiresMs: NOW - DAY }),
    ]
    expect(await look(keys)).toEqual([
      expect.stringMatching(/^keys: warning: late expired on 2026-11-20\. .*keys edit NAME --expires/),
      expect.stringMatching(/^keys: warning: soon expires on 2026-11-23\./),
    ])
    expect(await look([toKey({ expiresMs: NOW + 8 * DAY }), toKey({ expiresMs: NOW - 8 * DAY })])).toEqual([
      expect.stringContaining('1 active key;'),
    ])
  })

  test('with a spent or nearly spent budget are named with their spend', async () => {
    const keys = [toKey({ budget: MONTHLY })]
    expect(await look(keys, 20_000_000_000)).toEqual([
      expect.stringMatching(
        /^budgets: warning: key dev has spent its budget; its requests fail \(all of \$20\/month, resets on 2026-12-01\)/,
      ),
    ])
    expect(await look(keys, 17_000_000_000)).toEqual([
      expect.stringMatching(/^budgets: warning: key dev is near .* \(85%/),
    ])
    expect(await look([{ ...toKey({ budget: MONTHLY }), revokedMs: NOW }, toKey({})], 20_000_000_000)).toEqual([
      expect.stringContaining('1 active key;'),
    ])
  })
})
