/** The crash tests' stories, for a few rounds or many. Each ends with the verdict on the ledger. */
import { expect } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DOORS } from '../support/doors.ts'
import { type CrashBench, createCrashBench, doorOf, toExpected } from './crash-harness.ts'
import { holdLock, mountSmallDisk } from './crash-trouble.ts'
import { expectHonestLedger } from './crash-verdict.ts'

export interface Told {
  answers: number
  refusals: Record<string, number>
}

const CLIENTS = 12

/** Runs one story on a new folder and returns the verdict. */
async function play(
  seed: number,
  story: (bench: CrashBench) => Promise<void>,
  { folder, flags, isFaulty }: { folder?: string; flags?: string[]; isFaulty?: boolean } = {},
): Promise<Told> {
  const root = folder ?? mkdtempSync(join(tmpdir(), 'tollgate-crash-'))
  const bench = await createCrashBench(root, seed, flags, isFaulty)
  try {
    expect(await bench.start()).toBeNull()
    const stopLoad = bench.load(CLIENTS)
    try {
      await story(bench)
    } finally {
      await stopLoad()
    }
    await expectHonestLedger(bench)
    return { answers: bench.received.length, refusals: Object.fromEntries(bench.refusals) }
  } finally {
    await bench.stop()
    if (folder === undefined) rmSync(root, { recursive: true, force: true })
  }
}

/** Only kills, with requests to every endpoint. */
export function killUnderLoad(seed: number, rounds: number, { isFaulty = false } = {}): Promise<Told> {
  const story = async (bench: CrashBench) => {
    for (let round = 0; round < rounds; round++) {
      await Bun.sleep(bench.between(20, 700))
      await bench.kill()
      expect(await bench.start()).toBeNull()
    }
    const isEverywhere = () => new Set(bench.received.map(({ number }) => doorOf(number).name)).size === DOORS.length
    const hasSecondCalls = () => bench.received.some(({ number }) => toExpected(number).calls > 1)
    const before = bench.heard.length
    while (!isEverywhere() || !hasSecondCalls() || bench.heard.length === before) await Bun.sleep(20)
  }
  return play(seed, story, { isFaulty })
}

/** A worker or the keeper of a server with two workers, one per round. */
export function killOneOfThree(seed: number, rounds: number): Promise<Told> {
  return play(
    seed,
    async (bench) => {
      for (let round = 0; round < rounds; round++) {
        await Bun.sleep(bench.between(20, 1_000))
        const killed = bench.servers()[bench.between(0, 3)] ?? bench.pid()
        process.kill(killed, 'SIGKILL')
        // Its workers finish their requests next to the new server's.
        if (killed === bench.pid()) expect(await bench.start()).toBeNull()
      }
      while (bench.servers().length !== 3) await Bun.sleep(20)
    },
    { flags: ['--processes', '2'] },
  )
}

/** A little longer than a restart takes on this machine. */
const RESTART_MS = 600

/** Restarts in which the earlier or the later server is killed at any moment, and one that completes. */
export function killWhileRestarting(seed: number, rounds: number): Promise<Told & { restarted: number }> {
  let restarted = 0
  const told = play(seed, async (bench) => {
    for (let round = 0; round < rounds; round++) {
      await Bun.sleep(bench.between(20, 200))
      // A restart waits for an earlier server that still finishes its requests.
      for (const pid of bench.servers().slice(0, -1)) process.kill(pid, 'SIGKILL')
      const restart = bench.run('restart')
      await Bun.sleep(bench.between(0, RESTART_MS))
      const [earlier = 0, later] = bench.servers()
      process.kill(later !== undefined && bench.random() < 0.5 ? later : earlier, 'SIGKILL')
      if ((await restart).code === 0) restarted++
      // The later server may be about to notice that the earlier one is gone.
      await Bun.sleep(RESTART_MS)
      const isServed = (await bench.run('status')).code === 0
      // A server that has handed over may continue to finish its requests next to the new one.
      if (!isServed && bench.random() < 0.5) await bench.kill()
      if (!isServed) expect(await bench.start()).toBeNull()
    }
    expect(await bench.run('restart')).toMatchObject({ code: 0, stderr: '' })
    while (bench.servers().length > 1) await Bun.sleep(100)
  })
  return told.then((all) => ({ ...all, restarted }))
}

/** Periods with a locked database: the server survives one, is killed in one, and starts in one. */
export async function killWhileLocked(seed: number, rounds: number): Promise<Told & { answersWhileLocked: number }> {
  let answersWhileLocked = 0
  const told = await play(seed, async (bench) => {
    for (let round = 0; round < rounds; round++) {
      await Bun.sleep(bench.between(50, 200))
      const before = bench.received.length
      await holdLock(bench.data, bench.between(300, 600))
      answersWhileLocked += bench.received.length - before
      await Bun.sleep(bench.between(0, 200))
      const lock = holdLock(bench.data, bench.between(500, 900))
      await Bun.sleep(bench.between(60, 400))
      await bench.kill()
      expect(await bench.start()).toBeNull()
      await lock
    }
    // It survives one more until the end: after draining, the journal must be empty.
    await holdLock(bench.data, 300)
    await Bun.sleep(100)
  })
  return { ...told, answersWhileLocked }
}

/** A disk that is filled and freed again: the server survives this, is killed in it, and starts in it. */
export async function killWhileFull(seed: number, rounds: number): Promise<Told> {
  const root = mkdtempSync(join(tmpdir(), 'tollgate-crash-'))
  const disk = mountSmallDisk(join(root, 'data'), 48)
  if (typeof disk === 'string') throw new Error(disk)
  try {
    return await play(
      seed,
      async (bench) => {
        for (let round = 0; round < rounds; round++) {
          await Bun.sleep(bench.between(50, 300))
          await disk.fill()
          await Bun.sleep(bench.between(100, 600))
          if (bench.random() < 0.3) disk.free()
          await Bun.sleep(bench.between(0, 200))
          await bench.kill()
          const said = await bench.start()
          if (said !== null) expect(said).toContain('The disk is full')
          await Bun.sleep(bench.between(0, 300))
          const killed = said !== null || bench.random() < 0.5
          if (killed) await bench.kill()
          disk.free()
          if (killed) expect(await bench.start()).toBeNull()
        }
        await disk.fill()
        await Bun.sleep(300)
        disk.free()
        await Bun.sleep(200)
      },
      { folder: root },
    )
  } finally {
    disk.unmount()
    rmSync(root, { recursive: true, force: true })
  }
}
