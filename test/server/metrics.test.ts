/** `/metrics` of a whole server, on real sockets: who may read it, and that it says what happened. */
import { Database } from 'bun:sqlite'
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createToken, revokeToken } from '../../src/identity/principal.ts'
import type { IdentityStore } from '../../src/store/identity-store.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { createIdentityStore } from '../../src/store/sqlite/identity-store.ts'
import { findFreePort } from '../support/free-port.ts'
import { type Several, startSeveral } from '../support/several-upstreams.ts'
import { errorAnswer } from '../support/upstream-answers.ts'

let several: Several
let port: number
let token: string

const own = (headers: Record<string, string> = {}) => fetch(`http://127.0.0.1:${port}/metrics`, { headers })
const api = (headers: Record<string, string> = {}) => fetch(`${several.app.origin}/metrics`, { headers })
const by = () => ({ actor: 'test', nowMs: several.app.clock.nowMs })
/** As `tollgate admin token` does. */
async function withIdentity<T>(work: (identity: IdentityStore) => Promise<T>): Promise<T> {
  using database = new Database(databasePath(several.app.dataFolder))
  return work(createIdentityStore(database))
}

beforeAll(async () => {
  port = await findFreePort()
  several = await startSeveral({ config: { metrics: { host: '127.0.0.1', port }, corsOrigins: ['*'] } })
  const { secret } = await withIdentity((identity) => createToken(identity, { name: 'prom', scope: 'read' }, by()))
  token = secret
})
afterAll(() => several.stop())

const readSamples = async (headers = {}) => {
  const text = await (await own(headers)).text()
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]))
}

test('on the port of the API, only an admin token opens them, even from this machine', async () => {
  const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` })
  expect((await api()).status).toBe(401)
  expect((await api({ 'x-forwarded-for': '127.0.0.1' })).status).toBe(401)
  expect((await api(bearer(several.key))).status).toBe(401)
  const allowed = await api({ ...bearer(token), origin: 'https://evil.example.com' })
  expect(allowed.status).toBe(200)
  expect(allowed.headers.get('access-control-allow-origin')).toBeNull()
  await withIdentity((identity) => revokeToken(identity, 'prom', by()))
  expect((await api(bearer(token))).status).toBe(401)
})

test('a loopback address of their own needs no token, and serves no other name or path', async () => {
  expect((await own()).headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
  expect((await own({ host: `evil.example.com:${port}` })).status).toBe(403)
  expect((await fetch(`http://127.0.0.1:${port}/admin/api/keys`)).status).toBe(404)
})

test('they count requests, calls, tokens, costs, and rejections, and no name that a client made up', async () => {
  const before = await readSamples()
  several.first.script(errorAnswer(500))
  expect((await several.chat()).status).toBe(200)
  several.calm()
  await (await several.chat({ stream: true })).text()
  expect((await several.chat({ model: 'acme/made-up-name' })).status).toBe(404)
  const user = 'user-that-a-client-sent'
  expect((await several.chat({ user, temperature: 99 })).status).toBe(400)
  const after = await readSamples()
  const added = Object.fromEntries(
    [...after].flatMap(([name, value]) => {
      const by = Math.round((value - (before.get(name) ?? 0)) * 1e9) / 1e9
      return by !== 0 && /^tollgate_(requests|upstream_calls|tokens|cost|request_errors)\w*_total/.test(name)
        ? [[name, by]]
        : []
    }),
  )
  expect(added).toEqual({
    'tollgate_requests_total{model="acme/both",endpoint="chat",status="2xx"}': 2,
    'tollgate_requests_rejected_total{reason="model_not_found"}': 1,
    'tollgate_requests_rejected_total{reason="invalid_request"}': 1,
    'tollgate_tokens_total{model="acme/both",type="input"}': 20,
    'tollgate_tokens_total{model="acme/both",type="output"}': 6,
    'tollgate_cost_usd_total{model="acme/both"}': 0.000061,
    'tollgate_upstream_calls_total{upstream="first",reason="first",outcome="ok"}': 1,
    'tollgate_upstream_calls_total{upstream="first",reason="first",outcome="5xx"}': 1,
    'tollgate_upstream_calls_total{upstream="second",reason="fallback",outcome="ok"}': 1,
  })
  expect([...after.keys()].join()).not.toMatch(/made-up|user-that/)
})

test('a budget is shown with what is left of it', async () => {
  const key = several.app.key({ name: 'a "quoted"\\name', budget: { nanoUsd: 10_000_000, period: 'month' } })
  expect((await several.chat({ model: 'acme/only' }, { key })).status).toBe(200)
  const left = [...(await readSamples())].filter(([name]) => name.startsWith('tollgate_key_budget_left_usd'))
  expect(left).toHaveLength(1)
  expect(left[0]?.[0]).toStartWith('tollgate_key_budget_left_usd{key="a \\"quoted\\"\\\\name",key_id="')
  expect(left[0]?.[1]).toBe(0.009_984)
})

test('OpenMetrics is for those who ask for it', async () => {
  const response = await own({ accept: 'application/openmetrics-text; version=1.0.0' })
  expect(response.headers.get('content-type')).toBe('application/openmetrics-text; version=1.0.0; charset=utf-8')
  const text = await response.text()
  expect(text).toContain('# TYPE tollgate_cost_usd counter\n# UNIT tollgate_cost_usd usd\n')
  expect(text).toContain('le="1.0"')
  expect(text.endsWith('# EOF\n')).toBe(true)
})

const promtool = Bun.which('promtool')
test.skipIf(promtool === null)(`promtool accepts them${promtool ? '' : ' (skipped: not installed)'}`, async () => {
  const text = await (await own()).text()
  const { exitCode, stderr } = Bun.spawnSync([promtool ?? '', 'check', 'metrics'], { stdin: Buffer.from(text) })
  expect(`${exitCode} ${stderr}`).toBe('0 ')
})
