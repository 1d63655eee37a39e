/**
 * `tollgate cluster import` and `export` of a large history, with the built executable: killed midway and repeated, in
 * bounded memory, with all totals unchanged. CLUSTER_REQUESTS sets the number of requests.
 */
import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { DAY_MS } from '../../src/domain/time.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import { pruneSlice } from '../../src/store/sqlite/prune.ts'
import { createFolder, HOUR, opening, settling, toOpen, toSettled } from '../ledger/fixture.ts'
import { BY, decided, key } from '../store/config-store.ts'
import { BINARY } from '../support/binary.ts'
import { describeWith, startPostgres } from '../support/engines.ts'
import { forAllTests } from '../support/lifetime.ts'
import { createPicker } from '../support/random.ts'
import { until } from '../support/until.ts'

const REQUESTS = Number(process.env.CLUSTER_REQUESTS ?? 100_000)
const MAX_KILOBYTES = 400 * 1024

/**
 * Peak memory of a running process. The value that the system reports at its end includes memory of this process at the
 * fork.
 */
function readPeak(pid: number): number | null {
  try {
    const [, peak] = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
    return peak === undefined ? null : Number(peak)
  } catch {
    return null
  }
}

describeWith('PostgreSQL')('a large history', () => {
  const server = forAllTests(() => startPostgres({ settings: ['max_wal_size = 2GB'] }))
  const start = (...args: string[]) => {
    const env = { PATH: process.env.PATH ?? '', TOLLGATE_CLUSTER: `${server.url}?sslmode=disable` }
    return Bun.spawn([BINARY, ...args], { cwd: tmpdir(), env, stdout: 'pipe', stderr: 'pipe' })
  }
  const run = async (...args: string[]) => {
    const beganMs = performance.now()
    const child = start(...args)
    let kilobytes = 0
    const timer = setInterval(() => {
      kilobytes = readPeak(child.pid) ?? kilobytes
    }, 50)
    const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text()])
    clearInterval(timer)
    if ((await child.exited) !== 0) throw new Error(stderr)
    const seconds = (performance.now() - beganMs) / 1_000
    console.log(`${args.slice(0, 2).join(' ')}: ${seconds.toFixed(1)} s, ${Math.round(kilobytes / 1024)} MB`)
    expect(kilobytes).toBeWithin(1, MAX_KILOBYTES)
    return stdout
  }

  test('a history moves to a cluster and back, even after a kill', async () => {
    const folder = createFolder()
    const { database, path } = folder
    const pick = createPicker(5)
    const writer = createLedgerWriter(database)
    for (let at = 0; at < REQUESTS; at += 1_000)
      writer.apply(
        Array.from({ length: 1_000 }).flatMap((_, i) => {
          const createdMs = HOUR - Math.floor(((REQUESTS - at - i) / REQUESTS) * 90 * DAY_MS)
          const row = toOpen({ createdMs, keyId: `key-${pick(50)}`, model: `acme/m${pick(8)}` })
          return [opening(row), settling(toSettled(row, { costNanoUsd: pick(1_000_000), durationMs: pick(20_000) }))]
        }),
      )
    const old = { untilMs: HOUR - 80 * DAY_MS, after: '', limit: REQUESTS, spared: [] }
    const { requests } = pruneSlice(database, old, HOUR)
    await createConfigStore(database).changeKeys(BY, () => decided({ teams: [], keys: [key('key-1')] }))
    folder.database.close()

    const killed = start('cluster', 'import', path)
    const arrived = async () => {
      const found = await server
        .query<{ n: number }>('select count(*)::int as n from tollgate.requests')
        .catch(() => [{ n: 0 }])
      return (found[0]?.n ?? 0) > Math.min(5_000, REQUESTS / 10)
    }
    await until('a part to arrive', arrived)
    killed.kill('SIGKILL')
    await killed.exited
    const imported = JSON.parse(await run('cluster', 'import', path, '--json'))
    expect(imported).toMatchObject({ requests: REQUESTS, requests_kept: REQUESTS - requests })

    const target = `${path}-back`
    const exported = JSON.parse(await run('cluster', 'export', target, '--data', path, '--json'))
    expect(exported).toEqual({ ...imported, ok: true, living: [] })
    await run('ledger', 'verify', '--data', target)
    const rows = (of: string) => {
      using opened = new Database(databasePath(of), { readonly: true })
      return opened.query('SELECT COUNT(*), SUM(cost_nano_usd), MIN(id), MAX(id) FROM requests').values()
    }
    expect(rows(target)).toEqual(rows(path))
    for (const each of [path, target]) rmSync(each, { recursive: true })
  }, 1_800_000)
})
