/** The client's address, and keys that are limited to some addresses. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type IpRange, toIp, toIpRange } from '../../src/domain/ip.ts'
import { toClientIp } from '../../src/http/client-ip.ts'
import { type Gateway, HELLO, startGateway } from '../support/gateway.ts'
import { play, type Scenario } from '../support/scenario.ts'

const toRanges = (...texts: string[]): IpRange[] => texts.map(toIpRange).filter((range) => 'bits' in range)

const PROXIES = toRanges('10.0.0.0/8', '192.0.2.1', 'fd00::/8')

test.each([
  ['a peer that is no proxy is not believed', '198.51.100.1', '203.0.113.7', '198.51.100.1'],
  ['a proxy that says nothing', '10.0.0.1', '', '10.0.0.1'],
  ['a client behind a proxy', '10.0.0.1', '203.0.113.7', '203.0.113.7'],
  ['a proxy over IPv6 that is known by its IPv4 address', '::ffff:10.0.0.1', '203.0.113.7', '203.0.113.7'],
  ['what the client has written itself', '10.0.0.1', '127.0.0.1, 10.9.9.9,203.0.113.7', '203.0.113.7'],
  ['a client behind two proxies', '10.0.0.1', '203.0.113.7, fd00::5', '203.0.113.7'],
  ['nothing but proxies: the first of them', '10.0.0.1', '10.0.0.3, 192.0.2.1 ,10.0.0.2', '10.0.0.3'],
  ['a port with it', '10.0.0.1', '203.0.113.7:4711', '203.0.113.7'],
  ['an IPv6 client, in brackets', '10.0.0.1', '[2001:DB8:0::7]', '2001:db8::7'],
  ['an IPv6 client with a port', '10.0.0.1', '[2001:db8::7]:443', '2001:db8::7'],
  ['an IPv6 client, bare', '10.0.0.1', '2001:db8::7', '2001:db8::7'],
])('%s', (_, peer, forwardedFor, client) => {
  expect(toClientIp(toIp(peer) ?? [], forwardedFor, PROXIES)).toEqual(toIp(client) ?? [])
})

test.each([
  ['garbage', 'unknown', '10.0.0.1'],
  ['garbage behind another proxy', '203.0.113.7, ???, 10.0.0.2', '10.0.0.2'],
  ['an address with a zone', 'fe80::1%eth0', '10.0.0.1'],
  ['an empty item', '203.0.113.7,', '10.0.0.1'],
  ['commas alone', ',,,', '10.0.0.1'],
])("a client with an invalid address from a proxy has no address, not the proxy's: %s", (_, forwardedFor, proxy) => {
  expect(toClientIp(toIp('10.0.0.1') ?? [], forwardedFor, PROXIES)).toEqual({ behind: toIp(proxy) ?? [] })
})

const chat = { method: 'POST', url: '/v1/chat/completions' }

/** Every endpoint that accepts a key. */
const ENDPOINTS: Pick<Scenario, 'method' | 'url' | 'body'>[] = [
  { ...chat, body: HELLO },
  { ...chat, body: 'not JSON' },
  { url: '/v1/models' },
  { url: '/v1/models/acme/large' },
  { url: '/v1/models/no/such' },
]
const REFUSED = {
  status: 403,
  error: { type: 'invalid_request_error', code: 'ip_not_allowed', param: null },
  expectedHeaders: { 'x-should-retry': 'false', 'x-ratelimit-limit-requests': null },
}

describe('a key with a list of addresses', () => {
  let gateway: Gateway
  beforeAll(async () => {
    gateway = await startGateway({ config: { trustedProxies: toRanges('127.0.0.1') } })
  })
  afterAll(() => gateway.stop())

  const from = (address: string) => ({ 'x-forwarded-for': address })

  test('is rejected on every endpoint from other addresses, before its rate, and accepted from these', async () => {
    const { app } = gateway
    const key = app.key({ allowedIps: ['203.0.113.0/24', '2001:db8::7'], rpm: 1 })
    const contains = ["can't be used from the address 198.51.100.1"]
    for (const endpoint of ENDPOINTS)
      await play(app, { name: 'elsewhere', ...endpoint, headers: from('198.51.100.1'), ...REFUSED, contains }, key)
    const headers = from('203.0.113.255')
    await play(app, { name: 'there', url: '/v1/models', headers, status: 200 }, key)
    await play(app, { name: 'there', url: '/v1/models/acme/large', headers: from('2001:DB8:0::7'), status: 200 }, key)
    await play(app, { name: 'there', ...chat, body: HELLO, headers, status: 200, ledgerRows: 1 }, key)
  })

  test('accepts a listed proxy, but no client for which the proxy reports an invalid address', async () => {
    const { app } = gateway
    const key = app.key({ allowedIps: ['127.0.0.0/8'] })
    const contains = ["can't be used from an unknown address"]
    await play(app, { name: 'nothing', url: '/v1/models', status: 200 }, key)
    await play(app, { name: 'garbage', url: '/v1/models', headers: from('hidden'), ...REFUSED, contains }, key)
    const ip = 'unknown: no address in x-forwarded-for behind 127.0.0.1'
    expect(await app.logLines()).toContainEqual(expect.objectContaining({ event: 'request_refused', ip }))
    expect(JSON.stringify(await app.logLines())).not.toContain('hidden')
    await play(app, { name: 'elsewhere', url: '/v1/models', headers: from('10.0.0.1'), ...REFUSED }, key)
  })

  test('that is wrong, revoked, or expired gets only that error, from any address', async () => {
    const { app } = gateway
    const key = app.key({ allowedIps: ['203.0.113.7'] })
    app.revoke(key)
    await play(app, { name: 'revoked', url: '/v1/models', status: 401, error: { code: 'invalid_api_key' } }, key)
  })

  test("is the only case in which the log has the client's address, and only if it is rejected", async () => {
    const { app } = gateway
    const key = app.key({ allowedIps: ['203.0.113.7'] })
    const addressed = async () => (await app.logLines()).filter((line) => JSON.stringify(line).includes('203.0.113.66'))
    const headers = from('203.0.113.66')
    await play(app, { name: 'no list', ...chat, body: HELLO, headers, status: 200, ledgerRows: 1 }, app.key())
    await play(app, { name: 'no list', url: '/v1/models', headers, status: 200 }, app.key())
    expect(await addressed()).toEqual([])
    await play(app, { name: 'refused', ...chat, body: HELLO, headers, ...REFUSED }, key)
    await play(app, { name: 'refused', url: '/v1/models', headers, ...REFUSED }, key)
    const said = { event: 'request_refused', http: 403, code: 'ip_not_allowed', ip: '203.0.113.66' }
    expect(await addressed()).toMatchObject([
      { ...said, key: expect.stringMatching(/^[0-9a-f]{32}$/) },
      { ...said, key: expect.any(String) },
    ])
  })
})

test("without a trusted proxy, a client's claim about its address is ignored", async () => {
  const gateway = await startGateway()
  const { app } = gateway
  const headers = { 'x-forwarded-for': '203.0.113.7', forwarded: 'for=203.0.113.7', 'x-real-ip': '203.0.113.7' }
  await play(app, { name: 'said', url: '/v1/models', headers, ...REFUSED }, app.key({ allowedIps: ['203.0.113.7'] }))
  await play(app, { name: 'true', url: '/v1/models', headers, status: 200 }, app.key({ allowedIps: ['127.0.0.1'] }))
  await gateway.stop()
})
