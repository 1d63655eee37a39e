/** Processes that an earlier server on the same data folder left behind. */
import { expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createFleet } from '../../src/processes/managed.ts'

test.if(process.platform === 'linux')(
  'processes of an earlier server on the same data end before others start',
  async () => {
    const dataFolder = mkdtempSync(join(tmpdir(), 'tollgate-fleet-'))
    mkdirSync(join(dataFolder, 'logs'))
    const { dev, ino } = statSync(dataFolder, { bigint: true })
    const start = (owner: string) => Bun.spawn(['sleep', '1000'], { env: { TOLLGATE_SERVERS_OF: owner } })
    const [left, other] = [start(`${dev}:${ino}`), start(`${dev}:1`)]
    const told: unknown[] = []
    const log = {
      info() {},
      error() {},
      warn: (event: string, _: string, fields = {}) => void told.push({ event, ...fields }),
    }
    try {
      const fleet = await createFleet({ dataFolder, environment: {}, now: Date.now, log })
      await left.exited
      expect(left.signalCode).toBe('SIGKILL')
      expect(other.exitCode ?? other.signalCode).toBeNull()
      expect(told).toEqual([{ event: 'process_orphaned', count: 1 }])
      await fleet.close()
    } finally {
      other.kill('SIGKILL')
      left.kill('SIGKILL')
      rmSync(dataFolder, { recursive: true })
    }
  },
)
