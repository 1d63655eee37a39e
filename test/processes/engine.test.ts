/** Model servers as processes, including a real one of the tests. */
import { afterEach, describe, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { killOrphans, type Launched, runGuarded } from '../../src/processes/child.ts'
import { OWNER_VARIABLE } from '../../src/processes/command.ts'
import { createEngine, LogFile } from '../../src/processes/engine.ts'
import { readMeasured } from '../../src/processes/managed.ts'
import { createTestFolder, forEachTest } from '../support/lifetime.ts'
import { modelServer } from '../support/model-server.ts'
import { until } from '../support/until.ts'
import { toSpec } from './servers.ts'

let running: Launched[] = []
afterEach(async () => {
  for (const server of running) server.signal('SIGKILL')
  await Promise.all(running.map(({ exited }) => exited))
  running = []
})
const folder = forEachTest(createTestFolder)

const environment = {
  PATH: process.env.PATH,
  HOME: process.env.HOME,
  OPENAI_API_KEY: 'a secret of ours',
  NVIDIA_API_KEY: 'a secret of ours',
  LLAMA_ARG_X: '1',
}

async function start(command: string[], findPort?: () => number) {
  const engine = createEngine({
    folder: folder.path,
    owner: null,
    environment,
    now: Date.now,
    ...(findPort ? { findPort } : {}),
  })
  const spec = toSpec({ command })
  const server = await engine.launch('gemma', 'local/gemma', spec)
  running.push(server)
  return { server, look: async () => (await engine.look(server, spec)).state }
}

const readLog = (name = 'gemma.log') =>
  existsSync(join(folder.path, name)) ? readFileSync(join(folder.path, name), 'utf8') : ''

/** Running processes of a group. */
function groupOf({ pid }: Launched): string[] {
  const { stdout } = Bun.spawnSync(['ps', '-eo', 'pgid=,stat=,args='])
  const lines = stdout.toString().split('\n')
  return lines.filter((line) => new RegExp(`^\\s*${pid}\\s+[^Z]`).test(line))
}

const isLinux = process.platform === 'linux'

/** A shell that prints its process ID, and waits. */
const toDaemon = (path: string) => `sh -c 'echo $$ > ${path}; exec sleep 1000' >/dev/null 2>&1`

async function pidIn(path: string): Promise<number> {
  await until('it has said which process it is', () => existsSync(path) && readFileSync(path, 'utf8').endsWith('\n'))
  return Number(readFileSync(path, 'utf8'))
}

const isRunning = (pid: number) =>
  /^[^Z\s]/.test(
    Bun.spawnSync(['ps', '-o', 'stat=', '-p', `${pid}`])
      .stdout.toString()
      .trim(),
  )

/** A separate process that starts servers, and then idles. */
function startGateway(script: string) {
  const whole = `
    const { createEngine } = await import('${join(import.meta.dir, '../../src/processes/engine.ts')}')
    const owner = ${JSON.stringify(folder.path)}
    const engine = createEngine({ folder: owner, owner, environment: process.env, now: Date.now })
    const spec = { stopCommand: null, health: '/health' }
    const launch = (id, own) => engine.launch(id, 'local/' + id, { ...spec, ...own })
    const look = async (server) => (await engine.look(server, spec)).state
    ${script}
    await Bun.sleep(60_000)`
  return Bun.spawn([process.execPath, '-e', whole], { stdout: 'pipe', stderr: 'inherit' })
}

describe('a model server as a process', () => {
  test('loads, becomes ready, reports its memory, and ends with all its child processes', async () => {
    const { server, look } = await start(modelServer('--load', '150', '--child'))
    expect(await look()).toBe('loading')
    await until('it is ready', async () => (await look()) === 'ready')
    expect(server.memoryBytes()).toBeGreaterThan(1_000_000)
    expect(groupOf(server).length).toBeGreaterThan(2)
    server.signal('SIGTERM')
    expect(await server.exited).toBe('exited with 0')
    await until('all of it has gone', () => groupOf(server).length === 0)
    expect(server.memoryBytes()).toBeNull()
  })

  test('writes to its log, without its key', async () => {
    const { server, look } = await start(modelServer())
    await until('it is ready', async () => (await look()) === 'ready')
    server.signal('SIGKILL')
    expect(await server.exited).toBe('was killed by SIGKILL')
    await until('its end is told', () => readLog().includes('was killed by SIGKILL'))
    expect(readLog()).toContain(`started as process ${server.pid}`)
    expect(readLog()).toContain('model server local/gemma with …')
    expect(readLog()).not.toContain(server.key)
  })

  test('has the environment variables that configure engines, and none of our credentials', async () => {
    const { server } = await start(['sh', '-c', 'env'])
    await server.exited
    await until('it has told', () => readLog().includes('exited with 0'))
    expect(readLog()).toContain('LLAMA_ARG_X=1')
    expect(readLog()).toContain('LLAMA_API_KEY=…')
    expect(readLog()).not.toContain('a secret of ours')
  })

  test('is not confused with another server on its port', async () => {
    const other = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      routes: { '/health': () => new Response('ok') },
      fetch: () => Response.json({ model_alias: 'local/other' }),
    })
    const closed = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      routes: { '/health': () => new Response('ok') },
      fetch: () => new Response('', { status: 401 }),
    })
    for (const { port } of [other, closed]) {
      const { server, look } = await start(modelServer(), () => port ?? 0)
      expect(await look()).toBe('foreign')
      expect(await server.exited).toBe('exited with 1')
    }
    await Promise.all([other.stop(true), closed.stop(true)])
  })

  test('with a missing program says what to do', async () => {
    await expect(start(['no-such-server', '-m', 'x'])).rejects.toThrow(
      "program no-such-server is not on the server's PATH; install it or use its full path in `process`",
    )
    await expect(start(['/nowhere/llama-server'])).rejects.toThrow('correct the path in `process`')
    await until('the log has it', () => readLog().includes("not started: program /nowhere/llama-server doesn't exist"))
  })

  test('is not left behind by a killed process', async () => {
    const gateway = startGateway(`
      const command = ${JSON.stringify(modelServer('--deaf', '--child'))}
      const both = [await launch('a', { command }), await launch('b', { command })]
      for (const server of both) while ((await look(server)) !== 'ready') await Bun.sleep(10)
      console.log(both.map(({ pid }) => pid).join(' '))`)
    const { value } = await gateway.stdout.getReader().read()
    const pids = new TextDecoder().decode(value).trim().split(' ').map(Number)
    expect(pids.length).toBe(2)
    const groups = () => pids.flatMap((pid) => groupOf({ pid } as Launched))
    expect(groups().length).toBeGreaterThan(4)
    gateway.kill('SIGKILL')
    await gateway.exited
    await until('all of it has gone', () => groups().length === 0)
  })

  test('leaves no running stop command behind if the process is killed', async () => {
    const path = join(folder.path, 'pid')
    const stopCommand = ['sh', '-c', `echo $$ > ${path}; exec sleep 1000`]
    const gateway = startGateway(`await launch('a', ${JSON.stringify({ command: ['sleep', '1000'], stopCommand })})`)
    const pid = await pidIn(path)
    gateway.kill('SIGKILL')
    await gateway.exited
    await until('it has gone', () => !isRunning(pid))
  })

  test.if(isLinux)('leaves no process behind that has created its own session', async () => {
    const path = join(folder.path, 'pid')
    const { server } = await start(['sh', '-c', `setsid ${toDaemon(path)} & sleep 1000`])
    const pid = await pidIn(path)
    server.signal('SIGTERM')
    await server.exited
    expect(isRunning(pid)).toBe(false)
  })

  test.if(isLinux)(
    'that has left its group and a process that was killed is ended by the next one of its owner',
    async () => {
      const path = join(folder.path, 'pid')
      const command = ['sh', '-c', `setsid ${toDaemon(path)} & sleep 1000`]
      const gateway = startGateway(`await launch('a', ${JSON.stringify({ command })})`)
      const pid = await pidIn(path)
      gateway.kill('SIGKILL')
      await gateway.exited
      expect(await killOrphans(OWNER_VARIABLE, 'somebody else')).toBe(0)
      expect(isRunning(pid)).toBe(true)
      expect(await killOrphans(OWNER_VARIABLE, folder.path)).toBeGreaterThan(0)
      expect(isRunning(pid)).toBe(false)
    },
  )

  test('is stopped by its stop command if it has one, which also runs before its start', async () => {
    const engine = createEngine({ folder: folder.path, owner: null, environment, now: Date.now })
    const spec = toSpec({ command: ['sleep', '1000'], stopCommand: ['sh', '-c', 'echo removed {slug} at {port}'] })
    const server = await engine.launch('gemma', 'local/gemma', spec)
    running.push(server)
    await engine.runStopCommand('gemma', server, spec)
    await until('it has run twice', () => readLog().split(`removed local/gemma at ${server.port}`).length === 3)
  })

  test('starts even if its stop command starts processes, which end with the command', async () => {
    const engine = createEngine({ folder: folder.path, owner: null, environment, now: Date.now })
    const left = join(folder.path, 'left')
    const stopCommand = ['sh', '-c', `sleep 1000 & echo $! > ${left}`]
    running.push(await engine.launch('gemma', 'local/gemma', toSpec({ command: ['sleep', '1000'], stopCommand })))
    const pid = await pidIn(left)
    await until('it has gone', () => !isRunning(pid))
  })
})

test('a program that does not end in time is killed with all its child processes', async () => {
  const path = join(folder.path, 'pid')
  const { isLate, how } = await runGuarded(['sh', '-c', `sleep 1000 & echo $! > ${path}; wait`], {
    ...{ environment: { PATH: process.env.PATH ?? '' }, secret: null, mostMs: 200, write() {} },
  })
  expect([isLate, how]).toEqual([true, 'was killed by SIGKILL'])
  const pid = await pidIn(path)
  await until('all of it has gone', () => !isRunning(pid))
})

test('the log of a server is bounded, and its newest part is kept', async () => {
  const log = new LogFile(join(folder.path, 'x.log'), 1_000)
  for (let i = 0; i < 100; i++) {
    log.write(`${String(i).padStart(49, '0')}\n`)
    await log.flush()
  }
  const [now, before] = [readLog('x.log'), readLog('x.log.1')]
  expect(now.length + before.length).toBeLessThanOrEqual(1_000)
  expect(`${before}${now}`.endsWith('99\n')).toBe(true)
  expect(`${before}${now}`.split('\n').length).toBeGreaterThan(10)
})

test("a model's measured memory is stored across restarts", () => {
  const path = join(folder.path, 'run', 'memory.json')
  const log = { warn() {} }
  const first = readMeasured(path, log)
  first.note('h1', 1_000)
  first.note('h1', 900)
  first.note('h2', 50)
  expect([first.get('h1'), first.get('h3')]).toEqual([1_000, null])
  const second = readMeasured(path, log)
  expect([second.get('h1'), second.get('h2')]).toEqual([1_000, 50])
})
