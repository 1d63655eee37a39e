/** URLs and methods: which are served, and the errors of others. */
import { describe, expect, test } from 'bun:test'
import { createLog } from '../../src/log.ts'
import { createControlRoutes } from '../../src/server/owner-socket.ts'
import { startGateway } from '../support/gateway.ts'
import { forAllTests } from '../support/lifetime.ts'
import { play, type Scenario } from '../support/scenario.ts'
import { toStatus } from '../support/status.ts'

const gateway = forAllTests(startGateway)

const unknown = { status: 404, error: { type: 'invalid_request_error', code: null, param: null } }
const wrongMethod = { status: 405, error: { type: 'invalid_request_error', code: 'method_not_supported', param: null } }

/** Routes are no secret: after a 401, agents would retry forever. */
const UNSERVED: Scenario[] = [
  { name: 'an unknown URL', method: 'POST', url: '/v1/x', ...unknown, contains: ['Invalid URL (POST /v1/x)'] },
  { name: 'an URL below a known one', method: 'POST', url: '/v1/chat/completions/x', ...unknown },
  { name: 'the base URL itself', url: '/v1', ...unknown, contains: ['Invalid URL (GET /v1)'] },
  {
    name: 'GET on chat',
    url: '/v1/chat/completions',
    ...wrongMethod,
    expectedHeaders: { allow: 'POST' },
    contains: ['Not allowed to GET on /v1/chat/completions'],
  },
  { name: 'POST on models', method: 'POST', url: '/v1/models', ...wrongMethod, expectedHeaders: { allow: 'GET' } },
  {
    name: 'DELETE on a model',
    method: 'DELETE',
    url: '/v1/models/acme/large',
    ...wrongMethod,
    expectedHeaders: { allow: 'GET' },
  },
  { name: 'OPTIONS without CORS', method: 'OPTIONS', url: '/v1/models', ...wrongMethod },
]

test.each(UNSERVED)('$name responds with $status, before checking the key', async (scenario) => {
  for (const token of [gateway.key, null, 'nonsense']) await play(gateway.app, scenario, token)
})

describe('the error for a wrong URL suggests the right one', () => {
  test.each([
    ['POST', '/chat/completions', 'POST /v1/chat/completions'],
    ['GET', '/models', 'GET /v1/models'],
    ['GET', '/models/acme/Large', 'GET /v1/models/acme/Large'],
    ['POST', '/v1/v1/chat/completions', 'POST /v1/chat/completions'],
    ['POST', '/v1/v1/chat/completions/', 'POST /v1/chat/completions'],
    ['POST', '/api/v1/chat/completions', 'POST /v1/chat/completions'],
    ['POST', '/openai/deployments/x/chat/completions?api-version=1', 'POST /v1/chat/completions'],
    ['POST', '/V1/Chat/Completions', 'POST /v1/chat/completions'],
    ['POST', '/v1/models/chat/completions/', null],
    ['GET', '/chat/completions', 'POST /v1/chat/completions'],
    ['GET', '/v1/healthz', 'GET /healthz'],
    ['POST', '/embeddings', 'POST /v1/embeddings'],
    ['PATCH', '/v1/admin/api/keys', 'PATCH /admin/api/keys'],
    ['POST', '/v1/videos', null],
    ['GET', '/v1', null],
    ['GET', `/${'x/'.repeat(12)}models`, null],
  ])('%s %s', async (method, url, meant) => {
    const status = url.startsWith('/v1/models/') ? 405 : 404
    const text = await play(gateway.app, { name: url, method, url, status })
    const [hint] = /Did you mean .*?(?=\?)/.exec(text) ?? [null]
    expect(hint).toBe(meant && `Did you mean ${meant}`)
  })
})

test.each(['/v1/models/', '/v1/models/acme/large'])('%s is served, with a key', async (url) => {
  await play(gateway.app, { name: url, url, status: 200 }, gateway.key)
})

const WITHOUT_KEY: Scenario[] = [
  { name: 'health', url: '/healthz', status: 200, contains: ['{"status":"ok"}'] },
  {
    name: 'readiness, which names nothing that is configured',
    url: '/readyz',
    status: 200,
    // The credential of one upstream is missing.
    contains: ['{"status":"degraded"}'],
    expectedHeaders: { 'cache-control': 'no-store' },
  },
  { name: 'an URL outside of /v1', url: '/nothing', ...unknown, contains: ['Invalid URL (GET /nothing)'] },
  { name: 'a name that only begins like ours', url: '/v1x', ...unknown },
  { name: 'POST on health', method: 'POST', url: '/healthz', ...wrongMethod, expectedHeaders: { allow: 'GET' } },
]

test.each(WITHOUT_KEY)('$name responds with $status without a key', async (scenario) => {
  await play(gateway.app, scenario)
})

describe('a route of the control socket is not served over the network', () => {
  const { routes } = createControlRoutes({
    log: createLog({ now: () => 0, write: async () => {} }),
    status: () => toStatus(),
    servers: { start: () => false, stop: () => false, settled: async () => null, stopped: async () => null },
    reload: async () => ({ settings: [], variables: [] }),
    flush: async () => ({ applied: 0, waiting: 0 }),
    inspectVault: async () => ({ where: 'the file secret', sealed_by: null, credentials: 0, problems: [] }),
    endTails: async () => false,
    admin: async () => new Response(),
    setupCode: async () => null,
    drain() {},
    requests: () => expect.unreachable(),
  })
  // The network has the admin API, too, with its own authentication.
  const paths = routes
    .filter(({ path }) => path !== '/admin/api/*')
    .map(({ method, path }) => [method, path.replace(':id', 'first')] as const)

  test.each(paths)('%s %s', async (method, url) => {
    // Paths under /admin are pages, which only allow reading.
    const answer = url.startsWith('/admin/') ? wrongMethod : unknown
    for (const token of [null, gateway.key]) await play(gateway.app, { name: url, method, url, ...answer }, token)
    await play(gateway.app, { name: url, method, url: `/v1${url}`, ...unknown }, gateway.key)
  })

  test('all were tried', () => {
    expect(paths).toEqual(
      expect.arrayContaining([
        ['GET', '/status'],
        ['POST', '/upstreams/first/start'],
        ['ALL', '/operator/*'],
      ]),
    )
  })
})

describe('HEAD', () => {
  test.each([
    ['/healthz', null, 200],
    ['/v1/models', null, 401],
  ])('%s', async (url, token, status) => {
    expect(await play(gateway.app, { name: url, method: 'HEAD', url, status }, token)).toBe('')
  })

  test('of a model has the same response as GET, without the body', async () => {
    for (const url of ['/v1/models', '/v1/models/acme/large']) {
      expect(await play(gateway.app, { name: url, method: 'HEAD', url, status: 200 }, gateway.key)).toBe('')
    }
  })
})

test('no response allows a browser of another origin', async () => {
  const headers = { origin: 'https://elsewhere.example', 'access-control-request-method': 'POST' }
  const expectedHeaders = { 'access-control-allow-origin': null }
  const scenario = { name: 'preflight', method: 'OPTIONS', url: '/v1/chat/completions', headers, expectedHeaders }
  await play(gateway.app, { ...scenario, ...wrongMethod })
})

test('a very long URL is not repeated in full', async () => {
  const text = await play(gateway.app, { name: 'long', url: `/${'x'.repeat(5_000)}`, ...unknown })
  expect(text.length).toBeLessThan(600)
})
