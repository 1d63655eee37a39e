/** The models commands: prices per million tokens, and whether a model is ready and why not. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { toPerMillion } from '../../src/cli/models/models.ts'
import type { PricingItem } from '../../src/domain/usage.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { openDatabase } from '../../src/store/sqlite/open.ts'
import { pretendServer, toStatus, toUpstreamStatus } from '../support/status.ts'
import { type Bench, createBench } from './run.ts'

let bench: Bench
let stopServer: () => Promise<void>

beforeEach(async () => {
  bench = createBench()
  stopServer = async () => {}
  const facts = 'context_length: 8192, max_output_length: 1000, output_modalities: [text], supported_features: [tools]'
  await Bun.write(
    `${bench.folder}/catalog.yaml`,
    `version: 1
upstreams:
  paid: { dialect: openai, base_url: https://api.example.com/v1, api_key: \${PAID_KEY} }
  here: { dialect: openai, base_url: "http://127.0.0.1:1/v1", local: true }
models:
  acme/large:
    { name: Large, ${facts}, input_modalities: [text, image], pricing: [{ prompt: "0.0000025", completion: "0.00001" }],
      routes: [{ upstream: paid, model: large-v1 }] }
  local/tiny: { name: Tiny, ${facts}, input_modalities: [text], routes: [{ upstream: here, model: tiny }] }
  local/hidden: { name: Hidden, ${facts}, input_modalities: [text], listed: false, routes: [{ upstream: here, model: x }] }
aliases: { fast: local/tiny }
`,
  )
  await bench.run('catalog', 'apply')
})
afterEach(async () => {
  await stopServer()
  bench.close()
})

const serve = () => {
  const down = { state: 'down', reason: 'nobody listens there' } as const
  const upstreams = [toUpstreamStatus('paid', { state: 'healthy', reason: null }), toUpstreamStatus('here', down)]
  stopServer = pretendServer(bench.folder, toStatus({ upstreams }))
}

test('the list has context, prices, readiness, and capabilities, and fits a terminal', async () => {
  serve()
  const { stdout, stderr } = await bench.run('models', 'list')
  expect(stdout).toBe(
    [
      'MODEL              CONTEXT  $/M IN  $/M OUT  READY  CAPABILITIES',
      'acme/large         8k       2.50    10       yes    tools image',
      'local/tiny         8k       0       0        no     tools',
      'fast = local/tiny\n',
    ].join('\n'),
  )
  expect(stderr).toStartWith('1 model hidden: ')
  bench.isWatched = true
  bench.columns = 50
  expect(Bun.stripANSI((await bench.run('models', 'list', 'acme/*')).stdout)).toBe(
    [
      'MODEL       CONTEXT  $/M IN  $/M OUT  READY',
      'acme/large  8k       2.50    10       yes',
      '          tools image\n',
    ].join('\n'),
  )
  bench.isWatched = false
  expect((await bench.run('models', 'list', '--all', 'local/*')).stdout).toMatch(
    /^MODEL.*\nlocal\/hidden .*\nlocal\/tiny .*\n$/,
  )
})

test('a single model has facts of its local server, and its speed, if a server knows them', async () => {
  const figures = { context_length: 4_096, quantization: 'Q4_K_M', size_bytes: 397_806_592, tokens_per_second: 31.5 }
  const process = { state: 'ready', reason: null, pid: 1, answering: 0, queued: 0, memory_bytes: null } as const
  const here = toUpstreamStatus('here', { process, served: [{ upstream_model: 'tiny', ...figures }] })
  const [without] = JSON.parse((await bench.run('models', 'show', 'local/tiny', '--json')).stdout).routes
  expect(without.served).toBeNull()
  stopServer = pretendServer(bench.folder, toStatus({ upstreams: [toUpstreamStatus('paid'), here] }))
  const { routes } = JSON.parse((await bench.run('models', 'show', 'local/tiny', '--json')).stdout)
  expect(routes[0].served).toEqual({ state: 'ready', ...figures })
  expect((await bench.run('models', 'show', 'local/tiny')).stdout.replace(/\s+/g, ' ')).toContain(
    'server: ready, 4096-token context, Q4_K_M, 0.4 GB, 31.5 tokens/s',
  )
})

test('a disabled model is in the full list, and marked', async () => {
  const text = await Bun.file(`${bench.folder}/catalog.yaml`).text()
  await Bun.write(`${bench.folder}/catalog.yaml`, text.replace('name: Tiny,', 'name: Tiny, enabled: false,'))
  await bench.run('catalog', 'apply')
  expect((await bench.run('models', 'list')).stdout).not.toContain('local/tiny  ')
  const { models } = JSON.parse((await bench.run('models', 'list', '--all', '--json')).stdout)
  expect(models.at(-1)).toMatchObject({
    slug: 'local/tiny',
    enabled: false,
    is_ready: false,
    reason: 'the model is disabled',
  })
})

test('--json has the columns’ names, and readiness is null without a server', async () => {
  expect((await bench.run('models', 'list')).stderr).toStartWith('No server is running. Status is based on ')
  const { models, aliases } = JSON.parse((await bench.run('models', 'list', '--json')).stdout)
  expect(aliases).toEqual([{ alias: 'fast', model: 'local/tiny', listed: true }])
  expect(models).toMatchObject([
    {
      slug: 'acme/large',
      context_length: 8192,
      pricing: [{ prompt: '0.0000025', completion: '0.00001' }],
      is_ready: false,
      reason: expect.stringContaining('PAID_KEY'),
    },
    {
      slug: 'local/tiny',
      is_ready: null,
      reason: null,
      routes: [{ upstream: 'here', upstream_model: 'tiny', pricing: [] }],
    },
  ])
})

test('one model is shown by any of its names, with its routes and why it is not ready', async () => {
  serve()
  const { stdout } = await bench.run('models', 'show', 'fast')
  expect(stdout).toContain('local/tiny (Tiny, by local)\n')
  expect(stdout).toContain('  ready         no: upstream here: nobody listens there\n')
  expect(stdout).toContain('  aliases       fast\n')
  expect((await bench.run('models', 'show', 'acme/large')).stdout).toContain(
    '  route         paid: large-v1, priority 0, weight 1; ready; USD per million\n',
  )
  expect(await bench.run('models', 'show', 'acme/lage')).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^error: Unknown model 'acme\/lage' \(did you mean 'acme\/large'\?\)/),
  })
})

test('each route has its readiness and price, and the price history is complete', async () => {
  serve()
  const text = await Bun.file(`${bench.folder}/catalog.yaml`).text()
  const before = text.replace('prompt: "0.0000025"', 'prompt: "0.000005"')
  const more = before.replace(
    '{ upstream: paid, model: large-v1 }',
    `{ upstream: here, model: large, priority: 2 },
      { upstream: paid, model: large-v1, weight: 3, pricing: [{ prompt: "0.000001", completion: "0" }], max_output_length: 500 }`,
  )
  await Bun.write(`${bench.folder}/catalog.yaml`, more)
  await bench.run('catalog', 'apply')
  const shown = JSON.parse((await bench.run('models', 'show', 'acme/large', '--json')).stdout)
  expect(shown).toMatchObject({
    is_ready: true,
    routes: [
      { upstream: 'paid', weight: 3, own_price: true, max_output_length: 500, is_ready: true, reason: null },
      { upstream: 'here', priority: 2, own_price: false, pricing: [], is_ready: false, reason: 'nobody listens there' },
    ],
    aliases: [],
  })
  const toPrice = ({ upstream, pricing, in_force }: { upstream: string; pricing: [PricingItem]; in_force: boolean }) =>
    [upstream, pricing[0].prompt, in_force].join(' ')
  expect(shown.prices.map(toPrice).sort()).toEqual([' 0.0000025 false', ' 0.000005 true', 'paid 0.000001 true'])
  const { stdout } = await bench.run('models', 'show', 'acme/large')
  expect(stdout).toContain('  route         here: large, priority 2, weight 1; not ready: nobody listens\n')
  expect(stdout).toMatch(/^ {2}price {9}set [-\d]+ [:\d]+ UTC, current, only for paid; USD per$/m)
})

test("a local server's price per second is shown in place of free tokens", async () => {
  const text = await Bun.file(`${bench.folder}/catalog.yaml`).text()
  const priced = `{ upstream: here, model: tiny, pricing: [{ prompt: "0", completion: "0", second: "0.0005" }] }`
  await Bun.write(`${bench.folder}/catalog.yaml`, text.replace('{ upstream: here, model: tiny }', priced))
  await bench.run('catalog', 'apply')
  const words = (await bench.run('models', 'show', 'local/tiny')).stdout.replace(/\s+/g, ' ')
  expect(words).toContain('own price: $0.0005 per second of compute')
  const [head, row] = (await bench.run('models', 'list', 'local/tiny')).stdout.split('\n')
  expect(head).toContain('OTHER PRICE')
  expect(row).toMatch(/ - +- +\$0\.0005 per second of compute /)
})

test('a disabled route, or one with a disabled upstream, is marked as unused', async () => {
  serve()
  const sqlite = openDatabase(databasePath(bench.folder), { busyMs: 0 })
  sqlite.run(
    `UPDATE catalog_entries SET fields = json_set(fields, '$.enabled', json('false')) WHERE kind = 'routes' AND name LIKE 'local/tiny %'`,
  )
  sqlite.run(
    `UPDATE catalog_entries SET fields = json_set(fields, '$.enabled', json('false')) WHERE kind = 'upstreams' AND name = 'paid'`,
  )
  sqlite.close()
  const reasonOf = async (slug: string) => {
    const { routes, reason } = JSON.parse((await bench.run('models', 'show', slug, '--json')).stdout)
    return [reason, routes[0].reason, routes[0].pricing.length]
  }
  expect(await reasonOf('local/tiny')).toEqual(['no enabled route', 'the route is disabled', 0])
  expect(await reasonOf('acme/large')).toEqual(['no enabled route', 'its upstream is disabled', 1])
})

test.each([
  ['0.00000015', '0.15'],
  ['0.0000025', '2.50'],
  ['0.00001', '10'],
  ['0', '0'],
  ['0.000000075', '0.075'],
  ['1.5', '1500000'],
  ['0.0000000000012', '0.0000012'],
])('a price of %s a token is %s for a million', (price, dollars) => expect(toPerMillion(price)).toBe(dollars))
