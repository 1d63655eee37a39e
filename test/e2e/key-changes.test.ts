/** Keys that are changed by commands beside a server: it takes them over by itself, and forgets nothing. The binary. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { toUsd } from '../../src/domain/usage.ts'
import { createWorkplace, type RunningBinary, type Workplace } from '../support/binary.ts'
import { costOf, HELLO, toCatalogue } from '../support/gateway.ts'
import { until } from '../support/until.ts'
import { type ScriptedUpstream, startUpstream } from '../support/upstream.ts'

let place: Workplace
let upstream: ScriptedUpstream
let server: RunningBinary
beforeEach(async () => {
  place = createWorkplace()
  upstream = await startUpstream()
  const catalog = await place.write('catalog.yaml', toCatalogue({ url: upstream.url }))
  server = await place.serve(['--catalog', catalog, '--probe', 'off'], { environment: { UPSTREAM_KEY: 'x' } })
})
afterEach(async () => {
  await place.close()
  await upstream.stop()
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

/** Asks until the server answers with this status, as it does within moments of a change. */
async function untilAnswered(key: string, status: number): Promise<string> {
  let text = ''
  await until(`an answer ${status}`, async () => {
    const response = await ask(key)
    text = await response.text()
    return response.status === status
  })
  return text
}

test('a budget that is raised lets requests in, one that is lowered refuses them, and the spend is one', async () => {
  const { key } = await json('keys', 'create', '--name', 'ann', '--budget', '0.002')
  await untilAnswered(key, 429)
  await place.run('keys', 'edit', 'ann', '--budget', '0.004')
  await untilAnswered(key, 200)
  await place.run('keys', 'edit', 'ann', '--budget', '0.002')
  const refusal = await untilAnswered(key, 429)
  // Until it had taken in the last change, it may have answered more than once.
  const spent = upstream.requests.length * costOf(10, 5)
  expect(refusal).toContain(`of which ${toUsd(spent)} USD is spent`)
  expect(await json('keys', 'show', 'ann')).toMatchObject({ budget_nano_usd: 2_000_000, spent_nano_usd: spent })
})

test('a new secret works beside the old one, and both end with their key', async () => {
  const { id, key } = await json('keys', 'create', '--name', 'ann')
  const { stdout } = await place.run('keys', 'rotate', 'ann', '--overlap', '1h')
  const next = stdout.trim()
  await untilAnswered(next, 200)
  await untilAnswered(key, 200)
  await place.run('keys', 'revoke', 'ann')
  await untilAnswered(next, 401)
  await untilAnswered(key, 401)
  const { code } = await place.run('audit')
  expect(code).toBe(0)
  const shown = await place.run('keys', 'show', id)
  for (const secret of [key, next]) expect(shown.stdout + server.stderr()).not.toContain(secret)
})
