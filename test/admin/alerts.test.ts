/** Alert targets over the admin API: permissions, allowed URLs, and what is shown of them. */
import { expect, test } from 'bun:test'
import { forEachTest } from '../support/lifetime.ts'
import { createFixture } from './fixture.ts'

const fixture = forEachTest(() => createFixture())
const SECRET_PATH = 'services/T0/B0/very-secret'
const SLACK = `https://hooks.slack.com/${SECRET_PATH}`

test('an owner adds and removes targets, an editor tests them, a viewer sees them', async () => {
  const [owner, editor, viewer] = [
    await fixture.signIn('owner'),
    await fixture.signIn('editor'),
    await fixture.signIn('viewer'),
  ]
  expect((await editor.ask('POST', '/alerts', { body: { url: SLACK } })).status).toBe(403)
  const { body: added } = await owner.ask('POST', '/alerts', { body: { url: SLACK, topics: ['budget', 'budget'] } })
  expect(added).toMatchObject({
    ...{ name: 'hooks.slack.com', format: 'slack', url: 'https://hooks.slack.com/…', topics: ['budget'] },
    ...{ last: null, secret: null },
  })
  expect((await viewer.ask('POST', `/alerts/${added.id}/test`)).status).toBe(403)
  const { targets } = (await viewer.ask('GET', '/alerts')).body
  expect(targets.map(({ id }: { id: string }) => id)).toEqual([added.id])
  expect((await editor.ask('DELETE', `/alerts/${added.id}`)).status).toBe(403)
  expect((await owner.ask('DELETE', `/alerts/${added.id}`)).status).toBe(200)
  expect((await owner.ask('DELETE', `/alerts/${added.id}`)).body.error.kind).toBe('alert_not_found')
  const audit = await owner.ask('GET', '/audit?action=alerts')
  expect(audit.body.audit.map(({ action, detail }: { action: string; detail: object }) => [action, detail])).toEqual([
    ['alerts.remove', expect.objectContaining({ name: 'hooks.slack.com' })],
    ['alerts.add', expect.objectContaining({ name: 'hooks.slack.com' })],
  ])
  expect(`${audit.text}${await fixture.logged()}`).not.toContain(SECRET_PATH)
})

test('a test is sent once, returns its result, and is recorded', async () => {
  const owner = await fixture.signIn('owner')
  const statuses = [204, 503]
  const receiver = Bun.serve({ port: 0, fetch: () => new Response(null, { status: statuses.shift() ?? 500 }) })
  const { body: added } = await owner.ask('POST', '/alerts', { body: { url: `http://127.0.0.1:${receiver.port}/x` } })
  expect(added.secret).toStartWith('whsec_')
  const send = async () => (await owner.ask('POST', `/alerts/${added.id}/test`)).body
  expect(await send()).toMatchObject({ state: 'delivered', http_status: 204, error: null, attempts: 1 })
  expect(await send()).toMatchObject({ state: 'failed', http_status: 503, error: 'status 503' })
  await receiver.stop(true)
  expect(await send()).toMatchObject({ state: 'failed', http_status: null, error: 'connection refused' })
  const { deliveries } = (await owner.ask('GET', `/alerts/deliveries?target=${added.name}&limit=2`)).body
  expect(deliveries.map(({ error }: { error: string }) => error)).toEqual(['connection refused', 'status 503'])
  const { findings } = (await owner.ask('GET', '/attention')).body
  expect(findings).toContainEqual(
    expect.objectContaining({ kind: 'alerts', message: expect.stringContaining('refused') }),
  )
})

test.each([
  ['ftp://example.com/x', 'must begin with https://'],
  ['not a url', 'must begin with https://'],
  ['https://user:word@example.com/x', 'must not contain a user name or password'],
  ['http://169.254.169.254/latest/meta-data', 'link-local or reserved'],
  ['http://[::ffff:169.254.169.254]/', 'link-local or reserved'],
  ['http://metadata.google.internal/', 'link-local or reserved'],
  ['https://rebound.example.com/', 'link-local or reserved'],
  ['http://chat.example.com/hook', 'must begin with https://, since'],
])('the URL %s is refused, and not repeated', async (url, says) => {
  fixture.hosts['rebound.example.com'] = ['169.254.169.254']
  fixture.hosts['chat.example.com'] = ['203.0.113.9']
  const owner = await fixture.signIn('owner')
  const { status, body } = await owner.ask('POST', '/alerts', { body: { url } })
  expect([status, body.error.field, body.error.message]).toEqual([400, 'url', expect.stringContaining(says)])
  expect(body.error.message).not.toContain(url)
})

test('names are unique, and topics and formats known', async () => {
  const owner = await fixture.signIn('owner')
  const add = async (more: object) => (await owner.ask('POST', '/alerts', { body: { url: SLACK, ...more } })).body.error
  expect(await add({})).toBeUndefined()
  expect(await add({})).toMatchObject({ kind: 'alert_exists' })
  expect(await add({ name: 'other', topics: ['weather'] })).toMatchObject({ kind: 'invalid' })
  expect(await add({ name: 'other', topics: [] })).toMatchObject({ kind: 'invalid', field: 'topics' })
  expect(await add({ name: 'other', format: 'xml' })).toMatchObject({ kind: 'invalid' })
})
