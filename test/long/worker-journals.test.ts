/**
 * Keepers and workers that are killed at random moments under load: the ledger has each request that a worker
 * acknowledged, once.
 */
import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { findingsOf } from '../ledger/fixture.ts'
import { until } from '../support/until.ts'

const ROUNDS = 25
const script = (name: string) => join(import.meta.dir, `../ledger/${name}.ts`)

const run = (name: string, ...args: string[]) =>
  Bun.spawn([process.execPath, script(name), ...args], { stdio: ['ignore', 'pipe', 'ignore'] })

async function startKeeper(dataFolder: string, instance: string, workers: readonly string[]) {
  const child = run('keeper-process', dataFolder, instance, ...workers)
  const said: string[] = []
  void (async () => {
    for await (const chunk of child.stdout) said.push(new TextDecoder().decode(chunk))
  })()
  await until('the keeper', () => said.join('').includes('ready'))
  return child
}

const acknowledgedIn = (dataFolder: string) =>
  readdirSync(dataFolder)
    .filter((name) => name.endsWith('.acknowledged'))
    .flatMap((name) => readFileSync(join(dataFolder, name), 'utf8').split('\n').slice(0, -1))
    .map((line) => line.split(' ') as [what: string, id: string])

test(`${ROUNDS} rounds of kills leave an exact ledger`, async () => {
  const dataFolder = mkdtempSync(join(tmpdir(), 'tollgate-worker-kills-'))
  const isAnyLeft = () => readdirSync(join(dataFolder, 'journal')).some((name) => /^worker.*(log|draining)$/.test(name))
  let requests = 0
  for (let round = 0; round < ROUNDS; round++) {
    const workers = [`worker${round}a`, `worker${round}b`]
    const keeper = await startKeeper(dataFolder, `keeper${round}`, workers)
    const children = workers.map((worker) =>
      run('worker-process', dataFolder, join(dataFolder, `${worker}.sock`), worker),
    )
    await until('the load', () => workers.every((worker) => existsSync(join(dataFolder, `${worker}.acknowledged`))))
    const order = [keeper, ...children].sort(() => Math.random() - 0.5)
    for (const child of order) {
      await Bun.sleep(Math.random() * 300)
      child.kill('SIGKILL')
      await child.exited
    }
    const last = await startKeeper(dataFolder, `last${round}`, [])
    await until('the last journal', () => !isAnyLeft())
    last.kill('SIGKILL')
    await last.exited
    using database = new Database(databasePath(dataFolder), { readonly: true })
    const rows = new Map(
      database
        .query<{ id: string; said: string }, []>(`SELECT id, status || ' ' || cost_nano_usd AS said FROM requests`)
        .all()
        .map(({ id, said }) => [id, said]),
    )
    const acknowledged = acknowledgedIn(dataFolder)
    const settled = new Set<string>()
    for (const [what, id] of acknowledged) if (what !== 'open') settled.add(id)
    for (const [what, id] of acknowledged)
      if (what !== 'open') expect(rows.get(id)).toBe(`ok ${what}`)
      else if (!settled.has(id)) expect(rows.get(id)).toMatch(/^(ok \d+|abandoned 9000)$/)
    expect(findingsOf(database, dataFolder)).toEqual([])
    expect(rows.size).toBeGreaterThan(requests)
    requests = rows.size
  }
  console.log(`${requests} requests`)
  rmSync(dataFolder, { recursive: true })
}, 300_000)
