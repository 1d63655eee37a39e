/**
 * `tollgate upstreams test --call`, through a server in this process: one tiny call, recorded and charged, and its
 * errors.
 */
import { afterEach, beforeEach, expect, setDefaultTimeout, test } from 'bun:test'
import { toAdvice } from '../../src/cli/upstreams/text.ts'
import { CREDENTIAL } from '../support/app.ts'
import { costOf, startGateway } from '../support/gateway.ts'
import { forAllTests } from '../support/lifetime.ts'
import { obliging } from '../support/upstream.ts'
import { errorAnswer } from '../support/upstream-answers.ts'
import { type Bench, createBench } from './run.ts'

// The counting thread takes time to start during other work.
setDefaultTimeout(60_000)

let bench: Bench
const gateway = forAllTests(startGateway)
beforeEach(() => {
  gateway.upstream.script(obliging)
  bench = createBench()
})
afterEach(() => bench.close())

const call = (...argv: string[]) => bench.run('upstreams', 'test', '--data', gateway.app.dataFolder, '--call', ...argv)
const lastRow = async () => (await gateway.app.settled(await gateway.app.count())).at(-1)

test("the upstream's cheapest model gets a tiny request, recorded with `system` and charged", async () => {
  const { code, stdout, stderr } = await call('paid', '--json')
  expect([code, stderr]).toEqual([0, ''])
  const [result] = JSON.parse(stdout).upstreams
  expect(result).toMatchObject({ id: 'paid', state: 'ready', reason: null, cost_nano_usd: expect.any(Number) })
  expect(gateway.upstream.requests.at(-1)?.json).toMatchObject({ max_tokens: 16, stream: true })
  const row = await lastRow()
  expect(row).toMatchObject({ key_id: 'system', upstream: 'paid', status: 'ok', cost_nano_usd: result.cost_nano_usd })
  expect(result.request_id).toBe(`req_${row?.id}`)
})

test('a model can be named, and its cost is printed', async () => {
  const { stdout } = await call('paid', '--model', 'acme/large')
  expect(stdout).toMatch(/paid +ready +\d+ +acme\/large\n +ok; req_\w+, \$0\.\d+\n/)
  expect(await lastRow()).toMatchObject({ model: 'acme/large', cost_nano_usd: costOf(10, 5) })
})

test('an error says what to do, without the credential, and costs nothing', async () => {
  gateway.upstream.script(errorAnswer(401, `Incorrect API key provided: ${CREDENTIAL}`))
  const { code, stdout, stderr } = await call('paid')
  expect([code, stderr]).toEqual([1, 'error: 1 of 1 upstream failed.\n'])
  expect(stdout.replace(/\s+/g, ' ')).toMatch(
    /paid failed .*401.* Check that the key is complete, valid, and for this provider/,
  )
  expect(stdout).not.toContain(CREDENTIAL)
  expect(await lastRow()).toMatchObject({ key_id: 'system', status: 'failed', cost_nano_usd: 0 })
})

test('an unknown upstream, or none, is refused without a call', async () => {
  const before = gateway.upstream.requests.length
  const unknown = await call('nowhere-at-all')
  expect([unknown.code, unknown.stderr]).toEqual([
    1,
    expect.stringContaining("Unknown upstream 'nowhere-at-all'. Upstreams: "),
  ])
  expect(await call()).toMatchObject({ code: 2, stderr: expect.stringContaining('--call is billed') })
  expect(await bench.run('upstreams', 'test', 'paid', '--model', 'x')).toMatchObject({ code: 2 })
  expect(gateway.upstream.requests.length).toBe(before)
})

test("without a server no call is made: it couldn't be recorded", async () => {
  const { code, stderr } = await bench.run('upstreams', 'test', 'paid', '--call')
  expect([code, stderr]).toEqual([1, expect.stringContaining('Start it: tollgate serve')])
})

test.each([
  ['/models returned 401: missing or invalid api_key', 'key'],
  ['host name does not resolve', 'host in base_url'],
  ['certificate signed by an unknown authority', 'NODE_EXTRA_CA_CERTS'],
  ['connection refused', 'Check that it is running'],
  ['/models timed out', 'HTTPS_PROXY'],
  ['status 402: You exceeded your current quota', 'raise the limit'],
  ['status 404: The model `gpt-9` does not exist', 'which models the provider offers'],
  ['the variable OPENAI_API_KEY is not set on the server', 'Set the key there'],
  ['the file /run/secrets/openai does not exist', 'Set the key there'],
  ['returned 403: credential or account not permitted to do this', 'project, or region'],
  ['Upstream `paid` returned 403: api_key or provider account not permitted to do this', 'project, or region'],
  ['status 503: overloaded', 'Provider error'],
  ['Upstream `paid` is unreachable or closed the connection (ECONNREFUSED)', 'Check that it is running'],
  ['Upstream `paid` is unreachable or closed the connection (ConnectionClosed)', 'Provider error'],
])('of %j it is said what to do', (said, words) => expect(toAdvice(said)).toContain(words))
