/**
 * Limits after the process is killed, and slots that are free as soon as the last byte has arrived. Uses the binary.
 */
import { beforeEach, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { createWorkplace, type RunningBinary } from '../support/binary.ts'
import { costOf, HELLO, HELLO_TOKENS, toCatalogue } from '../support/gateway.ts'
import { forEachTest } from '../support/lifetime.ts'
import { obliging, startUpstream } from '../support/upstream.ts'

let catalog = ''
const place = forEachTest(createWorkplace)
const upstream = forEachTest(startUpstream)
beforeEach(async () => {
  catalog = await place.write('catalog.yaml', toCatalogue({ url: upstream.url }))
})

const serve = () => place.serve(['--catalog', catalog, '--probe', 'off'], { environment: { UPSTREAM_KEY: 'x' } })

async function json(...argv: string[]) {
  const { code, stdout, stderr } = await place.run(...argv, '--json')
  if (code !== 0) throw new Error(stderr)
  return JSON.parse(stdout)
}

async function createKey(name: string, ...options: string[]): Promise<string> {
  const { key } = await json('keys', 'create', '--name', name, ...options)
  return key
}

const ask = ({ baseUrl }: RunningBinary, key: string, body: object = {}) =>
  fetch(`${baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ ...HELLO, ...body }),
  })

async function kill(server: RunningBinary): Promise<void> {
  server.signal('SIGKILL')
  await server.exited
}

describe('after a kill', () => {
  test('the last minute still counts', async () => {
    const first = await serve()
    const key = await createKey('ann', '--rpm', '3')
    for (let request = 0; request < 2; request++) expect((await ask(first, key)).status).toBe(200)
    await kill(first)
    const second = await serve()
    const last = await ask(second, key)
    expect([last.status, last.headers.get('x-ratelimit-remaining-requests')]).toEqual([200, '0'])
    const refused = await ask(second, key)
    expect(refused.status).toBe(429)
    expect(Number(refused.headers.get('retry-after'))).toBeWithin(1, 61)
    expect(upstream.requests.length).toBe(3)
  })

  test('a team’s last minute still counts, whichever of its keys sent requests, and a larger rate applies at once', async () => {
    const first = await serve()
    await json('teams', 'create', '--name', 'crew', '--rpm', '2')
    const [ann, bob] = [await createKey('ann', '--team', 'crew'), await createKey('bob', '--team', 'crew')]
    for (const key of [ann, bob]) expect((await ask(first, key)).status).toBe(200)
    await kill(first)
    const second = await serve()
    const refused = await ask(second, ann)
    expect([refused.status, await refused.text()]).toEqual([
      429,
      expect.stringContaining('for team `crew` on requests per min (RPM): Limit 2, Used 2'),
    ])
    await json('teams', 'edit', 'crew', '--rpm', '3')
    expect((await ask(second, bob)).status).toBe(200)
    expect((await ask(second, ann)).status).toBe(429)
    expect(upstream.requests.length).toBe(3)
  })

  test("an upstream's limit counts its actual calls, not the possible ones", async () => {
    await place.write('catalog.yaml', toCatalogue({ url: upstream.url }).replace('paid: {', 'paid: { rpm: 2,'))
    const first = await serve()
    const key = await createKey('ann')
    for (let request = 0; request < 5; request++) {
      const { status } = await ask(first, key)
      expect(status).toBe(request < 2 ? 200 : 429)
    }
    await kill(first)
    const refused = await ask(await serve(), key)
    expect(refused.status).toBe(429)
    expect(await refused.text()).toContain('Limit 2, Used 2, Requested 1')
    expect(upstream.requests.length).toBe(2)
  })

  test('a budget has spent its charges, and all reservations of requests in flight', async () => {
    const first = await serve()
    const key = await createKey('ann', '--budget', '0.004')
    expect((await ask(first, key)).status).toBe(200)
    upstream.script({ kind: 'silent' })
    ask(first, key).catch(() => {})
    await upstream.waitFor((seen) => seen.length === 2, 'the call')
    const reserved = costOf(HELLO_TOKENS, 1_000)
    const spentOf = async () => (await json('keys', 'list')).keys[0].spent_nano_usd
    expect(await spentOf()).toBe(costOf(10, 5) + reserved)
    await kill(first)

    upstream.script(obliging)
    const second = await serve()
    expect(await spentOf()).toBe(costOf(10, 5) + reserved)
    const refused = await ask(second, key)
    expect(refused.status).toBe(429)
    expect(await refused.text()).toContain('$0.002031 spent, $0 reserved')
    // The remaining budget is left.
    expect((await ask(second, key, { max_tokens: 900 })).status).toBe(200)
    expect((await place.run('ledger', 'verify')).code).toBe(0)
  })
})

test('sequential requests never reach a concurrency limit of one', async () => {
  const server = await serve()
  const key = await createKey('ann', '--concurrency', '1')
  const client = new OpenAI({ baseURL: server.baseUrl, apiKey: key, maxRetries: 0 })
  const messages = [{ role: 'user' as const, content: 'Hello there!' }]
  for (let round = 0; round < 150; round++) {
    await client.chat.completions.create({ model: 'acme/large', messages })
    const stream = await client.chat.completions.create({ model: 'acme/large', messages, stream: true })
    for await (const chunk of stream) expect(chunk.object).toBe('chat.completion.chunk')
  }
  expect(upstream.requests.length).toBe(300)
}, 30_000)
