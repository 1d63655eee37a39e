/** A server's data folder, opened as a server opens it. */
import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openStorage } from '../../src/server/storage.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { createTestLog, HOUR } from '../ledger/fixture.ts'
import { until } from '../support/until.ts'

const MIB = 1024 ** 2

test('changes of the configuration without a request leave a WAL of a bounded size', async () => {
  const dataFolder = mkdtempSync(join(tmpdir(), 'tollgate-storage-'))
  await using cleanup = new AsyncDisposableStack()
  cleanup.defer(() => rmSync(dataFolder, { recursive: true }))
  const log = createTestLog()
  const clocks = { now: () => HOUR, monotonicMs: () => 0 }
  const { store, openLedger } = await openStorage(
    { version: '1.2.3', dataFolder, instance: 'here', startedMs: HOUR, ...clocks, log },
    cleanup,
  )
  const kept = { keepMs: Number.POSITIVE_INFINITY, auditMs: Number.POSITIVE_INFINITY }
  openLedger({ durability: 'process', maxJournalBytes: 64 * MIB, ...kept, diskBytes: null })
  const value = 'x'.repeat(MIB)
  const walBytes = () => statSync(`${databasePath(dataFolder)}-wal`).size
  for (let i = 0; i < 65; i++)
    await store.changeSettings({ actor: 'ann', nowMs: HOUR }, () => ({
      value: null,
      change: { action: 'settings.edit', subject: 'host', detail: {}, write: { [`large-${i}`]: value } },
    }))
  await until('the WAL to be cut', () => walBytes() === 0)
  expect(log.messages).toEqual([])
})
