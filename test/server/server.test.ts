/** A start that fails gives back what it has taken; one whose clock cannot be right says so. */
import { afterAll, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { toServeConfig } from '../../src/config.ts'
import { createLog } from '../../src/log.ts'
import { type ServerOptions, startServer } from '../../src/server/server.ts'
import { isServed } from '../../src/store/data-folder.ts'
import { until } from '../support/until.ts'

const SETTINGS = { ...toServeConfig({ flags: {}, environment: {}, settings: {} }), port: 0, probeMs: 0 }

const fail = () => {
  throw new Error('that one')
}
const dataFolderOf = () => mkdtempSync(join(tmpdir(), 'tollgate-start-'))
const other = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response() })
afterAll(() => other.stop(true))

test.each<[what: string, fails: Partial<ServerOptions>, says: string]>([
  ['in its settings', { configure: fail }, 'that one'],
  ['in its catalogue', { prepare: fail }, 'that one'],
  ['for its port', { configure: () => ({ ...SETTINGS, port: other.port ?? 0 }) }, 'is already in use'],
])('a start that fails %s gives its folder back, and the next one serves it', async (_, fails, says) => {
  const dataFolder = dataFolderOf()
  const log = createLog({ now: () => 0, write: async () => {} })
  const options: ServerOptions = {
    dataFolder,
    environment: {},
    log,
    now: () => 0,
    version: 'test',
    configure: () => SETTINGS,
    prepare() {},
    commands: { reload: async () => ({ settings: [], variables: [] }), drain() {}, makeBackup: async () => null },
  }
  await expect(startServer({ ...options, ...fails })).rejects.toThrow(says)
  expect(isServed(dataFolder)).toBe(false)

  const server = await startServer(options)
  expect(isServed(dataFolder)).toBe(true)
  expect(await server.stop()).toBe(true)
  expect(isServed(dataFolder)).toBe(false)
  expect(readdirSync(dataFolder)).not.toContain('control.sock')
  rmSync(dataFolder, { recursive: true })
})

test('a start finishes a restore that was broken off, or undoes it, and says so; it removes the parts of killed backups', async () => {
  const dataFolder = dataFolderOf()
  const lines: string[] = []
  const log = createLog({ now: () => 0, write: async (text) => void lines.push(text.toString()) })
  const serveOnce = async () => {
    const server = await startServer({
      dataFolder,
      environment: {},
      log,
      now: () => 0,
      version: 'test',
      configure: () => SETTINGS,
      prepare() {},
      commands: { reload: async () => ({ settings: [], variables: [] }), drain() {}, makeBackup: async () => null },
    })
    await server.stop()
    return lines
      .splice(0)
      .join('')
      .match(/\w+ an interrupted restore/g)
  }
  expect(await serveOnce()).toBeNull()
  mkdirSync(join(dataFolder, 'restore.part'))
  mkdirSync(join(dataFolder, 'backups'))
  writeFileSync(join(dataFolder, `backups/made.sqlite.${Bun.spawnSync(['true']).pid}.part`), 'half')
  expect(await serveOnce()).toEqual(['removed an interrupted restore'])
  mkdirSync(join(dataFolder, 'restore'))
  writeFileSync(join(dataFolder, 'restore/replaced'), 'replaced')
  renameSync(join(dataFolder, 'tollgate.db'), join(dataFolder, 'restore/tollgate.db'))
  expect(await serveOnce()).toEqual(['finished an interrupted restore'])
  expect(readdirSync(dataFolder).filter((name) => name.startsWith('restore'))).toEqual([])
  expect(readdirSync(join(dataFolder, 'backups'))).toEqual([])
})

test.each([
  [Date.UTC(2019, 11, 31), 1],
  [Date.UTC(2026, 10, 21), 0],
])('a start at %d warns %d times of its clock', async (nowMs, times) => {
  const lines: string[] = []
  const log = createLog({ now: () => nowMs, write: async (text) => void lines.push(text.toString()) })
  const server = await startServer({
    dataFolder: dataFolderOf(),
    environment: {},
    log,
    now: () => nowMs,
    version: 'test',
    configure: () => SETTINGS,
    prepare() {},
    commands: { reload: async () => ({ settings: [], variables: [] }), drain() {}, makeBackup: async () => null },
  })
  await server.stop()
  expect(lines.join('').match(/"event":"clock_skew"/g) ?? []).toHaveLength(times)
})

test('a server whose folder has outgrown --disk-budget serves on, says that it is degraded and nothing more, and warns once', async () => {
  const lines: string[] = []
  const log = createLog({ now: () => 0, write: async (text) => void lines.push(text.toString()) })
  const dataFolder = dataFolderOf()
  const server = await startServer({
    dataFolder,
    environment: {},
    log,
    now: () => Date.UTC(2026, 10, 21),
    version: 'test',
    configure: () => ({ ...SETTINGS, diskBytes: 1 }),
    prepare() {},
    commands: { reload: async () => ({ settings: [], variables: [] }), drain() {}, makeBackup: async () => null },
  })
  const ready = async () => {
    const response = await fetch(server.baseUrl.replace('/v1', '/readyz'))
    return `${response.status} ${await response.text()}`
  }
  await until('the first look at the disk', async () => !(await ready()).includes('ok'))
  expect(await ready()).toBe('200 {"status":"degraded"}')
  await server.stop()
  expect(lines.join('').match(/"event":"disk_filling"/g)).toHaveLength(1)
  rmSync(dataFolder, { recursive: true })
})
