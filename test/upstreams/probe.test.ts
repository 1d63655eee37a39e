/** The free health check of an upstream over real sockets. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import type { Upstream } from '../../src/domain/snapshot.ts'
import { createAllBackends } from '../../src/server/backends.ts'
import type { Readiness } from '../../src/upstreams/backend.ts'
import { DEFAULT_OPTIONS } from '../../src/upstreams/dialects/dialects.ts'
import { toTarget } from '../support/snapshot.ts'
import { type ScriptedUpstream, startUpstream } from '../support/upstream.ts'
import type { Behaviour } from '../support/upstream-answers.ts'

const CREDENTIAL = 'our own secret'
const { signal } = new AbortController()
const backends = createAllBackends()

const toUpstream = (baseUrl: string | null, fields: Partial<Upstream> = {}) => toTarget({ baseUrl, ...fields }).upstream
const reasonOf = (readiness: Readiness | null) => (readiness && 'reason' in readiness ? readiness.reason : null)

let upstream: ScriptedUpstream
let deadUrl: string
beforeAll(async () => {
  upstream = await startUpstream()
  const dead = await startUpstream()
  await dead.stop()
  deadUrl = dead.url
})
afterAll(() => upstream.stop())

describe('the health check', () => {
  const probe = (at: Upstream, until = signal) => backends[at.dialect].probe(at, until)
  const answering = (behaviour: Behaviour) => {
    upstream.scriptProbes(behaviour)
    return probe(toUpstream(upstream.url, { credential: CREDENTIAL }))
  }

  test('requests the models with the credential, and nothing else', async () => {
    const from = upstream.probes.length
    await answering({ kind: 'whole', body: { data: [] } })
    const [seen, ...others] = upstream.probes.slice(from)
    expect(others).toEqual([])
    expect(seen).toMatchObject({ method: 'GET', path: '/v1/models', body: '' })
    expect(seen?.headers.authorization).toBe(`Bearer ${CREDENTIAL}`)
    await probe(toUpstream(upstream.url))
    expect(upstream.probes.at(-1)?.headers).not.toContainKey('authorization')
    const more = { auth: 'api-key', query: { 'api-version': '1' }, headers: { 'X-Team': 'a' } }
    const options = { ...DEFAULT_OPTIONS, ...more, path: '/chats' }
    await probe(toUpstream(upstream.url, { credential: CREDENTIAL, options }))
    const { path, headers } = upstream.probes.at(-1) ?? {}
    expect(path).toBe('/v1/models?api-version=1')
    expect(headers).toMatchObject({ 'api-key': CREDENTIAL, 'x-team': 'a' })
    expect(headers).not.toContainKey('authorization')
  })

  test.each([
    [200, 'ready', null],
    [401, 'refused', '/models returned 401: missing or invalid api_key'],
    [402, 'refused', '/models returned 402: payment required on the provider account'],
    [403, 'refused', '/models returned 403: api_key or provider account not permitted to do this'],
    [500, 'degraded', '/models returned 500'],
    [503, 'degraded', '/models returned 503'],
    [204, 'unknown', null],
    [302, 'unknown', null],
    [400, 'unknown', null],
    [404, 'unknown', null],
    [405, 'unknown', null],
    [429, 'unknown', null],
    [501, 'unknown', null],
  ] as [number, Readiness['state'], string | null][])('answered with %d finds the upstream %s', async (...row) => {
    const [status, state, reason] = row
    const headers = { location: `${deadUrl}/elsewhere` }
    const readiness = await answering({ kind: 'whole', status, headers, body: { error: { message: CREDENTIAL } } })
    expect([readiness.state, reasonOf(readiness)]).toEqual([state, reason])
  })

  test('does not read past the status', async () => {
    const endless = Array.from({ length: 2_000 }, () => 'x'.repeat(64 * 1024))
    const from = upstream.probes.length
    expect(await answering({ kind: 'stream', steps: endless })).toEqual({ state: 'ready' })
    await upstream.waitFor(() => typeof upstream.probes[from]?.abortedAtMs === 'number', 'the probe to hang up')
  })

  test.each([
    ['a place where nobody listens', () => deadUrl, 'connection refused'],
    ['a name that does not resolve', () => 'http://no-such-host.invalid/v1', 'host name does not resolve'],
  ])('finds %s down, and names no host', async (_, url, reason) => {
    expect(await probe(toUpstream(url(), { credential: CREDENTIAL }))).toEqual({ state: 'down', reason })
  })

  test.each(['[::1]', 'localhost'])('reaches %s if only IPv6 is served', async (host) => {
    const server = Bun.serve({ hostname: '::1', port: 0, fetch: () => new Response() })
    expect(await probe(toUpstream(`http://${host}:${server.port}/v1`))).toEqual({ state: 'ready' })
    await server.stop(true)
  })

  test('uses a separate connection, and leaves none behind', async () => {
    await answering({ kind: 'whole', body: {} })
    await upstream.waitFor(() => upstream.connections === 0, 'the probe to hang up')
  })

  test('of an unreachable host ends at its time limit, and leaves no socket behind', async () => {
    await using host = await startDeafHost()
    const sockets = () => readdirSync('/proc/self/fd').length
    const before = sockets()
    for (let round = 0; round < 3; round++) {
      const found = await probe(toUpstream(`http://127.0.0.1:${host.port}/v1`), AbortSignal.timeout(200))
      expect(found.state).toBe('timeout')
    }
    await Bun.sleep(50)
    expect(sockets()).toBeLessThanOrEqual(before + 1)
  })

  test('without free file descriptors is not sent, and gives no result for the upstream', async () => {
    const script = `
      import { openSync } from 'node:fs'
      import { createAllBackends } from './src/server/backends.ts'
      import { toTarget } from './test/support/snapshot.ts'
      const { upstream } = toTarget({ baseUrl: '${upstream.url}' })
      const probe = () => createAllBackends().openai.probe(upstream, new AbortController().signal)
      const before = await probe()
      try { for (;;) openSync('/dev/null', 'r') } catch {}
      console.log(before.state, (await probe()).state)
      process.exit(0)`
    upstream.scriptProbes({ kind: 'whole', body: {} })
    const command = ['sh', '-c', 'ulimit -n 100; exec "$0" -e "$1"', process.execPath, script]
    const child = Bun.spawn(command, { cwd: `${import.meta.dir}/../..`, stdout: 'pipe' })
    expect((await new Response(child.stdout).text()).trim()).toBe('ready not_made')
  })

  test('gives `unknown` if the connection is accepted and broken: the upstream may still chat', async () => {
    expect(await answering({ kind: 'reset' })).toEqual({ state: 'degraded', reason: 'connection reset' })
  })

  test('never sends a credential that is no valid header', async () => {
    const readiness = await probe(toUpstream(upstream.url, { credential: 'half\nhalf' }))
    expect(readiness.state).toBe('down')
    expect(reasonOf(readiness)).not.toContain('half')
  })

  test("is abandoned if it takes too long, and late doesn't mean down", async () => {
    upstream.scriptProbes({ kind: 'silent' })
    const from = upstream.probes.length
    const ending = new AbortController()
    const pending = probe(toUpstream(upstream.url), ending.signal)
    await upstream.waitFor(() => upstream.probes.length > from)
    ending.abort()
    expect(await pending).toEqual({ state: 'timeout', reason: '/models timed out' })
  })

  test('finds the demo ready', async () => {
    expect(await probe(toUpstream(null, { dialect: 'demo' }))).toEqual({ state: 'ready' })
  })
})

/** A stopped process that listens, with a full queue of connections: further ones get no reply. */
async function startDeafHost() {
  const script = `console.log(Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } }).port)`
  const child = Bun.spawn([process.execPath, '-e', script], { stdout: 'pipe' })
  const { value } = await child.stdout.getReader().read()
  const port = Number(new TextDecoder().decode(value))
  child.kill('SIGSTOP')
  const waiting: Socket[] = []
  const hears = async () => {
    const socket = connect({ host: '127.0.0.1', port }).on('error', () => {})
    waiting.push(socket)
    return Promise.race([once(socket, 'connect').then(() => true), Bun.sleep(300).then(() => false)])
  }
  while (await hears());
  return {
    port,
    async [Symbol.asyncDispose]() {
      for (const socket of waiting) socket.destroy()
      child.kill('SIGKILL')
      await child.exited
    },
  }
}

test("uses a server's health endpoint if it has one, next to its API, and not its model list", async () => {
  let status = 503
  const asked: string[] = []
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch(request) {
      const { pathname } = new URL(request.url)
      asked.push(pathname)
      // Its list responds while the model loads.
      return new Response('{}', { status: pathname === '/health' ? status : 200 })
    },
  })
  const options = { ...DEFAULT_OPTIONS, probe: '/health' }
  const upstream = toUpstream(`http://127.0.0.1:${server.port}/v1`, { local: true, options })
  expect(await backends.openai.probe(upstream, signal)).toMatchObject({ state: 'degraded' })
  status = 200
  expect(await backends.openai.probe(upstream, signal)).toEqual({ state: 'ready' })
  status = 404
  expect(await backends.openai.probe(upstream, signal)).toEqual({ state: 'unknown' })
  expect(asked).toEqual(['/health', '/health', '/health'])
  server.stop(true)
})
