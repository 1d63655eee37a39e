/** The binary through its control socket: `upstreams` and `doctor`, commands that change it, and its end. */
import { beforeEach, expect, test } from 'bun:test'
import { existsSync, lstatSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { socketPath } from '../../src/server/protocol.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { openDatabase } from '../../src/store/sqlite/open.ts'
import { createWorkplace, type RunningBinary } from '../support/binary.ts'
import { findFreePort } from '../support/free-port.ts'
import { forEachTest } from '../support/lifetime.ts'
import { until } from '../support/until.ts'
import { startUpstream } from '../support/upstream.ts'

const CREDENTIAL = 'the upstream credential 0123456789'
let deadUrl: string

const place = forEachTest(createWorkplace)
const upstream = forEachTest(startUpstream)
beforeEach(async () => {
  deadUrl = `http://127.0.0.1:${await findFreePort()}/v1`
})

const FACTS =
  'context_length: 8192, max_output_length: 1000, input_modalities: [text], output_modalities: [text], supported_features: []'

function toCatalogue(more = ''): string {
  return `version: 1
upstreams:
  live: { dialect: openai, base_url: "${upstream.url}", api_key: \${LIVE_KEY}, local: true }
  dead: { dialect: openai, base_url: "${deadUrl}", local: true }
models:
  acme/live: { name: Live, ${FACTS}, routes: [{ upstream: live, model: live-v1 }] }
  acme/dead: { name: Dead, ${FACTS}, routes: [{ upstream: dead, model: dead-v1 }] }
${more}`
}

async function serve(): Promise<RunningBinary> {
  const catalog = await place.write('mine.yaml', toCatalogue())
  return place.serve(['--first-key', '--catalog', catalog], { environment: { LIVE_KEY: CREDENTIAL } })
}

const socket = () => socketPath(join(place.folder, 'data'))
const order = (method: string, path: string) => fetch(`http://localhost${path}`, { unix: socket(), method })

interface Row {
  id: string
  state: string
  reason: string | null
  last_error: { message: string } | null
}

const byId = (rows: Row[], id: string) => rows.find((row) => row.id === id)

test("list, test, and doctor report the server's state, and never a credential", async () => {
  const server = await serve()
  expect(lstatSync(socket()).mode & 0o7777).toBe(0o600)

  const tested = await place.run('upstreams', 'test', '--json')
  expect(tested.code).toBe(1)
  const results: Row[] = JSON.parse(tested.stdout).upstreams
  expect(byId(results, 'live')?.state).toMatch(/^(ready|unknown)$/)
  expect(byId(results, 'dead')).toMatchObject({ state: 'down', reason: 'connection refused' })
  expect((await place.run('upstreams', 'test', 'live')).code).toBe(0)

  const refused = await fetch(`${server.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'acme/dead', messages: [{ role: 'user', content: 'Hello' }] }),
  })
  expect(refused.status).toBeGreaterThanOrEqual(500)

  const listed = await place.run('upstreams', 'list', '--json')
  expect([listed.code, listed.stderr]).toEqual([0, ''])
  const document: { upstreams: Row[]; server: unknown } = JSON.parse(listed.stdout)
  expect(document.server).toMatchObject({ pid: server.pid, url: server.baseUrl })
  expect(byId(document.upstreams, 'live')).toMatchObject({ credential: { variable: 'LIVE_KEY', status: 'set' } })
  expect(byId(document.upstreams, 'dead')).toMatchObject({
    state: 'down',
    last_error: { message: 'connection refused' },
  })

  const doctor = await place.run('doctor')
  expect(doctor.code).toBe(0)
  expect(doctor.stdout).toMatch(/^warning +upstream dead +Down: /m)
  expect(doctor.stdout).toMatch(/^ok +models +1 of 2 models ready\.$/m)
  expect(doctor.stdout).toMatch(/^ok +permissions /m)

  const status = await (await order('GET', '/status')).text()
  for (const text of [tested.stdout, listed.stdout, doctor.stdout, status]) expect(text).not.toContain('0123456789')
})

test('reload applies the changed catalog, or says what is wrong with it and changes nothing', async () => {
  await serve()
  await place.write('mine.yaml', toCatalogue('  nonsense: 5\n'))
  const wrong = await order('POST', '/reload')
  expect(wrong.status).toBe(409)
  expect(await wrong.json()).toMatchObject({ error: { message: expect.stringContaining('nonsense') } })

  await place.write('mine.yaml', toCatalogue().replaceAll('dead', 'other'))
  const taken = await order('POST', '/reload')
  expect([taken.status, await taken.json()]).toEqual([
    200,
    { reloaded: true, needs_restart: { settings: [], variables: [] } },
  ])
  const { upstreams } = JSON.parse((await place.run('upstreams', 'list', '--json')).stdout)
  expect(upstreams.map(({ id }: Row) => id).sort()).toEqual(['live', 'other'])
})

test('reload says what needs a restart', async () => {
  const server = await serve()
  await place.write('mine.yaml', toCatalogue().replace('LIVE_KEY', 'NEW_KEY'))
  const sqlite = openDatabase(databasePath(join(place.folder, 'data')), { busyMs: 5_000 })
  sqlite.run(
    "INSERT INTO settings (key, value, updated_ms) VALUES ('retries', '5', 0), ('catalog', 'x', 0), ('port', '1', 0)",
  )
  sqlite.close()
  // The port is set on the command line, and the catalog is not a setting.
  const needs = { settings: ['retries'], variables: ['NEW_KEY'] }
  const { needs_restart: said } = (await (await order('POST', '/reload')).json()) as { needs_restart: typeof needs }
  expect(said).toEqual(needs)
  await server.logged('"event":"restart_needed"')
})

test('a watched file is applied when it changes; an invalid one changes nothing', async () => {
  const catalog = await place.write('mine.yaml', toCatalogue())
  const server = await place.serve(['--watch-catalog', '--catalog', catalog], { environment: { LIVE_KEY: CREDENTIAL } })
  await place.write('mine.yaml', toCatalogue('  nonsense: 5\n'))
  await server.logged('nonsense')
  await place.write('next.yaml', toCatalogue().replaceAll('dead', 'other'))
  renameSync(join(place.folder, 'next.yaml'), catalog)
  await server.logged('catalog changed; applied')
  const { upstreams } = JSON.parse((await place.run('upstreams', 'list', '--json')).stdout)
  expect(upstreams.map(({ id }: Row) => id).sort()).toEqual(['live', 'other'])
  expect(server.stderr().split('config_rejected')).toHaveLength(2)
})

test('with a watched catalog, a model file that is added or removed is applied', async () => {
  const catalog = await place.write('mine.yaml', toCatalogue())
  const server = await place.serve(['--watch-catalog', '--catalog', catalog], { environment: { LIVE_KEY: CREDENTIAL } })
  const path = await place.write(
    'data/models.d/own.yaml',
    toCatalogue().replace(/live/g, 'own').replace(/dead/g, 'more'),
  )
  const has = async (id: string) => {
    const { upstreams } = JSON.parse((await place.run('upstreams', 'list', '--json')).stdout)
    return upstreams.some((one: Row) => one.id === id)
  }
  await server.logged('catalog changed; applied')
  expect(await has('more')).toBe(true)
  rmSync(path)
  await until('its upstream is gone', async () => !(await has('more')))
})

test('drain stops the server gracefully, and removes its socket', async () => {
  const server = await serve()
  expect((await order('POST', '/drain')).status).toBe(202)
  expect(await server.exited).toBe(0)
  expect(existsSync(socket())).toBe(false)
  const { code, stderr } = await place.run('upstreams', 'list')
  expect([code, stderr]).toEqual([0, expect.stringContaining('No server is running.')])
})

test('the socket of a killed server is recognized as dead, and the next server replaces it', async () => {
  const server = await serve()
  server.signal('SIGKILL')
  await server.exited
  expect(existsSync(socket())).toBe(true)
  expect((await place.run('doctor')).stdout).toMatch(/^warning +server +No server is running\. Start it/m)

  const next = await serve()
  expect(await (await order('GET', '/status')).json()).toMatchObject({ pid: next.pid })
})
