/** Keys edited on a running server: spend and requests in flight stay, new requests follow the new rules. */
import { expect, test } from 'bun:test'
import type { KeyChanges } from '../../src/keys/definition.ts'
import { editKey, rotateKey } from '../../src/keys/service.ts'
import type { ConfigStore } from '../../src/store/config-store.ts'
import { openForCommand } from '../../src/store/sqlite/open.ts'
import { costOf, HELLO, HELLO_TOKENS, startGateway } from '../support/gateway.ts'
import { forEachTest } from '../support/lifetime.ts'
import { billing, createGate } from './limiting.ts'

const gateway = forEachTest(startGateway)

/** Changes the store as another process does; the server reads it before the next request. */
async function change<T>(work: (store: ConfigStore, by: { actor: string; nowMs: number }) => Promise<T>): Promise<T> {
  const { app } = gateway
  const { sqlite, store } = openForCommand(app.dataFolder)
  const done = await work(store, { actor: 'test', nowMs: app.clock.nowMs })
  sqlite.close()
  // Creating a key makes the server read all keys again.
  app.key({ name: crypto.randomUUID() })
  return done
}

const edit = (secret: string, changes: KeyChanges) =>
  change((store, by) => editKey(store, secret.slice(-4), changes, by))

async function ask(secret: string, body: object = {}): Promise<{ status: number; text: string }> {
  const response = await fetch(`${gateway.app.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    body: JSON.stringify({ ...HELLO, ...body }),
  })
  return { status: response.status, text: await response.text() }
}

const budget = (nanoUsd: number) => ({ budget: { nanoUsd, period: 'month' } as const })

test('a larger budget admits the next request, a smaller one rejects it, and spend stays', async () => {
  // The upstream bills 10 and 5 tokens; without a cap, a request may write 1,000.
  const [spent, most] = [costOf(10, 5), costOf(0, 1_000)]
  const key = gateway.app.key(budget(most))
  expect((await ask(key)).status).toBe(429)
  await edit(key, budget(2 * most))
  expect((await ask(key)).status).toBe(200)
  await edit(key, budget(most))
  const refused = await ask(key)
  expect([refused.status, refused.text]).toEqual([429, expect.stringContaining(`$0.00002 spent`)])
  expect(spent).toBe(20_000)
  // Without a budget nothing is refused, but spend still counts once there is one.
  await edit(key, { budget: null })
  expect((await ask(key)).status).toBe(200)
  await gateway.app.settled(2)
  await edit(key, budget(most))
  expect((await ask(key)).text).toContain('$0.00004 spent')
})

test('requests in flight when a key gets a budget count at their maximum cost, and later at their cost', async () => {
  const { app, upstream } = gateway
  const [most, key] = [costOf(HELLO_TOKENS, 1_000), app.key()]
  const gate = createGate()
  upstream.script(gate.held(billing(10, 5)))
  const slow = ask(key)
  await upstream.waitFor((seen) => seen.length === 1, 'the call')
  await edit(key, budget(most))
  expect((await ask(key)).text).toContain(`$${most / 1e9} spent`)
  // Another period is another budget: reservations of the first carry over.
  await edit(key, { budget: { nanoUsd: most, period: 'day' } })
  expect((await ask(key)).text).toContain(`$${most / 1e9} spent`)
  gate.free()
  expect((await slow).status).toBe(200)
  expect((await ask(key)).text).toContain('$0.00002 spent')
})

test('a changed rate continues with the counts of the last minute', async () => {
  const key = gateway.app.key({ rpm: 2 })
  const statuses = async (n: number) => {
    const all: number[] = []
    for (let i = 0; i < n; i++) all.push((await ask(key)).status)
    return all
  }
  expect(await statuses(3)).toEqual([200, 200, 429])
  await edit(key, { rpm: 3 })
  expect(await statuses(2)).toEqual([200, 429])
  await edit(key, { rpm: 1 })
  gateway.app.pass(59_000)
  expect(await statuses(1)).toEqual([429])
  gateway.app.pass(2_000)
  expect(await statuses(2)).toEqual([200, 429])
})

test('models, scope, and expiry apply to the next request', async () => {
  const key = gateway.app.key({ name: 'mine' })
  const status = async (model: string) => (await ask(key, { model })).status
  await edit(key, { models: ['acme/s*'] })
  expect([await status('acme/large'), await status('acme/small')]).toEqual([404, 200])
  await edit(key, { models: [], scope: 'local' })
  expect([await status('acme/small'), await status('local/tiny')]).toEqual([404, 200])
  await edit(key, { scope: 'all', expiresMs: gateway.app.clock.nowMs + 1_000 })
  expect(await status('acme/large')).toBe(200)
  gateway.app.pass(1_000)
  expect(await status('acme/large')).toBe(401)
  await edit(key, { expiresMs: null })
  expect(await status('acme/large')).toBe(200)
})

test('two secrets of one key share its limits and its spend', async () => {
  const { app } = gateway
  const old = app.key({ rpm: 2, ...budget(1_000_000_000) })
  const { secret, key } = await change((store, by) => rotateKey(store, old.slice(-4), 60_000, by))
  expect([(await ask(old)).status, (await ask(secret)).status]).toEqual([200, 200])
  expect([(await ask(old)).status, (await ask(secret)).status]).toEqual([429, 429])
  app.pass(60_000)
  const ended = await ask(old)
  expect([ended.status, ended.text]).toEqual([401, expect.stringContaining('was rotated and expired on')])
  expect((await ask(secret)).status).toBe(200)
  expect((await app.settled(3)).map((row) => row.key_id)).toEqual(Array(3).fill(key.id))
})

test('revoking a key in the middle of its rotation ends both secrets', async () => {
  const { app } = gateway
  const old = app.key()
  const { secret } = await change((store, by) => rotateKey(store, old.slice(-4), 60_000, by))
  app.revoke(old)
  expect([(await ask(old)).status, (await ask(secret)).status]).toEqual([401, 401])
})

test('a key uses its current address list', async () => {
  const { app } = gateway
  const key = app.key()
  expect((await ask(key)).status).toBe(200)
  await edit(key, { allowedIps: ['203.0.113.0/24'] })
  expect(await ask(key)).toEqual({ status: 403, text: expect.stringContaining('"code":"ip_not_allowed"') })
  await edit(key, { allowedIps: ['203.0.113.0/24', '127.0.0.0/8'] })
  expect((await ask(key)).status).toBe(200)
  await edit(key, { allowedIps: [] })
  expect((await ask(key)).status).toBe(200)
})
