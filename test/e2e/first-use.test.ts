/** Code for rarely used endpoints loads with their first request, so servers that only chat don't pay for it. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { DOORS } from '../support/doors.ts'
import { until } from '../support/until.ts'
import { type CrashServer, createCrashServer, createLoad, FIRST_KEY, startCrashUpstream } from './crash-harness.ts'

const ROOT = resolve(import.meta.dir, '../..')
const OF_OTHERS = /rerank|moderation|speech|transcri|audio|image|realtime|batch/

/** Paths, the store that knows whether there are batches, and the code that decides a request's number of calls. */
const SMALL: ReadonlySet<string> = new Set([
  ...['realtime', 'batches', 'message-batches'].map((name) => `http/${name}.ts`),
  ...['store/sqlite/batch-store.ts', 'store/sqlite/batch-schema.ts', 'server/batches.ts', 'domain/batches.ts'],
  ...['gateway/input-batches.ts', 'domain/rerank.ts'],
])

const folder = mkdtempSync(join(tmpdir(), 'tollgate-first-use-'))
let upstream: Awaited<ReturnType<typeof startCrashUpstream>>
let server: CrashServer
let key = ''

beforeAll(async () => {
  upstream = await startCrashUpstream()
  server = await createCrashServer(folder, upstream.url, {
    flags: () => ['--first-key'],
    async started(said) {
      await until('the first key', () => FIRST_KEY.test(said()))
      key = FIRST_KEY.exec(said())?.[0] ?? ''
    },
  })
  server.use(process.execPath, '--preload', join(ROOT, 'test/support/loaded-modules.ts'), join(ROOT, 'src/main.ts'))
  expect(await server.start()).toBeNull()
}, 60_000)
afterAll(async () => {
  await server.kill()
  await upstream.stop()
  rmSync(folder, { recursive: true, force: true })
})

async function loaded(): Promise<string[]> {
  const before = server.log().length
  process.kill(server.pid(), 'SIGUSR2')
  const line = () => /^modules (.*)$/m.exec(server.log().slice(before))?.[1]
  await until('the modules', () => line() !== undefined)
  return JSON.parse(line() ?? '')
}

async function askAll(makesText: boolean) {
  const { ask } = createLoad(Math.random, () => ({ url: server.url, key }))
  for (const [at, door] of DOORS.entries())
    if ((door.client.makes === 'text') === makesText) expect(await ask(at)).toBe(true)
}

test('a server that has only served chats has loaded no code of other endpoints', async () => {
  await askAll(true)
  const ofChats = await loaded()
  expect(ofChats.length).toBeGreaterThan(100)
  expect(ofChats.filter((path) => OF_OTHERS.test(path) && !SMALL.has(path))).toEqual([])
  await askAll(false)
  const ofOthers = ['audio/duration.ts', ...['rerank', 'speech', 'images'].map((name) => `formats/${name}/${name}.ts`)]
  expect(await loaded()).toEqual(expect.arrayContaining(ofOthers))
}, 60_000)
