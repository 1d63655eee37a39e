/** Requests without a row are counted: each once, for its key and team, however many there are. */
import { expect, test } from 'bun:test'
import { askSocket } from '../../src/cli/control-client.ts'
import type { RefusalsDocument } from '../../src/documents/usage.ts'
import { createTeam } from '../../src/keys/service.ts'
import { startGateway } from '../support/gateway.ts'
import { forEachTest } from '../support/lifetime.ts'

const gateway = forEachTest(startGateway)

const report = async (query: string): Promise<RefusalsDocument> =>
  (await askSocket(gateway.app.dataFolder, `/admin/api/usage/refusals?${query}`)).json() as Promise<RefusalsDocument>

const chat = (secret: string, body: Record<string, unknown> = {}) =>
  gateway.chat(body, { headers: secret === '' ? { authorization: '' } : { authorization: `Bearer ${secret}` } })

test("a rejected request counts once, with its code, key, and team, and a request with a row doesn't", async () => {
  const { app } = gateway
  app.change((store, by) => createTeam(store, { name: 'research' }, by))
  const keys = {
    narrow: app.key({ name: 'narrow', team: 'research', models: ['acme/large'] }),
    poor: app.key({ name: 'poor', budget: { nanoUsd: 1, period: 'month' } }),
    slow: app.key({ name: 'slow', rpm: 1 }),
    far: app.key({ name: 'far', allowedIps: ['192.0.2.1'] }),
    gone: app.key({ name: 'gone' }),
  }
  app.revoke(keys.gone)
  const answers = [
    await chat(''),
    await chat(`sk-tg-${'x'.repeat(38)}`),
    await chat(keys.gone),
    await chat(keys.far),
    await chat(keys.narrow, { model: 'acme/small' }),
    await chat(keys.narrow, { model: 'whatever-a-client-sends' }),
    await chat(keys.narrow, { temperature: 'hot' }),
    await chat(keys.narrow),
    await chat(keys.poor),
    await chat(keys.slow),
    await chat(keys.slow),
    await chat(keys.slow, { model: 'acme/idle' }),
  ]
  await Promise.all(answers.map((answer) => answer.text()))
  expect(answers.map(({ status }) => status)).toEqual([401, 401, 401, 403, 404, 404, 400, 200, 429, 200, 429, 429])
  const { refusals, total } = await report('by=key,code')
  expect(refusals.map(({ key, code, refused }) => `${key} ${code} ${refused}`).sort()).toEqual([
    'far ip_not_allowed 1',
    'gone invalid_key 1',
    'narrow invalid_request 1',
    'narrow model_not_found 2',
    'null invalid_key 1',
    'null no_key 1',
    'poor insufficient_quota 1',
    'slow request_limit 2',
  ])
  expect([total, await app.count()]).toEqual([10, 2])
  expect((await report('by=team&team=research')).refusals).toMatchObject([{ team: 'research', refused: 3 }])
  expect((await report('by=code&code=rate_limit_exceeded')).refusals).toMatchObject([
    { code: 'request_limit', http_status: 429, error_code: 'rate_limit_exceeded', refused: 2 },
  ])
  expect(JSON.stringify(await report('by=code,hour'))).not.toContain('whatever-a-client-sends')
  expect(await (await askSocket(app.dataFolder, '/admin/api/keys/poor')).json()).toMatchObject({
    ...{ refused_24h: 1, last_refused_code: 'insufficient_quota', last_refused_ms: app.clock.nowMs },
    last_used_ms: null,
  })
  expect(await (await askSocket(app.dataFolder, '/admin/api/teams/research')).json()).toMatchObject({ refused_24h: 3 })
})

test('an unknown code is rejected with a list of codes', async () => {
  const answer = await askSocket(gateway.app.dataFolder, '/admin/api/usage/refusals?code=nonsense')
  expect(answer.status).toBe(400)
  expect(await answer.text()).toContain('insufficient_quota')
})

test("a model list for a revoked key counts, and one for a valid key doesn't", async () => {
  const { app } = gateway
  const gone = app.key({ name: 'gone' })
  app.revoke(gone)
  for (const secret of [gone, app.key({ name: 'dev' })])
    await (await fetch(`${app.baseUrl}/models`, { headers: { authorization: `Bearer ${secret}` } })).text()
  expect((await report('by=key,code')).refusals).toMatchObject([{ key: 'gone', code: 'invalid_key', refused: 1 }])
})
