/** Certificates from an authority: Pebble, the test server of Let's Encrypt, and authorities that misbehave. */
import { afterAll, expect, test } from 'bun:test'
import { X509Certificate } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createIssuer, type Issuer } from '../../../src/server/tls/acme.ts'
import { toCertificate } from '../../../src/server/tls/certificates.ts'
import { makeKey, toRequest, toSelfSigned } from '../../../src/server/tls/der.ts'
import { startRedirect } from '../../../src/server/tls/redirect.ts'
import { makeCertificate } from '../../support/certificate.ts'
import { findFreePort } from '../../support/free-port.ts'
import { until } from '../../support/until.ts'

const NAME = 'gate.example.com'
const own = makeCertificate('DNS:localhost,IP:127.0.0.1')
const trusting: typeof fetch = Object.assign(
  (url: string | URL | Request, init?: RequestInit) => fetch(url, { ...init, tls: { ca: own.cert } }),
  fetch,
)
const folders: string[] = []
const makeFolder = () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-acme-'))
  folders.push(folder)
  return folder
}
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true })
})

interface Run {
  issuer: Issuer
  dataFolder: string
  used: string[]
  warnings: string[]
}

const clock = { nowMs: Date.now() }

function start(directory: string, dataFolder = makeFolder()): Run {
  const used: string[] = []
  const warnings: string[] = []
  const log = { info() {}, warn: (_: string, __: string, fields = {}) => void warnings.push(JSON.stringify(fields)) }
  const issuer = createIssuer({
    ...{ domains: [NAME], directory, dataFolder, now: () => clock.nowMs, fetch: trusting, sleep: () => Bun.sleep(20) },
    log: { ...log, error: log.warn, flush: async () => {} },
  })
  return { issuer, dataFolder, used, warnings }
}

const begin = ({ issuer, used }: Run) =>
  issuer.start(async (one, certificate) => {
    used.push(certificate.cert)
    Object.assign(one, { certificate, problem: null })
  })

test('OpenSSL accepts the requests and temporary certificates', () => {
  const folder = makeFolder()
  const key = makeKey()
  writeFileSync(join(folder, 'request.der'), toRequest(NAME, key))
  const read = Bun.spawnSync([
    ...['openssl', 'req', '-inform', 'der', '-verify', '-noout', '-text', '-in', join(folder, 'request.der')],
  ])
  expect(read.stdout.toString() + read.stderr.toString()).toContain('verify OK')
  expect(read.stdout.toString()).toContain(`DNS:${NAME}`)
  const cert = toSelfSigned(NAME, key, Date.UTC(2026, 0), Date.UTC(2052, 0))
  const pair = { certFile: 'c', keyFile: 'k' }
  expect(toCertificate({ cert, key }, pair, Date.UTC(2026, 5))).toMatchObject({
    ...{ names: [NAME], fromMs: Date.UTC(2026, 0), expiresMs: Date.UTC(2052, 0) },
  })
  expect(new X509Certificate(cert).verify(new X509Certificate(cert).publicKey)).toBe(true)
})

const pebble = Bun.which('pebble', { PATH: `${process.env.PATH}:${process.env.HOME}/go/bin` })
const names = pebble && Bun.which('pebble-challtestsrv', { PATH: `${process.env.PATH}:${join(pebble, '..')}` })

/** Ends both when the tests do. */
async function startPebble(pebble: string, names: string, httpPort: number): Promise<string> {
  const folder = makeFolder()
  const [port, management, dns, dnsManagement] = await Promise.all([
    ...[findFreePort(), findFreePort(), findFreePort(), findFreePort()],
  ])
  writeFileSync(join(folder, 'cert.pem'), own.cert)
  writeFileSync(join(folder, 'key.pem'), own.key)
  const config = {
    pebble: {
      ...{ listenAddress: `127.0.0.1:${port}`, managementListenAddress: `127.0.0.1:${management}` },
      ...{ certificate: join(folder, 'cert.pem'), privateKey: join(folder, 'key.pem'), httpPort, tlsPort: 1 },
      profiles: { default: { description: 'test', validityPeriod: 7_776_000 } },
    },
  }
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config))
  const resolver = Bun.spawn(
    [
      ...[names, '-defaultIPv4', '127.0.0.1', '-defaultIPv6', '', '-dnsserver', `127.0.0.1:${dns}`],
      ...['-management', `127.0.0.1:${dnsManagement}`, '-http01', '', '-https01', '', '-tlsalpn01', '', '-doh', ''],
    ],
    { stdout: 'ignore', stderr: 'ignore' },
  )
  const server = Bun.spawn([pebble, '-config', join(folder, 'config.json'), '-dnsserver', `127.0.0.1:${dns}`], {
    env: { PEBBLE_VA_NOSLEEP: '1', PEBBLE_WFE_NONCEREJECT: '15' },
    ...{ stdout: Bun.file(join(folder, 'log')), stderr: 'ignore' },
  })
  afterAll(() => {
    resolver.kill()
    server.kill()
  })
  const directory = `https://127.0.0.1:${port}/dir`
  await until('Pebble', () =>
    trusting(directory).then(
      () => true,
      () => false,
    ),
  )
  return directory
}

test.skipIf(!pebble || !names)(
  'Pebble issues a certificate, which is kept, renewed with a third left, and retried after failures (skipped without pebble on the PATH)',
  async () => {
    const port = await findFreePort()
    const directory = await startPebble(pebble ?? '', names ?? '', port)
    const run = start(directory)
    // Nothing answers the validation yet.
    begin(run)
    await until('a failure', () => run.warnings.length > 0)
    expect(run.issuer.issued[0]?.problem).toMatch(
      /has no certificate yet\. The authority couldn't validate the name: .*Next try at/,
    )

    let asked = run
    const redirect = startRedirect({
      ...{ hostname: '127.0.0.1', port, securePort: 443, publicUrls: [], now: Date.now },
      challengeOf: (token) => asked.issuer.challengeOf(token),
    })
    await run.issuer.order()
    expect(run.issuer.issued[0]?.problem).toBeNull()
    expect(new X509Certificate(run.used[0] ?? '').subjectAltName).toBe(`DNS:${NAME}`)
    const folder = join(run.dataFolder, 'tls')
    expect(readdirSync(folder).sort()).toEqual(['account.key', 'attempts.json', `${NAME}.pem`])
    for (const name of readdirSync(folder)) expect(statSync(join(folder, name)).mode & 0o777).toBe(0o600)
    const account = readFileSync(join(folder, 'account.key'), 'utf8')
    run.issuer.stop()

    const again = start(directory, run.dataFolder)
    asked = again
    expect(again.issuer.issued[0]?.certificate.cert).toBe(run.used[0] ?? '')
    begin(again)
    await again.issuer.order()
    expect(again.used).toEqual([])
    clock.nowMs += 61 * 86_400_000
    await again.issuer.order()
    clock.nowMs -= 61 * 86_400_000
    expect(again.used).toHaveLength(1)
    expect(readFileSync(join(folder, 'account.key'), 'utf8')).toBe(account)
    again.issuer.stop()

    // Another authority: the certificate stays in use until there is one of its own.
    const moved = start(`${directory}?other`, run.dataFolder)
    asked = moved
    expect(moved.issuer.issued[0]).toMatchObject({ certificate: { cert: again.used[0] }, problem: null })
    moved.issuer.start(() => Promise.reject(new Error('listener failed')))
    await until('a certificate that could not be used', () => moved.warnings.length > 0)
    const kept = readFileSync(join(folder, `${NAME}.pem`), 'utf8')
    expect(kept).not.toContain(again.used[0] ?? '')
    begin(moved)
    await moved.issuer.order()
    expect(kept).toContain(moved.used[0] ?? '')
    expect(readFileSync(join(folder, `${NAME}.pem`), 'utf8')).toBe(kept)
    await moved.issuer.order()
    expect(moved.used).toHaveLength(1)
    moved.issuer.stop()
    redirect.stop()
  },
)

type Answer = (url: URL, request: Request) => Response | Promise<Response>

async function startAuthority(answer: Answer) {
  const server = Bun.serve({
    ...{ hostname: '127.0.0.1', port: 0, idleTimeout: 0, tls: own },
    fetch: (request) => answer(new URL(request.url), request),
  })
  afterAll(() => server.stop(true))
  return `https://127.0.0.1:${server.port}/dir`
}

const directoryAt = (origin: string, fields = {}) =>
  Response.json({
    ...{ newNonce: `${origin}/nonce`, newAccount: `${origin}/account`, newOrder: `${origin}/order`, ...fields },
  })
const endless = () =>
  new Response(
    new ReadableStream({
      pull: (controller) => controller.enqueue(new Uint8Array(65_536)),
    }),
  )

test.each<[what: string, answer: Answer, says: RegExp]>([
  ['is endless', endless, /sent too much/],
  ['is no JSON', () => new Response('{', { headers: { 'content-type': 'application/json' } }), /Can't reach/],
  ['redirects', () => Response.redirect('http://127.0.0.1:1/'), /Can't reach/],
  ['has unencrypted URLs', ({ origin }) => directoryAt(origin, { newNonce: 'http://127.0.0.1/' }), /no https URL/],
  [
    'gives no nonce',
    ({ pathname, origin }) => (pathname === '/dir' ? directoryAt(origin) : new Response()),
    /sent no nonce/,
  ],
  [
    'rejects each nonce',
    ({ pathname, origin }) =>
      pathname === '/dir'
        ? directoryAt(origin)
        : Response.json(
            { type: 'urn:ietf:params:acme:error:badNonce', detail: 'again' },
            { status: 400, headers: { 'replay-nonce': 'one' } },
          ),
    /refused: badNonce: again/,
  ],
])('an authority whose response %s leaves the temporary certificate, and the reason', async (_, answer, says) => {
  const run = start(await startAuthority(answer))
  begin(run)
  await run.issuer.order()
  run.issuer.stop()
  expect(run.issuer.issued[0]?.problem).toMatch(says)
  expect(run.issuer.issued[0]?.certificate.names).toEqual([NAME])
  expect(run.used).toEqual([])
})

test('an authority that limits requests is asked again when it wants, also after a restart', async () => {
  let asked = 0
  const directory = await startAuthority(({ pathname, origin }) => {
    if (pathname === '/dir') asked++
    if (pathname === '/dir') return directoryAt(origin)
    const headers = { 'replay-nonce': 'one', 'retry-after': '7200' }
    return Response.json({ type: 'urn:ietf:params:acme:error:rateLimited', detail: 'slow' }, { status: 429, headers })
  })
  const run = start(directory)
  begin(run)
  await until('the refusal', () => run.warnings.length > 0)
  const next = new Date(clock.nowMs + 7_200_000).toISOString().slice(11, 16)
  expect(run.issuer.issued[0]?.problem).toContain(`${next} UTC`)
  run.issuer.stop()
  const again = start(directory, run.dataFolder)
  begin(again)
  expect(asked).toBe(1)
  again.issuer.stop()
})

test('an authority that never responds delays no stop', async () => {
  const asked = Promise.withResolvers<void>()
  const directory = await startAuthority(() => {
    asked.resolve()
    return new Promise(() => {})
  })
  const run = start(directory)
  begin(run)
  await asked.promise
  const done = run.issuer.order()
  run.issuer.stop()
  await done
  expect(run.warnings).toEqual([])
})
