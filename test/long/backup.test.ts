/**
 * Backups under load, and kills: a backup holds everything settled before it; a killed one is whole or missing; a
 * killed restore leaves the old ledger or the new one.
 */
import { Database } from 'bun:sqlite'
import { describe, expect, test } from 'bun:test'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { BINARY, type CrashBench, createCrashBench, type Received, toExpected } from '../e2e/crash-harness.ts'

const SEED = Number(process.env.CRASH_SEED ?? Date.now() % 1_000_000)
const ROUNDS = Number(process.env.CRASH_ROUNDS ?? 30)
const LIMIT_MS = 15 * 60_000

const run = async (...argv: string[]) => {
  const ran = Bun.spawn([BINARY, ...argv], { stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' })
  const [stdout, stderr, code] = await Promise.all([ran.stdout.text(), ran.stderr.text(), ran.exited])
  return { code, stdout, stderr }
}

/** Kills the process after so many ms, unless it has ended. */
async function runAndKill(ms: number, ...argv: string[]): Promise<void> {
  const ran = Bun.spawn([BINARY, ...argv], { stdin: 'ignore', stdout: 'ignore', stderr: 'ignore' })
  await Promise.race([ran.exited, Bun.sleep(ms)])
  ran.kill('SIGKILL')
  await ran.exited
}

async function play(story: (bench: CrashBench, root: string) => Promise<void>): Promise<void> {
  const root = mkdtempSync(join(tmpdir(), 'tollgate-backups-'))
  const bench = await createCrashBench(root, SEED)
  try {
    expect(await bench.start()).toBeNull()
    await story(bench, root)
  } finally {
    await bench.stop()
    rmSync(root, { recursive: true, force: true })
  }
}

/** Restores into a separate folder; returns responses that are missing or differ. */
async function lacking(file: string, root: string, answers: readonly Received[]): Promise<Received[]> {
  const data = mkdtempSync(join(root, 'restored-'))
  expect(await run('restore', file, '--data', data)).toMatchObject({ code: 0, stderr: '' })
  expect(await run('ledger', 'verify', '--data', data)).toMatchObject({ code: 0, stderr: '' })
  using database = new Database(join(data, 'tollgate.db'), { readonly: true })
  const find = database.query<{ status: string; cost: number }, [string]>(
    'SELECT status, cost_nano_usd AS cost FROM requests WHERE id = ?',
  )
  return answers.filter(({ id, number }) => {
    const row = find.get(id)
    return row?.status !== 'ok' || row.cost !== toExpected(number).costNanoUsd
  })
}

const idsOf = (data: string) => {
  using database = new Database(join(data, 'tollgate.db'), { readonly: true })
  return database
    .query<{ id: string }, []>('SELECT id FROM requests ORDER BY id')
    .all()
    .map(({ id }) => id)
}

describe(`backups (CRASH_SEED=${SEED}, ${ROUNDS} rounds)`, () => {
  test(
    'under load have every answer that was given before they began, with and without a server to ask',
    () =>
      play(async (bench, root) => {
        const stopLoad = bench.load(12)
        for (let round = 0; round < ROUNDS; round++) {
          await Bun.sleep(bench.between(20, 400))
          const isKilled = bench.random() < 0.3
          if (isKilled) await bench.kill()
          const before = [...bench.received]
          const file = join(root, `${round}.sqlite`)
          expect(await bench.run('backup', file)).toMatchObject({ code: 0, stderr: '' })
          expect(await lacking(file, root, before)).toEqual([])
          if (isKilled) expect(await bench.start()).toBeNull()
        }
        await stopLoad()
        expect(bench.received.length).toBeGreaterThan(100)
      }),
    LIMIT_MS,
  )

  test(
    'that are killed are whole or not there, and leave nothing behind the next one',
    () =>
      play(async (bench, root) => {
        const folder = join(root, 'away')
        mkdirSync(folder)
        const file = join(folder, 'copy.sqlite')
        const stopLoad = bench.load(12)
        let whole = 0
        for (let round = 0; round < ROUNDS; round++) {
          const before = [...bench.received]
          await runAndKill(bench.between(40, 600), 'backup', file, '--data', bench.data)
          if (!existsSync(file)) continue
          whole++
          expect(await lacking(file, root, before)).toEqual([])
          rmSync(file)
        }
        await stopLoad()
        console.log(`backups that were whole: ${whole} of ${ROUNDS}`)
        expect(await bench.run('backup', file)).toMatchObject({ code: 0 })
        expect(readdirSync(folder)).toEqual(['copy.sqlite'])
        expect(await bench.run('ledger', 'verify')).toMatchObject({ code: 0 })
      }),
    LIMIT_MS,
  )

  test(
    'whose restore is killed leave the old ledger or the new one, and the other beside it',
    () =>
      play(async (bench, root) => {
        const told = { old: 0, restored: 0 }
        for (let round = 0; round < ROUNDS; round++) {
          const file = join(root, `${round}.sqlite`)
          expect(await bench.run('backup', file)).toMatchObject({ code: 0 })
          const stopLoad = bench.load(4)
          await Bun.sleep(100)
          await bench.kill()
          await stopLoad()
          expect(await bench.start()).toBeNull()
          expect(await bench.drain()).toBe(0)
          const [older, newer] = [await idsIn(file, root), idsOf(bench.data)]
          expect(newer.length).toBeGreaterThan(older.length)

          await runAndKill(bench.between(40, 220), 'restore', file, '--data', bench.data)
          expect(await bench.start()).toBeNull()
          expect(await bench.run('ledger', 'verify')).toMatchObject({ code: 0, stderr: '' })
          const now = idsOf(bench.data)
          const isRestored = now.length === older.length
          expect(now).toEqual(isRestored ? older : newer)
          const backups = join(bench.data, 'backups')
          const replaced = existsSync(backups) ? readdirSync(backups) : []
          expect(replaced.length).toBe(isRestored ? 1 : 0)
          for (const name of replaced) expect(idsOf(join(backups, name))).toEqual(newer)
          expect(readdirSync(bench.data).filter((name) => name.startsWith('restore'))).toEqual([])
          rmSync(backups, { recursive: true, force: true })
          told[isRestored ? 'restored' : 'old']++
        }
        console.log('restores that were killed:', JSON.stringify(told))
      }),
    LIMIT_MS,
  )
})

async function idsIn(file: string, root: string): Promise<string[]> {
  const data = mkdtempSync(join(root, 'restored-'))
  expect(await run('restore', file, '--data', data)).toMatchObject({ code: 0 })
  return idsOf(data)
}
