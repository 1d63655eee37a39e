/**
 * Keys changed by commands next to a server: each change applies when its command returns, and nothing is forgotten.
 * Uses the binary.
 */
import { beforeEach, expect, test } from 'bun:test'
import { toUsd } from '../../src/domain/usage.ts'
import { createWorkplace, type RunningBinary } from '../support/binary.ts'
import { costOf, HELLO, toCatalogue } from '../support/gateway.ts'
import { forEachTest } from '../support/lifetime.ts'
import { startUpstream } from '../support/upstream.ts'

let server: RunningBinary
const place = forEachTest(createWorkplace)
const upstream = forEachTest(startUpstream)
beforeEach(async () => {
  const catalog = await place.write('catalog.yaml', toCatalogue({ url: upstream.url }))
  server = await place.serve(['--catalog', catalog, '--probe', 'off'], { environment: { UPSTREAM_KEY: 'x' } })
})

async function json(...argv: string[]) {
  const { code, stdout, stderr } = await place.run(...argv, '--json')
  if (code !== 0) throw new Error(stderr)
  return JSON.parse(stdout)
}

const ask = (key: string) =>
  fetch(`${server.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(HELLO),
  })

test('a raised budget admits requests, a lowered one refuses them, and the spend stays one sum', async () => {
  const { key } = await json('keys', 'create', '--name', 'ann', '--budget', '0.002')
  const statusOf = async () => (await ask(key)).status
  while ((await statusOf()) === 200);
  await place.run('keys', 'edit', 'ann', '--budget', '0.004')
  expect(await statusOf()).toBe(200)
  await place.run('keys', 'edit', 'ann', '--budget', '0.002')
  const refusal = await (await ask(key)).text()
  const spent = upstream.requests.length * costOf(10, 5)
  expect(refusal).toContain(`$${toUsd(spent)} spent`)
  expect(await json('keys', 'show', 'ann')).toMatchObject({ budget_nano_usd: 2_000_000, spent_nano_usd: spent })
})

test('a new secret works next to the old one, and both end with their key', async () => {
  const { id, key } = await json('keys', 'create', '--name', 'ann')
  const { stdout } = await place.run('keys', 'rotate', 'ann', '--overlap', '1h')
  const next = stdout.trim()
  for (const secret of [key, next]) expect((await ask(secret)).status).toBe(200)
  await place.run('keys', 'revoke', 'ann')
  for (const secret of [key, next]) expect((await ask(secret)).status).toBe(401)
  const { code } = await place.run('ledger', 'verify')
  expect(code).toBe(0)
  const shown = await place.run('keys', 'show', id)
  for (const secret of [key, next]) expect(shown.stdout + server.stderr()).not.toContain(secret)
})

test('a key works as soon as its command returns, however long the server was busy', async () => {
  server.signal('SIGSTOP')
  const making = json('keys', 'create', '--name', 'late')
  await Bun.sleep(1_500)
  server.signal('SIGCONT')
  const { key } = await making
  expect((await ask(key)).status).toBe(200)
})

test('each key works, and each revoked key is refused, as soon as its command returns', async () => {
  const statuses: number[] = []
  for (let number = 0; number < 10; number++) {
    const { id, key } = await json('keys', 'create', '--name', `key ${number}`)
    statuses.push((await ask(key)).status)
    await place.run('keys', 'revoke', id)
    statuses.push((await ask(key)).status)
  }
  expect(statuses).toEqual(Array.from({ length: 20 }, (_, turn) => (turn % 2 === 0 ? 200 : 401)))
})

test('refused requests are counted over a restart, and a key that is often refused needs attention', async () => {
  const { key } = await json('keys', 'create', '--name', 'ann', '--model', 'nothing/*')
  for (let i = 0; i < 21; i++) expect((await ask(key)).status).toBe(404)
  server.signal('SIGTERM')
  expect(await server.exited).toBe(0)
  server = await place.serve(['--probe', 'off'], { environment: { UPSTREAM_KEY: 'x' } })
  expect((await ask(key)).status).toBe(404)
  const { refusals } = await json('usage', '--refusals', '--key', 'ann')
  expect(refusals).toMatchObject([{ key: 'ann', code: 'model_not_found', http_status: 404, refused: 22 }])
  const { stdout } = await place.run('status')
  expect(stdout).toMatch(/^warning +22 requests of key ann refused since .* tollgate usage --refusals --key \w+/m)
})
