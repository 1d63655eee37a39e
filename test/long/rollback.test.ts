/**
 * Upgrades to a newer version and rollbacks under load, with kills at any moment of a migration or a rollback. The
 * older version always serves the folder or refuses it, and no request is lost. The newer version is this one with
 * another migration.
 */
import { Database } from 'bun:sqlite'
import { afterAll, describe, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { BINARY, type CrashBench, createCrashBench, toExpected } from '../e2e/crash-harness.ts'
import { createNewer } from './newer-version.ts'

const SEED = Number(process.env.CRASH_SEED ?? Date.now() % 1_000_000)
const ROUNDS = Number(process.env.CRASH_ROUNDS ?? 25)
const LIMIT_MS = 15 * 60_000

const root = mkdtempSync(join(tmpdir(), 'tollgate-rollback-'))

/** Takes long enough to be killed midway. */
const MIGRATION = `ALTER TABLE requests ADD COLUMN next text DEFAULT 'x';--> statement-breakpoint
CREATE TABLE next AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000) SELECT i FROM n`

const NEWER = createNewer(join(root, 'newer'), { sqlite: MIGRATION })
afterAll(() => rmSync(root, { recursive: true, force: true }))

async function play(story: (bench: CrashBench) => Promise<void>): Promise<void> {
  const bench = await createCrashBench(mkdtempSync(join(root, 'bench-')), SEED)
  try {
    await story(bench)
  } finally {
    await bench.stop()
  }
}

/** Some responses, then a kill. */
async function serveAndKill(bench: CrashBench, ...program: string[]): Promise<void> {
  bench.use(...program)
  expect(await bench.start()).toBeNull()
  const before = bench.received.length
  const stopLoad = bench.load(6)
  while (bench.received.length < before + 20) await Bun.sleep(5)
  await bench.kill()
  await stopLoad()
}

/**
 * Kills it after so many ms, unless it has ended. Returns how long it ran, ms. @param isReached starts the countdown.
 */
async function runAndKill(ms: number, command: readonly string[], isReached = () => true): Promise<number> {
  const startMs = performance.now()
  const ran = Bun.spawn([...command], {
    stdin: 'ignore',
    stdout: 'ignore',
    stderr: 'ignore',
    env: { UPSTREAM_KEY: 'x' },
  })
  while (!isReached() && ran.exitCode === null) await Bun.sleep(0)
  await Promise.race([ran.exited, Bun.sleep(ms)])
  ran.kill('SIGKILL')
  await ran.exited
  return performance.now() - startMs
}

/** Starts the older version, and checks that it has every response at its cost. Returns why it doesn't start. */
async function checkOlder(bench: CrashBench): Promise<string | null> {
  bench.use(BINARY)
  const refusal = await bench.start()
  if (refusal !== null) return refusal
  expect(await bench.drain()).toBe(0)
  expect(await bench.run('ledger', 'verify')).toMatchObject({ code: 0, stderr: '' })
  using database = new Database(join(bench.data, 'tollgate.db'), { readonly: true })
  const find = database.query<{ status: string; cost: number }, [string]>(
    'SELECT status, cost_nano_usd AS cost FROM requests WHERE id = ?',
  )
  const wrong = bench.received.filter(({ id, number }) => {
    const row = find.get(id)
    return row?.status !== 'ok' || row.cost !== toExpected(number).costNanoUsd
  })
  expect(wrong).toEqual([])
  return null
}

const REFUSED = /was used by Tollgate 9\.9\.9, which is newer.*run `tollgate rollback` with 9\.9\.9/

const UNFINISHED = /A rollback of .* was interrupted\. To finish it, run `tollgate rollback` again\./

async function rollBack(bench: CrashBench): Promise<void> {
  bench.use(...NEWER)
  expect(await bench.run('rollback')).toMatchObject({ code: 0, stderr: '' })
}

const leftIn = (data: string) => readdirSync(data).filter((name) => /^(restore|rollback)/.test(name))

describe(`upgrades (CRASH_SEED=${SEED}, ${ROUNDS} rounds)`, () => {
  test(
    'that are killed leave the older database or the newer one, and a rollback has every answer',
    () =>
      play(async (bench) => {
        const told = { older: 0, newer: 0 }
        for (let round = 0; round < ROUNDS; round++) {
          await serveAndKill(bench, BINARY)
          const serve = [...NEWER, 'serve', '--data', bench.data, '--port', '0']
          await runAndKill(bench.between(100, 1_200), serve)
          const refusal = await checkOlder(bench)
          told[refusal === null ? 'older' : 'newer']++
          if (refusal === null) continue
          expect(refusal).toMatch(REFUSED)
          await serveAndKill(bench, ...NEWER)
          await rollBack(bench)
          expect(await checkOlder(bench)).toBeNull()
        }
        console.log('migrations that were killed:', JSON.stringify(told))
      }),
    LIMIT_MS,
  )

  test(
    'whose rollback is killed are rolled back or not, and no version serves what is between',
    () =>
      play(async (bench) => {
        const told = { older: 0, newer: 0, between: 0 }
        // The first one isn't killed, and measures how long one takes.
        let wholeMs = 20_000
        for (let round = 0; round < ROUNDS; round++) {
          await serveAndKill(bench, BINARY)
          await serveAndKill(bench, ...NEWER)
          const command = [...NEWER, 'rollback', '--data', bench.data]
          const isDecided = () => existsSync(join(bench.data, 'rollback'))
          if (round === 0) wholeMs = await runAndKill(wholeMs, command)
          else if (round % 2 === 0) await runAndKill(bench.between(0, 4), command, isDecided)
          else await runAndKill(bench.between(Math.floor(wholeMs * 0.6), Math.ceil(wholeMs)), command)
          const isBetween = existsSync(join(bench.data, 'rollback/tollgate.db'))
          if (isBetween) {
            bench.use(...NEWER)
            expect(await bench.start()).toMatch(UNFINISHED)
          }
          const refusal = await checkOlder(bench)
          told[isBetween ? 'between' : refusal === null ? 'older' : 'newer']++
          if (refusal === null) continue
          expect(refusal).toMatch(isBetween ? UNFINISHED : REFUSED)
          await rollBack(bench)
          expect(leftIn(bench.data)).toEqual([])
          expect(await checkOlder(bench)).toBeNull()
        }
        console.log('rollbacks that were killed:', JSON.stringify(told))
      }),
    LIMIT_MS,
  )
})
