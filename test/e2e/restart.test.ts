/**
 * `tollgate restart` and `reload` of the binary: which process serves afterwards, and the view of clients and the
 * ledger.
 */
import { expect, test } from 'bun:test'
import { readdirSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { isServed } from '../../src/store/data-folder.ts'
import { createWorkplace, type RunningBinary, startBinary } from '../support/binary.ts'
import { toFrames } from '../support/frames.ts'
import { HELLO, toCatalogue } from '../support/gateway.ts'
import { forEachTest } from '../support/lifetime.ts'
import { until } from '../support/until.ts'
import { startUpstream } from '../support/upstream.ts'
import { streamAnswer } from '../support/upstream-answers.ts'

const place = forEachTest(createWorkplace)
const upstream = forEachTest(startUpstream)
const onLinux = test.skipIf(process.platform !== 'linux')

async function serve(...args: string[]): Promise<RunningBinary> {
  const catalog = await place.write('catalog.yaml', toCatalogue({ url: upstream.url }))
  return place.serve(['--first-key', '--catalog', catalog, ...args], { environment: { UPSTREAM_KEY: 'x' } })
}

const ask = (server: RunningBinary, body: object = HELLO, signal?: AbortSignal) =>
  fetch(`${server.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
    ...(signal && { signal }),
  })

async function status(): Promise<{ pid: number; in_flight: number }> {
  const response = await fetch('http://localhost/status', { unix: join(place.folder, 'data/control.sock') })
  return (await response.json()) as { pid: number; in_flight: number }
}

onLinux('a stream that runs through a restart ends whole, and the new server knows its cost', async () => {
  const gate = Promise.withResolvers<void>()
  let isOpen = false
  void gate.promise.then(() => {
    isOpen = true
  })
  const [role, word, ...rest] = streamAnswer().steps
  upstream.script(({ json }) => ({
    kind: 'stream',
    steps: (function* () {
      if (role !== undefined && word !== undefined) yield* [role, word]
      while (json?.user === 'slow' && !isOpen) yield { waitMs: 10 }
      yield* rest
    })(),
  }))
  const server = await serve()
  const running = await ask(server, { ...HELLO, stream: true, user: 'slow' })
  const restarted = await place.restart()
  expect({ code: restarted.code, stderr: restarted.stderr }).toEqual({ code: 0, stderr: '' })
  expect((await status()).pid).toBe(restarted.pid)
  expect(restarted.pid).not.toBe(server.pid)
  const after = await ask(server, { ...HELLO, stream: true })
  expect({ status: after.status, done: toFrames(await after.text()).done }).toEqual({ status: 200, done: true })
  // In progress, but no finding: its server finishes it.
  expect((await place.run('ledger', 'verify')).code).toBe(0)
  gate.resolve()
  expect(toFrames(await running.text()).done).toBe(true)
  const listed = async () => JSON.parse((await place.run('requests', 'list', '--json')).stdout).requests
  await until('both are settled', async () => (await listed()).length === 2)
  expect((await listed()).map((row: { status: string }) => row.status)).toEqual(['ok', 'ok'])
})

onLinux('a new server that cannot start leaves the old one as it is, and the command says why', async () => {
  const server = await serve()
  const wrong = await place.restart('--', '--retries', 'many')
  expect(wrong).toMatchObject({ code: 1, pid: 0, stderr: expect.stringContaining('retries') })
  await place.write('catalog.yaml', 'version: 1\nnonsense: 5\n')
  const broken = await place.restart()
  expect(broken).toMatchObject({ code: 1, pid: 0, stderr: expect.stringContaining('nonsense') })
  const { port } = new URL(upstream.url)
  const taken = await place.restart(
    '--',
    '--port',
    port,
    '--catalog',
    await place.write('good.yaml', toCatalogue({ url: upstream.url })),
  )
  expect(taken).toMatchObject({ code: 1, pid: 0, stderr: expect.stringContaining(`${port} is already in use`) })
  expect((await place.restart('--', '--no-such-flag')).stderr).toContain('--no-such-flag')
  expect((await ask(server)).status).toBe(200)
  expect((await status()).pid).toBe(server.pid)
})

onLinux('an old server that gets its folder back answers on, with the control socket that it had', async () => {
  const server = await serve()
  const { port } = new URL(upstream.url)
  const late = await place.restart('--', '--metrics', port)
  expect(late).toMatchObject({ code: 1, stderr: expect.stringContaining(`${port} is already in use`) })
  expect((await ask(server)).status).toBe(200)
  expect((await status()).pid).toBe(server.pid)
  const open = await Bun.file('/proc/net/unix').text()
  expect(open.match(new RegExp(`00010000 .*${place.folder}/data/control.sock`, 'g'))).toHaveLength(1)
})

onLinux('the new server has other flags, and what this command has in its environment', async () => {
  const server = await serve()
  const catalog = join(place.folder, 'catalog.yaml')
  const { code } = await place.restart('--environment', '--', '--catalog', catalog, '--max-in-flight', '7')
  expect(code).toBe(0)
  const { files } = JSON.parse(
    await (await fetch('http://localhost/status', { unix: join(place.folder, 'data/control.sock') })).text(),
  )
  expect(files.wanted_in_flight).toBe(7)
  // Its upstream's credential was only in the old environment.
  expect((await ask(server)).status).toBe(503)
})

onLinux(
  'a killed old server leaves its open requests to the new one, which charges what they had reserved',
  async () => {
    upstream.script({ kind: 'silent' })
    const server = await serve()
    const lost = ask(server).catch(() => null)
    await upstream.waitFor((seen) => seen.length === 1, 'the request')
    expect((await place.restart()).code).toBe(0)
    server.signal('SIGKILL')
    await lost
    const abandoned = async () => (await place.run('requests', 'list', '--json')).stdout.includes('"abandoned"')
    await until('it is abandoned', abandoned)
    expect((await place.run('ledger', 'verify')).code).toBe(0)
    await until(
      'its lock is gone',
      () => !readdirSync(join(place.folder, 'data/journal')).some((name) => name.endsWith('.draining')),
    )
  },
)

onLinux('a start removes the locks of servers that were killed', async () => {
  const server = await serve()
  const { pid } = await place.restart()
  for (const each of [pid, server.pid]) process.kill(each, 'SIGKILL')
  await server.exited
  const data = join(place.folder, 'data')
  await until('both are gone', () => !isServed(data))
  const locks = () => readdirSync(join(data, 'journal')).filter((name) => name.endsWith('.draining'))
  expect(locks()).toHaveLength(1)
  await serve()
  expect(locks()).toEqual([])
})

onLinux('one restart waits for the earlier server to exit; others are refused, and a stop ends it', async () => {
  upstream.script({ kind: 'silent' })
  const server = await serve()
  const { pid } = await place.restart()
  const running = ask(server).catch(() => null)
  await upstream.waitFor((seen) => seen.length === 1, 'a request that keeps the stopping server alive')
  const [one, other] = [place.restart(), place.restart()]
  const refused = await Promise.race([one, other])
  expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('Another restart is in progress') })
  process.kill(pid, 'SIGTERM')
  await until('it is stopping', () => server.stderr().includes('"signal":"SIGTERM"'))
  server.signal('SIGKILL')
  for (const { code, stderr } of await Promise.all([one, other])) expect({ code, stderr }).toMatchObject({ code: 1 })
  expect((await place.restart()).stderr).toContain('is stopping')
  process.kill(pid, 'SIGKILL')
  await running
})

onLinux('the data folder stays, wherever the old server has it from, also behind a proxy', async () => {
  const data = join(place.folder, 'data')
  const server = await startBinary([], { cwd: place.folder, environment: { TOLLGATE_DATA: data } })
  expect((await place.restart('--', '--data', 'other')).stderr).toContain('keeps the data folder')
  const response = await fetch('http://localhost/restart', {
    ...{ method: 'POST', unix: join(data, 'control.sock') },
    body: JSON.stringify({ flags: null, environment: { HTTP_PROXY: 'http://127.0.0.1:9' } }),
  })
  const { pid, error } = (await response.json()) as { pid: number; error?: object }
  server.signal('SIGKILL')
  expect(error).toBeUndefined()
  expect((await status()).pid).toBe(pid)
  process.kill(pid, 'SIGKILL')
})

onLinux('a connection from before answers one more request, by the new server, which knows its address', async () => {
  const server = await serve()
  const options = ['--name', 'ann', '--allow-ip', '127.0.0.1', '--json']
  const { key } = JSON.parse((await place.run('keys', 'create', ...options)).stdout)
  const socket = connect(Number(new URL(server.baseUrl).port), '127.0.0.1')
  let text = ''
  socket.on('data', (bytes) => {
    text += bytes.toString()
  })
  const send = () => socket.write(`GET /v1/models HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${key}\r\n\r\n`)
  const answers = () => text.match(/HTTP\/1\.1 200/g)?.length ?? 0
  send()
  await until('the old server answers', () => answers() === 1)
  expect((await place.restart()).code).toBe(0)
  text = ''
  const closed = new Promise((resolve) => socket.once('close', resolve))
  send()
  await closed
  expect(answers()).toBe(1)
  expect(text.toLowerCase()).toContain('connection: close')
})

onLinux('an old stream grows within what the budget has left at the new server', async () => {
  let isOpen = false
  upstream.script(({ json }) =>
    json?.stream === true
      ? {
          kind: 'stream',
          steps: (function* () {
            const [role, word, ...rest] = streamAnswer({ tokens: 20_000 }).steps
            if (role !== undefined && word !== undefined) yield* [role, word]
            while (!isOpen) yield { waitMs: 10 }
            yield* rest
          })(),
        }
      : { kind: 'silent' },
  )
  const catalog = await place.write(
    'catalog.yaml',
    toCatalogue({ url: upstream.url })
      .replaceAll('max_output_length: 1000', 'max_output_length: 100000')
      .replaceAll('context_length: 8192', 'context_length: 200000'),
  )
  const server = await place.serve(['--catalog', catalog], { environment: { UPSTREAM_KEY: 'x' } })
  const { key } = JSON.parse(
    (await place.run('keys', 'create', '--name', 'ann', '--budget', '0.02/day', '--json')).stdout,
  )
  const running = await ask({ ...server, key }, { ...HELLO, stream: true })
  expect(running.status).toBe(200)
  expect((await place.restart()).code).toBe(0)
  const waiting = new AbortController()
  const silent = ask({ ...server, key }, { ...HELLO, max_tokens: 3_000 }, waiting.signal).catch(() => null)
  await upstream.waitFor((seen) => seen.length === 2, 'a request of the new server')
  isOpen = true
  const { error } = toFrames(await running.text())
  // The reservation of the request at the new server.
  expect(error).toMatchObject({ code: 'insufficient_quota', message: expect.stringContaining('$0.006') })
  waiting.abort()
  await silent
})

test('reload applies the catalog, and names what needs a restart', async () => {
  await serve()
  await place.write('catalog.yaml', toCatalogue({ url: upstream.url }).replace('UPSTREAM_KEY', 'NEW_KEY'))
  const { code, stdout } = await place.run('reload')
  expect({ code, stdout }).toEqual({
    code: 0,
    stdout: expect.stringMatching(/need a restart: NEW_KEY, .*Run: tollgate restart/),
  })
})
