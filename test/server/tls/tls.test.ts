/** HTTPS by certificates in files: chosen by name, replaced under load, and checked before use. */
import { afterAll, expect, test } from 'bun:test'
import { X509Certificate } from 'node:crypto'
import { Agent, request } from 'node:https'
import { connect } from 'node:tls'
import { toAttention } from '../../../src/documents/attention.ts'
import type { ListenAddress } from '../../../src/domain/setting-text.ts'
import { checkServer } from '../../../src/server/findings.ts'
import type { ServedCertificates } from '../../../src/server/listener.ts'
import { openTls } from '../../../src/server/tls/tls.ts'
import { makeCertificate, type PemPair, putPair } from '../../support/certificate.ts'
import { findFreePort } from '../../support/free-port.ts'
import { startGateway } from '../../support/gateway.ts'
import { toStatus } from '../../support/status.ts'
import { until } from '../../support/until.ts'
import { streamAnswer, toDelta, wholeAnswer } from '../../support/upstream-answers.ts'

const HOSTS = 'DNS:localhost,IP:127.0.0.1'
const [local, renewed, other] = [makeCertificate(HOSTS), makeCertificate(HOSTS), makeCertificate('DNS:*.example.com')]
const files = putPair(local)
const otherFiles = putPair(other)
const gateway = await startGateway({
  config: {
    tlsCerts: [files.certFile, otherFiles.certFile],
    tlsKeys: [files.keyFile, otherFiles.keyFile],
  },
})
afterAll(() => gateway.stop())
const port = Number(new URL(gateway.app.origin).port)

const hashOf = ({ cert }: PemPair) => new X509Certificate(cert).fingerprint256

const servedFor = (servername: string) =>
  new Promise<string>((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, servername, rejectUnauthorized: false }, () => {
      resolve(socket.getPeerCertificate().fingerprint256)
      socket.destroy()
    })
    socket.on('error', reject)
  })

/** Status and body. */
const send = (agent: Agent, body: object = {}, path = '/v1/chat/completions') =>
  new Promise<string>((resolve) => {
    const options = { host: '127.0.0.1', port, method: 'POST', path, rejectUnauthorized: false, agent }
    const headers = { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' }
    const sent = request({ ...options, headers }, (response) => {
      let text = `${response.statusCode} `
      response.on('data', (part) => {
        text += part
      })
      response.on('end', () => resolve(text))
      response.on('error', (error) => resolve(String(error)))
    })
    sent.on('error', (error) => resolve(String(error)))
    sent.end(JSON.stringify({ model: 'acme/large', messages: [{ role: 'user', content: 'Hi' }], ...body }))
  })

/** As `tollgate reload` does. */
const reload = () => gateway.app.change(async () => {})

test('a client gets the certificate of the name that it asks for, else the first', async () => {
  expect(gateway.app.origin).toBe(`https://localhost:${port}`)
  expect(await servedFor('gate.example.com')).toBe(hashOf(other))
  expect(await servedFor('localhost')).toBe(hashOf(local))
  expect(await servedFor('elsewhere.test')).toBe(hashOf(local))
})

test('new certificates break no stream and no request of kept or new connections', async () => {
  const release = Promise.withResolvers<void>()
  const stream = streamAnswer()
  const [first, ...rest] = stream.steps
  gateway.upstream.script(({ json }) =>
    json?.stream === true
      ? { ...stream, steps: [first ?? toDelta({}), { until: release.promise }, ...rest] }
      : wholeAnswer(),
  )
  const streams = Array.from({ length: 30 }, () => send(new Agent(), { stream: true }))
  await gateway.upstream.waitFor((requests) => requests.length >= streams.length)

  let isOver = false
  const counts = Array.from({ length: 8 }, () => 0)
  const failures: string[] = []
  const loops = counts.map(async (_, at) => {
    const agent = new Agent({ keepAlive: at % 2 === 0, maxSockets: 1 })
    while (!isOver) {
      const answer = await send(agent)
      if (!answer.startsWith('200 ')) failures.push(answer)
      counts[at] = (counts[at] ?? 0) + 1
    }
  })
  const allGoOn = async () => {
    const before = [...counts]
    await until('two more requests of each client', () => counts.every((count, at) => count > (before[at] ?? 0) + 1))
  }
  for (const next of [renewed, local, renewed]) {
    files.write(next)
    reload()
    await until('the new certificate', async () => (await servedFor('localhost')) === hashOf(next))
    await allGoOn()
  }
  isOver = true
  await Promise.all(loops)
  release.resolve()
  const ends = await Promise.all(streams)
  expect(failures).toEqual([])
  expect(ends.filter((text) => text.startsWith('200 ') && text.includes('[DONE]'))).toHaveLength(streams.length)
})

const open = (
  pairs: { certFile: string; keyFile: string }[],
  nowMs = Date.now(),
  httpRedirect: ListenAddress | null = null,
) => {
  const config = { tlsCerts: pairs.map((pair) => pair.certFile), tlsKeys: pairs.map((pair) => pair.keyFile) }
  const silent = { info() {}, warn() {}, error() {}, flush: async () => {} }
  const rest = { tlsDomains: [], acmeDirectory: '', httpRedirect, host: '127.0.0.1', publicUrls: [] }
  return openTls({ ...config, ...rest }, { log: silent, now: () => nowMs, dataFolder: '' })
}

test('an unusable new file keeps the previous certificate, and the status says why until it is repaired', async () => {
  files.write({ cert: other.cert, key: local.key })
  reload()
  await until('the rejection', async () => (await gateway.app.logText()).includes('certificate_rejected'))
  expect(await servedFor('localhost')).toBe(hashOf(renewed))
  files.write(renewed)

  const pair = putPair(local)
  const tls = await open([pair])
  const served: string[] = []
  const replace = async ([first]: ServedCertificates) => {
    if (first?.cert === other.cert) throw new Error('refused.')
    served.push(first?.cert ?? '')
  }
  await tls.start({ listener: { port, origin: '', replace }, publicUrls: [] })
  const problemAfter = async (next: PemPair) => {
    pair.write(next)
    await tls.reread()
    return tls.states()[0]?.problem
  }
  expect(await problemAfter({ cert: renewed.cert, key: local.key })).toMatch(
    /must be a pair\. The previous certificate/,
  )
  expect(await problemAfter(other)).toBe('refused. The previous certificate stays in use.')
  expect(await problemAfter(local)).toBeNull()
  expect(await problemAfter(renewed)).toBeNull()
  expect(served).toEqual([renewed.cert])
  tls.stop()
})

test('a start names every certificate that it cannot use', async () => {
  const wrongKey = putPair({ cert: local.cert, key: other.key })
  const wrongOrder = putPair({ cert: other.cert + local.cert, key: local.key })
  const noKey = putPair({ cert: local.cert, key: 'none' })
  const missing = { certFile: '/nowhere/cert.pem', keyFile: wrongKey.keyFile }
  const problems = await open([wrongKey, wrongOrder, noKey, missing]).catch((error: Error) => error.message.split('\n'))
  expect(problems).toEqual([
    expect.stringMatching(/key in .* doesn't match the certificate in .*: they must be a pair/),
    expect.stringMatching(/must be the first of the file/),
    expect.stringMatching(/has no valid PEM private key/),
    "Can't read /nowhere/cert.pem (--tls-cert): no such file.",
  ])
  const later = Date.now() + 91 * 86_400_000
  await expect(open([files], later)).rejects.toThrow(/expired on \d{4}-\d\d-\d\d\. Renew it\./)
})

test('a certificate near its end needs attention; one that ended is a problem', async () => {
  const certificates = (await open([files])).states()
  const kindsAt = (days: number) => {
    const nowMs = Date.now() + days * 86_400_000
    const checks = checkServer(toStatus({ certificates }), nowMs)
    const status = { checks, ledger: 'ok', lost: null, disk: null } as const
    const nothing = {
      spenders: [],
      upstreams: [],
      reasons: [],
      hours: [],
      refused: [],
      unpriced: [],
      pending: [],
      unsent: [],
    }
    return toAttention({ ...nothing, nowMs, status }, 'viewer').findings.map(({ kind, severity }) => [kind, severity])
  }
  expect(kindsAt(70)).toEqual([])
  expect(kindsAt(80)).toEqual([['certificate', 'warning']])
  expect(kindsAt(91)).toEqual([['certificate', 'problem']])
})

test('plain HTTP redirects browsers, and refuses clients that would send their key each time', async () => {
  const plain = await findFreePort()
  const tls = await open([files], Date.now(), { host: null, port: plain })
  const publicUrls: string[] = []
  await tls.start({ listener: { port: 8443, origin: '', replace: async () => {} }, publicUrls })
  const get = (path: string, init = {}) => fetch(`http://127.0.0.1:${plain}${path}`, { redirect: 'manual', ...init })
  const page = await get('/admin/keys?key=1')
  expect([page.status, page.headers.get('location')]).toEqual([308, 'https://127.0.0.1:8443/admin/keys?key=1'])
  for (const answer of [await get('/v1/models'), await get('/', { headers: { authorization: 'Bearer sk-tg-1' } })]) {
    expect(answer.status).toBe(400)
    expect(await answer.text()).toMatch(/Use https:\/\/127\.0\.0\.1:8443\. .* sent unencrypted, so replace it/)
  }
  tls.stop()
})
