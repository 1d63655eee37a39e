/**
 * Retention under load: the audit stays exact, and a server that is killed during retention loses and duplicates
 * nothing.
 */
import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { HOUR_MS } from '../../src/domain/time.ts'
import { auditLedger } from '../../src/ledger/audit.ts'
import { openStorage } from '../../src/server/storage.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { createLedgerAudit } from '../../src/store/sqlite/ledger-audit.ts'
import { COMMAND_BUSY_MS, openDatabase } from '../../src/store/sqlite/open.ts'
import { createTestLog } from '../ledger/fixture.ts'
import { createRandom } from '../support/random.ts'
import { BASE_MS, toFastMs } from './retention-server.ts'

const ROUNDS = Number(process.env.RETENTION_ROUNDS ?? 12)
const SEED = Number(process.env.RETENTION_SEED ?? Date.now() % 1_000_000)
const LIMIT_MS = 10 * 60_000

test(
  `a server that takes old requests away is killed ${ROUNDS} times (RETENTION_SEED=${SEED})`,
  async () => {
    const random = createRandom(SEED)
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-retention-'))
    const data = join(folder, 'data')
    const [opened, settled] = [join(folder, 'opened'), join(folder, 'settled')]
    for (const file of [opened, settled]) writeFileSync(file, '')
    const sinceMs = Date.now()
    /** The result of its audit, and the number of requests in the rollup. */
    const look = () => {
      const database = openDatabase(databasePath(data), { busyMs: COMMAND_BUSY_MS, readonly: true })
      try {
        const one = (sql: string) => Number(Object.values(database.query<object, []>(sql).get() ?? {})[0] ?? 0)
        return {
          audit: auditLedger(createLedgerAudit(database, data), data),
          summed: one('SELECT SUM(requests) FROM usage_hourly'),
          cost: one('SELECT SUM(cost_nano_usd) FROM usage_hourly'),
          rows: one('SELECT COUNT(*) FROM requests'),
        }
      } finally {
        database.close()
      }
    }
    let latest = { summed: 0, rows: 0, fromMs: 0 }
    for (let round = 0; round < ROUNDS; round++) {
      const server = Bun.spawn(
        [process.execPath, join(import.meta.dir, 'retention-server.ts'), data, String(sinceMs), opened, settled],
        { stdin: 'pipe', stdout: 'pipe', stderr: 'inherit' },
      )
      await server.stdout.getReader().read()
      await Bun.sleep(200 + random() * 1_500)
      expect(look().audit.findings).toEqual([])
      server.kill('SIGKILL')
      await server.exited
      const nowMs = toFastMs(sinceMs)
      const clock = { now: () => nowMs, monotonicMs: () => nowMs }
      const cleanup = new AsyncDisposableStack()
      await openStorage(
        { version: '1.2.3', dataFolder: data, instance: 'after', startedMs: nowMs, log: createTestLog(), ...clock },
        cleanup,
      )
      await cleanup.disposeAsync()
      const { audit, summed, cost, rows } = look()
      expect(audit.findings).toEqual([])
      expect(cost).toBe(summed)
      expect(summed).toBeGreaterThanOrEqual(statSync(settled).size)
      expect(summed).toBeLessThanOrEqual(statSync(opened).size)
      latest = { summed, rows, fromMs: audit.fromMs }
    }
    console.log('retention:', JSON.stringify(latest))
    expect(latest.fromMs).toBeGreaterThan(BASE_MS)
    expect(latest.fromMs % HOUR_MS).toBe(0)
    expect(latest.rows).toBeLessThan(latest.summed)
    rmSync(folder, { recursive: true })
  },
  LIMIT_MS,
)
