/** `control.sock`: for its owner alone, there while the server is and not after it, and true to its few words. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ServiceError } from '../../src/domain/service-error.ts'
import { createLog } from '../../src/log.ts'
import { type Control, type ControlDeps, createControl } from '../../src/server/owner-socket.ts'
import { socketPath } from '../../src/server/protocol.ts'
import { createTestFolder, forEachTest } from '../support/lifetime.ts'
import { toStatus } from '../support/status.ts'

let written: string[]
const open: Control[] = []
const log = createLog({ now: () => 0, write: async (text) => void written.push(text.toString()) })

afterEach(async () => {
  for (const control of open.splice(0)) await control.stop()
})
const folder = forEachTest(createTestFolder)
beforeEach(() => {
  written = []
})

function start(deps: Partial<ControlDeps> = {}): Control {
  const control = createControl({
    dataFolder: folder.path,
    log,
    status: () => toStatus(),
    servers: { start: () => false, stop: () => false, settled: async () => null, stopped: async () => null },
    reload: async () => ({ settings: [], variables: [] }),
    flush: async () => ({ applied: 0, waiting: 0 }),
    inspectVault: async () => ({ where: 'the file secret', sealed_by: null, credentials: 0, problems: [] }),
    endTails: async () => false,
    admin: async ({ url }) => Response.json({ asked: url.slice('http://localhost'.length) }),
    setupCode: async () => null,
    drain() {},
    ...deps,
  })
  open.push(control)
  return control
}

const ask = (method: string, path: string, dataFolder = folder.path) =>
  fetch(`http://localhost${path}`, { unix: socketPath(dataFolder), method })

async function logged(): Promise<string> {
  await log.flush()
  return written.join('')
}

describe('the socket', () => {
  test('is for its owner alone, whatever the mask of the process, which stays as it was', () => {
    const mask = process.umask(0)
    try {
      const { path } = start()
      expect(path).toBe(join(folder.path, 'control.sock'))
      expect(lstatSync(join(folder.path, 'control.sock')).mode & 0o7777).toBe(0o600)
      expect(process.umask()).toBe(0)
    } finally {
      process.umask(mask)
    }
  })

  test('goes with the server', async () => {
    await start().stop()
    expect(readdirSync(folder.path)).toEqual([])
  })

  test('responds to a change in progress when the server stops', async () => {
    const { promise: done, resolve: finish } = Promise.withResolvers<void>()
    const { promise: begun, resolve: begin } = Promise.withResolvers<void>()
    const control = start({
      async admin() {
        begin()
        await done
        return Response.json({ made: true })
      },
    })
    const asked = ask('POST', '/admin/api/keys')
    await begun
    const stopped = control.stop()
    expect(readdirSync(folder.path)).toEqual([])
    finish()
    expect(await (await asked).json()).toEqual({ made: true })
    await stopped
  })

  test('of a server that was killed is replaced', async () => {
    const script = `Bun.serve({ unix: ${JSON.stringify(socketPath(folder.path))}, fetch: () => new Response('old') }); console.log('up')`
    const child = Bun.spawn([process.execPath, '-e', script], { stdout: 'pipe', stderr: 'ignore' })
    await child.stdout.getReader().read()
    child.kill('SIGKILL')
    await child.exited
    expect(readdirSync(folder.path)).toEqual(['control.sock'])

    start()
    expect(await (await ask('GET', '/status')).json()).toEqual(toStatus())
  })

  test('is left out where something else has its place: that stays, and one warning names it', async () => {
    writeFileSync(socketPath(folder.path), 'mine')
    const control = start()
    expect(control.path).toBeNull()
    await control.stop()
    expect(readFileSync(socketPath(folder.path), 'utf8')).toBe('mine')
    const [line = '', ...others] = (await logged()).trim().split('\n')
    expect(others).toEqual([])
    expect(JSON.parse(line)).toMatchObject({ level: 'warn', path: socketPath(folder.path) })
  })

  test.each([90, 120, 180])('works in a folder whose name has %i characters', async (length) => {
    const dataFolder = join(folder.path, 'x'.repeat(length))
    mkdirSync(dataFolder)
    expect(start({ dataFolder }).path).not.toBeNull()
    expect((await ask('GET', '/status', dataFolder)).status).toBe(200)
  })
})

describe('an order', () => {
  test.each<[method: string, path: string, status: number, body: unknown]>([
    ['GET', '/status', 200, toStatus()],
    ['POST', '/reload', 200, { reloaded: true, needs_restart: { settings: [], variables: [] } }],
    ['POST', '/drain', 202, { draining: true }],
    ['POST', '/ledger/flush', 200, { applied: 0, waiting: 0 }],
    ['GET', '/ledger/flush', 405, { error: { kind: 'wrong_method', message: expect.stringContaining('use POST') } }],
    ['POST', '/status', 405, { error: { kind: 'wrong_method', message: expect.stringContaining('use GET') } }],
    ['GET', '/drain', 405, { error: { kind: 'wrong_method', message: expect.stringContaining('use POST') } }],
    ['GET', '/upstreams/a/start', 405, { error: { kind: 'wrong_method', message: expect.any(String) } }],
    ['POST', '/upstreams/nobody/start', 404, { error: { kind: 'unknown_server', message: expect.any(String) } }],
    ['POST', '/upstreams/%ff/stop', 404, { error: { kind: 'unknown_server', message: expect.any(String) } }],
    ['GET', '/admin/api/keys?x=1', 200, { asked: '/admin/api/keys?x=1' }],
    ['POST', '/operator/secret/rotate', 200, { asked: '/operator/secret/rotate' }],
    ['POST', '/test', 404, { error: { kind: 'unknown_path', message: expect.any(String) } }],
    ['GET', '/constructor', 404, { error: { kind: 'unknown_path', message: expect.any(String) } }],
    ['GET', '/', 404, { error: { kind: 'unknown_path', message: expect.any(String) } }],
  ])('%s %s is answered with %i', async (method, path, status, body) => {
    start()
    const response = await ask(method, path)
    expect({ status: response.status, body: await response.json() }).toEqual({ status, body })
    expect(response.headers.get('content-type')).toStartWith('application/json')
  })

  test('says whatever the server says, beyond what this version describes', async () => {
    start({ status: () => Object.assign(toStatus(), { more: 1 }) })
    expect(await (await ask('GET', '/status')).json()).toEqual({ ...toStatus(), more: 1 })
  })

  test('reaches the server only in its own words', async () => {
    const done: string[] = []
    const reload = async () => {
      done.push('reload')
      return { settings: [], variables: [] }
    }
    start({ reload, drain: () => void done.push('drain') })
    await ask('GET', '/reload')
    await ask('GET', '/drain')
    expect(done).toEqual([])
    await ask('POST', '/reload')
    await ask('POST', '/drain')
    expect(done).toEqual(['reload', 'drain'])
  })

  test('that cannot be done says why', async () => {
    start({ reload: () => Promise.reject(new ServiceError({ kind: 'catalog_missing' }, 'catalog.yaml:3: models.x')) })
    const response = await ask('POST', '/reload')
    expect({ status: response.status, body: await response.json() }).toEqual({
      status: 409,
      body: { error: { kind: 'catalog_missing', message: 'catalog.yaml:3: models.x' } },
    })
  })

  test('that fails for a reason of ours says so in a fixed sentence, and the log has the cause', async () => {
    start({ status: () => Promise.reject(new Error('a detail')) })
    const response = await ask('GET', '/status')
    expect(response.status).toBe(500)
    expect(await response.text()).not.toContain('a detail')
    expect(await logged()).toContain('a detail')
  })

  test('is answered without what looks like a secret, whoever has said it', async () => {
    const reason = 'Incorrect API key provided: sk-proj-0123456789abcdef.'
    start({ reload: () => Promise.reject(new ServiceError({ kind: 'catalog_missing' }, reason)) })
    const text = await (await ask('POST', '/reload')).text()
    expect(text).toContain('Incorrect API key')
    expect(text).not.toContain('0123456789')
  })
})
