/** The built binary with several processes: one ledger, one set of limits, whichever process is killed. */
import { afterEach, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { copyFile, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { BINARY, createWorkplace, type RunningBinary, type Workplace } from '../support/binary.ts'
import { makeCertificate, putPair } from '../support/certificate.ts'
import { HELLO, toCatalogue } from '../support/gateway.ts'
import { askRaw } from '../support/raw.ts'
import { until } from '../support/until.ts'
import { type ScriptedUpstream, startUpstream } from '../support/upstream.ts'
import { streamAnswer, wholeAnswer } from '../support/upstream-answers.ts'

const childrenOf = (pid: number) =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number)

describe.skipIf(process.platform !== 'linux')('a server with two workers', () => {
  let place: Workplace
  let upstream: ScriptedUpstream
  let server: RunningBinary
  /** Of a stream; 20 per second. */
  let tokens = 20
  const start = async (...args: string[]) => {
    place = createWorkplace()
    upstream = await startUpstream(({ json }) =>
      json?.stream === true ? streamAnswer({ tokens, paceMs: 50 }) : wholeAnswer(),
    )
    const catalog = await place.write('catalog.yaml', toCatalogue({ url: upstream.url }))
    const environment = { UPSTREAM_KEY: 'x' }
    server = await place.serve(['--processes', '2', '--first-key', '--catalog', catalog, ...args], { environment })
  }
  afterEach(async () => {
    tokens = 20
    await place.close()
    await upstream.stop()
  })

  /** On a separate connection, which any worker may get. */
  const ask = (body: object = {}, key = server.key, tls: Bun.TLSOptions = {}) =>
    fetch(`${server.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', connection: 'close' },
      body: JSON.stringify({ ...HELLO, ...body }),
      keepalive: false,
      tls,
    })
  const createKey = async (...options: string[]) => {
    const { stdout } = await place.run('keys', 'create', '--name', `k${Math.random()}`, '--json', ...options)
    return String(JSON.parse(stdout).key)
  }
  const serveAgain = () =>
    place.serve(['--processes', '2', '--port', new URL(server.baseUrl).port], { environment: { UPSTREAM_KEY: 'x' } })
  const verified = async (settled: number) => {
    const verify = async () => (await place.run('ledger', 'verify')).stdout
    await until('all are settled', async () => (await verify()).includes(` ${settled} settled request`))
    expect(await verify()).toStartWith('The ledger is consistent')
  }

  test('serves requests in both, and records each once', async () => {
    await start()
    const responses = await Promise.all(Array.from({ length: 40 }, () => ask()))
    expect(responses.map(({ status }) => status)).toEqual(Array(40).fill(200))
    await Promise.all(responses.map((response) => response.text()))
    await verified(40)
    const instances = new Set(upstream.requests.map(({ headers }) => headers['x-tollgate-hops']))
    expect(instances.size).toBe(2)
    expect(await (await fetch(new URL('/readyz', server.baseUrl))).json()).toEqual({ status: 'degraded' })
    const models = await fetch(`${server.baseUrl}/models`, { headers: { authorization: `Bearer ${server.key}` } })
    expect(JSON.stringify(await models.json())).toContain('acme/large')
    expect((await fetch(new URL('/v1/nothing', server.baseUrl))).status).toBe(404)
    expect((await fetch(new URL('/admin', server.baseUrl))).status).toBe(200)
  })

  test('reports a request once its response has ended', async () => {
    await start()
    for (const count of [1, 2, 3]) {
      await (await ask()).text()
      expect(JSON.parse((await place.run('requests', 'list', '--json')).stdout).requests.length).toBe(count)
    }
  })

  test('handles the rest like a single process: changes, CORS, HEAD, and health checks without a host', async () => {
    await start('--cors-origin', 'https://app.example')
    const { stdout } = await place.run('admin', 'token', 'create', 'script', '--scope', 'write', '--json')
    const headers = { authorization: `Bearer ${JSON.parse(stdout).token}`, 'content-type': 'application/json' }
    const change = (name: string) =>
      fetch(new URL('/admin/api/keys', server.baseUrl), { method: 'POST', headers, body: JSON.stringify({ name }) })
    expect((await change('made')).status).toBe(200)
    const refused = await change('x'.repeat(150 * 1024 ** 2))
    expect(await refused.json()).toMatchObject({ error: { kind: 'body_too_long' } })

    const health = new URL('/healthz', server.baseUrl)
    const opened = await fetch(health, { headers: { origin: 'https://app.example' } })
    expect(opened.headers.get('access-control-allow-origin')).toBe('https://app.example')
    const length = opened.headers.get('content-length') ?? ''
    expect((await fetch(health, { method: 'HEAD' })).headers.get('content-length')).toBe(length)
    expect((await askRaw(health.origin, '/healthz', { version: '1.0' })).status).toBe(200)
  })

  test('reports that its port is in use, like a single process', async () => {
    await start()
    const other = createWorkplace()
    const { port } = new URL(server.baseUrl)
    const { code, stderr } = await other.run('serve', '--processes', '2', '--port', port)
    expect([code, stderr]).toEqual([
      1,
      `error: 127.0.0.1:${port} is already in use. Choose another port with --port.\n`,
    ])
    await other.close()
  })

  test('admits no more than a limit or budget allows, whichever worker gets the requests', async () => {
    await start()
    const [rated = '', slots = '', budgeted = ''] = [
      await createKey('--rpm', '10'),
      await createKey('--concurrency', '3'),
      await createKey('--budget', '0.02/month'),
    ]
    const statusesOf = async (key: string, body: object) => {
      const all = await Promise.all(Array.from({ length: 40 }, () => ask(body, key)))
      await Promise.all(all.map((response) => response.text()))
      return all.filter(({ status }) => status === 200).length
    }
    expect(await statusesOf(rated, {})).toBe(10)
    expect(await statusesOf(slots, { stream: true })).toBe(3)
    // A request reserves up to a fifth of a cent, so ten fit at once. Others may follow once those have ended.
    const admitted = await statusesOf(budgeted, { stream: true, max_tokens: 1000 })
    expect(admitted).toBeGreaterThan(0)
    expect(admitted).toBeLessThan(40)
  })

  test('refuses a key everywhere once it is revoked', async () => {
    await start()
    const { stdout } = await place.run('keys', 'create', '--name', 'gone', '--json')
    const { key } = JSON.parse(stdout)
    expect((await ask({}, key)).status).toBe(200)
    await place.run('keys', 'revoke', 'gone')
    const after = await Promise.all(Array.from({ length: 20 }, () => ask({}, key)))
    expect(after.map(({ status }) => status)).toEqual(Array(20).fill(401))
  })

  test('continues when a worker is killed: another starts, and requests in flight are charged as reserved', async () => {
    await start()
    const streams = await Promise.all(Array.from({ length: 16 }, () => ask({ stream: true })))
    const [killed = 0] = childrenOf(server.pid)
    process.kill(killed, 'SIGKILL')
    const texts = await Promise.all(streams.map((response) => response.text().catch(() => 'cut')))
    const whole = texts.filter((text) => text.includes('data: [DONE]')).length
    expect(whole).toBeGreaterThan(0)
    expect(whole).toBeLessThan(16)
    await until('another worker', () => childrenOf(server.pid).length === 2 && !childrenOf(server.pid).includes(killed))
    await server.logged('worker_started')
    expect((await ask()).status).toBe(200)
    await verified(17)
    expect((await place.run('requests', 'list', '--json')).stdout.match(/"status":\s*"abandoned"/g)?.length).toBe(
      16 - whole,
    )
  })

  test('has spent as much of a budget as the ledger has, although workers that had leased some are killed', async () => {
    const free = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
    free.stop()
    await start('--metrics', String(free.port))
    const { stdout } = await place.run('keys', 'create', '--name', 'budgeted', '--budget', '10/month', '--json')
    const { key } = JSON.parse(stdout)
    let isEnding = false
    const load = Array.from({ length: 12 }, async () => {
      while (!isEnding)
        await ask({ max_tokens: 100 }, key).then(
          (response) => response.text().catch(() => ''),
          () => '',
        )
    })
    for (let kills = 0; kills < 3; kills++) {
      await Bun.sleep(500)
      const [killed = 0] = childrenOf(server.pid)
      process.kill(killed, 'SIGKILL')
      const all = () => childrenOf(server.pid)
      await until('another worker', () => all().length === 2 && !all().includes(killed))
    }
    isEnding = true
    await Promise.all(load)
    const leftInLimits = async () => {
      const page = await (await fetch(`http://127.0.0.1:${free.port}/metrics`)).text()
      return Math.round(1e9 * Number(/tollgate_key_budget_left_usd\{[^}]*\} (\S+)/.exec(page)?.[1]))
    }
    const leftInLedger = async () => {
      const { usage } = JSON.parse((await place.run('usage', '--key', 'budgeted', '--json')).stdout)
      return 1e10 - Number(usage[0]?.cost_nano_usd)
    }
    await until('the same', async () => (await leftInLimits()) === (await leftInLedger()))
    expect(await leftInLedger()).toBeLessThan(1e10)
  })

  test('starts workers of its own version, even after an upgrade has replaced its binary', async () => {
    await start()
    const [binary, next] = [join(place.folder, 'tollgate'), join(place.folder, 'next')]
    await copyFile(BINARY, binary)
    const old = await place.serve(['--processes', '2', '--data', join(place.folder, 'other')], { binary })
    await Bun.write(next, '')
    await rename(next, binary)
    process.kill(childrenOf(old.pid)[0] ?? 0, 'SIGKILL')
    await old.logged('worker_started')
  })

  test('is followed by another when it is killed: its workers finish their requests, which are recorded', async () => {
    tokens = 80
    await start()
    const streams = await Promise.all(Array.from({ length: 8 }, () => ask({ stream: true })))
    const workers = childrenOf(server.pid)
    server.signal('SIGKILL')
    await server.exited
    const next = await serveAgain()
    expect(workers.every(isRunning)).toBe(true)
    const texts = await Promise.all(streams.map((response) => response.text()))
    expect(texts.every((text) => text.includes('data: [DONE]'))).toBe(true)
    await until('they end', () => workers.every((pid) => !isRunning(pid)))
    server = { ...next, key: server.key }
    expect((await ask()).status).toBe(200)
    await verified(9)
  })

  test('restarts without an interruption', async () => {
    await start()
    const streams = await Promise.all(Array.from({ length: 8 }, () => ask({ stream: true })))
    const restarted = await place.restart()
    expect(restarted).toMatchObject({ code: 0, stderr: '' })
    const after = await Promise.all(Array.from({ length: 8 }, () => ask()))
    expect(after.map(({ status }) => status)).toEqual(Array(8).fill(200))
    const texts = await Promise.all(streams.map((response) => response.text()))
    expect(texts.every((text) => text.includes('data: [DONE]'))).toBe(true)
    expect(childrenOf(restarted.pid).length).toBe(2)
    await verified(16)
  })

  test('frees the port when the server after a restart is killed', async () => {
    tokens = 80
    await start()
    const streams = await Promise.all(Array.from({ length: 8 }, () => ask({ stream: true })))
    const { pid } = await place.restart()
    process.kill(pid, 'SIGKILL')
    server = { ...(await serveAgain()), key: server.key }
    expect((await ask()).status).toBe(200)
    const texts = await Promise.all(streams.map((response) => response.text()))
    expect(texts.every((text) => text.includes('data: [DONE]'))).toBe(true)
    await verified(9)
  })

  test('restarts even if a worker hangs, which it kills', async () => {
    await start()
    const [hangs = 0] = childrenOf(server.pid)
    process.kill(hangs, 'SIGSTOP')
    expect(await place.restart()).toMatchObject({ code: 0, stderr: '' })
    expect(isRunning(hangs)).toBe(false)
    const after = await Promise.all(Array.from({ length: 8 }, () => ask()))
    expect(after.map(({ status }) => status)).toEqual(Array(8).fill(200))
  })

  test('ends with its workers on a second signal', async () => {
    tokens = 80
    await start()
    await Promise.all(Array.from({ length: 4 }, () => ask({ stream: true })))
    const workers = childrenOf(server.pid)
    server.signal('SIGTERM')
    await server.logged('server_stopping')
    server.signal('SIGTERM')
    expect(await server.exited).toBe(1)
    await until('they end', () => !workers.some(isRunning))
  })

  test('serves the newest of several certificates in quick succession, and fails no request', async () => {
    const pairs = [1, 2, 3].map(() => makeCertificate('DNS:localhost,IP:127.0.0.1'))
    const [first = pairs[0], ...later] = pairs
    if (!first) throw new Error('no certificate')
    const files = putPair(first)
    await start('--tls-cert', files.certFile, '--tls-key', files.keyFile)
    let isOver = false
    const statuses = new Set<number>()
    const load = async () => {
      while (!isOver) statuses.add((await ask({}, server.key, { rejectUnauthorized: false })).status)
    }
    const loads = [load(), load(), load()]
    for (const pair of later) {
      files.write(pair)
      expect(await place.run('reload')).toMatchObject({ code: 0 })
      const trusted = await Promise.all(Array.from({ length: 12 }, () => ask({}, server.key, { ca: pair.cert })))
      expect(trusted.map(({ status }) => status)).toEqual(Array(12).fill(200))
    }
    expect((await place.restart()).code).toBe(0)
    const { status } = await ask({}, server.key, { ca: later.at(-1)?.cert })
    expect(status).toBe(200)
    isOver = true
    await Promise.all(loads)
    expect([...statuses]).toEqual([200])
  })

  test('stops with its workers, after their requests', async () => {
    await start()
    const streams = await Promise.all(Array.from({ length: 6 }, () => ask({ stream: true })))
    const workers = childrenOf(server.pid)
    server.signal('SIGTERM')
    const texts = await Promise.all(streams.map((response) => response.text()))
    expect(texts.every((text) => text.includes('data: [DONE]'))).toBe(true)
    expect(await server.exited).toBe(0)
    expect(workers.filter(isRunning)).toEqual([])
  })
})

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
