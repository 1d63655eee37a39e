/** Whether a server is doing well, in a word and in sentences. */
import { expect, test } from 'bun:test'
import type { UpstreamHealth } from '../../src/health/health.ts'
import {
  createServing,
  type ServingDeps,
  toReadiness,
  toReasons,
  type WatchedParts,
} from '../../src/server/admin-view/admin-view.ts'

const WELL: WatchedParts = {
  ledger: { state: () => 'ok' },
  load: { isDraining: false, inFlight: 0, bufferedBytes: 0 },
  overload: { reason: null },
  disk: { state: () => null },
  health: { states: () => [] },
  fleet: { status: () => null },
  watch: { healthy: () => true },
  tls: null,
  cluster: null,
  figuresOf: () => null,
}
const DISK = {
  used_bytes: 1,
  reusable_bytes: 0,
  free_bytes: 1,
  budget_bytes: null,
}
const upstream = (state: UpstreamHealth['state'], isUsed = true): UpstreamHealth => ({
  ...{ id: 'ollama', state, reason: 'ECONNREFUSED', suspended: [], last_ok_ms: null, last_error: null },
  targets: isUsed ? [{} as UpstreamHealth['targets'][number]] : [],
})

test.each<[string, Partial<WatchedParts>, ReturnType<typeof toReadiness>, RegExp | null]>([
  ['all is well', {}, 'ok', null],
  ['it drains', { load: { ...WELL.load, isDraining: true } }, 'draining', /shutting down/],
  ['the journal is full', { ledger: { state: () => 'unavailable' } }, 'ledger_unavailable', /journal/],
  [
    'the database is behind',
    { ledger: { state: () => 'behind' } },
    'degraded',
    /pending for 10 s: the database is locked/,
  ],
  [
    'there is no room',
    { overload: { reason: '2 requests in flight (limit)' } },
    'degraded',
    /2 requests in flight \(limit\).*--max-in-flight/,
  ],
  ['the disk fills', { disk: { state: () => ({ ...DISK, state: 'filling' }) } }, 'degraded', /Disk space is low/],
  ['the disk is full', { disk: { state: () => ({ ...DISK, state: 'full' }) } }, 'degraded', /The disk is full/],
  ['the disk is well', { disk: { state: () => ({ ...DISK, state: 'ok' }) } }, 'ok', null],
  ['changes are not read', { watch: { healthy: () => false } }, 'degraded', /Configuration changes cannot be read/],
  ['an upstream is down', { health: { states: () => [upstream('down')] } }, 'degraded', /Upstream ollama is down/],
  ['an upstream refuses us', { health: { states: () => [upstream('refused')] } }, 'degraded', /rejects its credential/],
  [
    'a new certificate cannot be used',
    { tls: { states: () => [{ names: [], valid_from_ms: 0, expires_ms: 1, problem: 'It expired.' }] } },
    'degraded',
    /It expired/,
  ],
  ['an upstream is down that nothing leads to', { health: { states: () => [upstream('down', false)] } }, 'ok', null],
  ['an upstream is well', { health: { states: () => [upstream('healthy')] } }, 'ok', null],
])('where %s', (_, parts, readiness, says) => {
  const all = { ...WELL, ...parts }
  expect(toReadiness(all)).toBe(readiness)
  const reasons = toReasons(all)
  expect(reasons).toHaveLength(says === null ? 0 : 1)
  if (says !== null) expect(reasons[0]).toMatch(says)
})

test('a backup that somebody has made is not the scheduled one, which is late', async () => {
  const made = (kind: 'scheduled' | 'made', madeMs: number) => ({ name: kind, kind, bytes: 1, madeMs })
  const serving = createServing({
    ...({ live: {} } as ServingDeps),
    watched: WELL,
    ledger: { flush: async () => ({ applied: 0, waiting: 0 }) },
    shelf: { list: async () => [made('scheduled', 0), made('made', 99_000)] },
    run: () => ({
      ...{ version: '1', instance: 'one', url: '', started_ms: 0, lost: null, untrusted_proxy: null },
      ...{ backups: { every_ms: 10_000, failed: null }, files: { limit: null, max_in_flight: 1, wanted_in_flight: 1 } },
    }),
    backupKeep: 7,
    now: () => 100_000,
  })
  const { backups, checks } = await serving.status()
  expect(backups.newest_ms).toBe(99_000)
  expect(checks).toContainEqual(expect.objectContaining({ name: 'backup', status: 'warning' }))
})
