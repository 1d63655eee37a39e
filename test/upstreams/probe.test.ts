/** The free questions to an upstream over real sockets: a TCP connection, and the readiness probe of its dialect. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import type { Environment, Upstream } from '../../src/domain/snapshot.ts'
import { createLook } from '../../src/health/tcp.ts'
import { createAllBackends } from '../../src/server/backends.ts'
import type { Readiness } from '../../src/upstreams/backend.ts'
import { toTarget } from '../support/snapshot.ts'
import { type ScriptedUpstream, startUpstream } from '../support/upstream.ts'
import type { Behaviour } from '../support/upstream-answers.ts'

const CREDENTIAL = 'our own secret'
const { signal } = new AbortController()
const backendFor = createAllBackends()
const look = createLook({ environment: {} })

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

describe('the readiness probe', () => {
  const probe = (at: Upstream, until = signal) => backendFor({ upstream: at }).probe(at, until)
  const answering = (behaviour: Behaviour) => {
    upstream.script(behaviour)
    return probe(toUpstream(upstream.url, { credential: CREDENTIAL }))
  }

  test('asks for the models with the credential, and for nothing more', async () => {
    const from = upstream.requests.length
    await answering({ kind: 'whole', body: { data: [] } })
    const [seen, ...others] = upstream.requests.slice(from)
    expect(others).toEqual([])
    expect(seen).toMatchObject({ method: 'GET', path: '/v1/models', body: '' })
    expect(seen?.headers.authorization).toBe(`Bearer ${CREDENTIAL}`)
    await probe(toUpstream(upstream.url))
    expect(upstream.requests.at(-1)?.headers).not.toContainKey('authorization')
  })

  test.each([
    [200, 'ready', null],
    [401, 'refused', 'its /models answered 401: its api_key in the catalogue is missing or wrong'],
    [402, 'refused', 'its /models answered 402: its account has to be paid'],
    [403, 'refused', 'its /models answered 403: its api_key in the catalogue, or its account, may not do this'],
    [500, 'doubtful', 'its /models answered 500'],
    [503, 'doubtful', 'its /models answered 503'],
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

  test('does not read what comes after the status', async () => {
    const endless = Array.from({ length: 2_000 }, () => 'x'.repeat(64 * 1024))
    const from = upstream.requests.length
    expect(await answering({ kind: 'stream', steps: endless })).toEqual({ state: 'ready' })
    await upstream.waitFor((all) => typeof all[from]?.abortedAtMs === 'number', 'the probe to hang up')
  })

  test.each([
    ['a place where nobody listens', () => deadUrl, 'connection refused'],
    ['a name that does not resolve', () => 'http://no-such-host.invalid/v1', 'its name does not resolve'],
  ])('finds %s down, and names no host', async (_, url, reason) => {
    expect(await probe(toUpstream(url(), { credential: CREDENTIAL }))).toEqual({ state: 'down', reason })
  })

  test('doubts one that takes the connection and breaks it: it may chat all the same', async () => {
    expect(await answering({ kind: 'reset' })).toEqual({ state: 'doubtful', reason: 'the connection was reset' })
  })

  test('never says a credential that no header can hold', async () => {
    const readiness = await probe(toUpstream(upstream.url, { credential: 'half\nhalf' }))
    expect(readiness.state).toBe('down')
    expect(reasonOf(readiness)).not.toContain('half')
  })

  test('is given up where it takes too long, and late is not down', async () => {
    upstream.script({ kind: 'silent' })
    const from = upstream.requests.length
    const ending = new AbortController()
    const pending = probe(toUpstream(upstream.url), ending.signal)
    await upstream.waitFor((all) => all.length > from)
    ending.abort()
    expect(await pending).toEqual({ state: 'doubtful', reason: 'its /models did not answer in time' })
  })

  test('finds the demo ready', async () => {
    expect(await probe(toUpstream(null, { dialect: 'demo' }))).toEqual({ state: 'ready' })
  })
})

describe('the look', () => {
  test.each(['127.0.0.1', 'localhost'])('connects to %s, sends nothing and hangs up', async (host) => {
    const from = upstream.requests.length
    expect(await look(toUpstream(`http://${host}:${upstream.port}/deep/v1`), signal)).toEqual({ state: 'unknown' })
    await upstream.waitFor(() => upstream.connections === 0, 'the look to hang up')
    expect(upstream.requests.length).toBe(from)
  })

  test.each(['[::1]', 'localhost'])('connects to %s where only IPv6 is served', async (host) => {
    const server = Bun.listen({ hostname: '::1', port: 0, socket: { data() {} } })
    expect(await look(toUpstream(`https://${host}:${server.port}/v1`), signal)).toEqual({ state: 'unknown' })
    server.stop(true)
  })

  test.each([
    ['a port that nobody listens on', () => deadUrl, 'connection refused'],
    ['a name that does not resolve', () => 'https://no-such-host.invalid/v1', 'its name does not resolve'],
  ])('finds %s down', async (_, url, reason) => {
    expect(await look(toUpstream(url(), { credential: CREDENTIAL }), signal)).toEqual({ state: 'down', reason })
  })

  test('doubts a host that does not even refuse, and leaves no socket behind', async () => {
    await using host = await startDeafHost()
    const sockets = () => readdirSync('/proc/self/fd').length
    const before = sockets()
    const impatient = createLook({ environment: {}, timeoutMs: 200 })
    for (let round = 0; round < 3; round++) {
      const readiness = await impatient(toUpstream(`http://127.0.0.1:${host.port}/v1`), signal)
      expect(readiness).toEqual({ state: 'doubtful', reason: 'no connection within 0.2 s' })
    }
    expect(sockets()).toBeLessThanOrEqual(before + 1)
  })

  test.each(['127.0.0.1', 'localhost'])('does not take a stall of our own for silence of %s', async (host) => {
    const impatient = createLook({ environment: {}, timeoutMs: 200 })
    const at = toUpstream(`http://${host}:${upstream.port}/v1`)
    // What follows on a socket's word goes on before all timers, and those before the next word of a socket.
    await look(at, signal)
    const found = impatient(at, signal)
    const startMs = performance.now()
    while (performance.now() < startMs + 400);
    expect(await found).toEqual({ state: 'unknown' })
  })

  test.each([
    ['an upstream without an address', null, {}],
    ['http behind a proxy', 'http://127.0.0.1:1/v1', { HTTP_PROXY: 'http://proxy:3128' }],
    ['https behind a proxy', 'https://127.0.0.1:1/v1', { https_proxy: 'http://proxy:3128' }],
    ...['', 'other', 'ocalhost', 'localhost:2', '127.0.0.0/8', ',,'].map((no_proxy): [string, string, Environment] => [
      `localhost with no_proxy=${no_proxy}`,
      'http://localhost:1/v1',
      { http_proxy: 'http://proxy:3128', no_proxy },
    ]),
  ])('says nothing of %s', async (_, url, environment) => {
    expect(await createLook({ environment })(toUpstream(url), signal)).toBeNull()
  })

  // As `fetch` reads it: whoever goes past the proxy can be looked at.
  test.each([
    ['localhost', '*'],
    ['localhost', 'other, LOCALHOST'],
    ['localhost', 'localhost:1'],
    ['llm.localhost', '.localhost'],
    ['llm.localhost', '*.localhost'],
    ['llm.localhost', 'other localhost'],
    ['127.0.0.1', '127.0.0.1'],
  ])('looks at %s behind a proxy with NO_PROXY=%s', async (host, NO_PROXY) => {
    const environment = { HTTP_PROXY: 'http://proxy:3128', NO_PROXY }
    expect(await createLook({ environment })(toUpstream(`http://${host}:1/v1`), signal)).not.toBeNull()
  })

  test('says nothing once nobody wants to know', async () => {
    expect(await look(toUpstream(deadUrl), AbortSignal.abort())).toBeNull()
  })
})

/** A process that listens and has stopped, with as many connections waiting as its system lets wait: more get no word. */
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
