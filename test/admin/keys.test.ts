/** Keys over the admin API. */
import { beforeEach, expect, test } from 'bun:test'
import { forEachTest } from '../support/lifetime.ts'
import { type Browser, createFixture } from './fixture.ts'

let browser: Browser
const fixture = forEachTest(createFixture)
beforeEach(async () => {
  browser = await fixture.signIn('editor')
})

test('a key is created, its secret shown once; edited, rotated, revoked; all recorded with the user', async () => {
  const body = { name: 'dev', models: ['openai/*'], rpm: 60, budget_nano_usd: 5_000_000_000, budget_period: 'month' }
  const made = await browser.ask('POST', '/keys', { body })
  const { id, key: secret } = made.body
  expect(made.body).toMatchObject({ ...body, status: 'active', key: expect.stringMatching(/^sk-tg-\w{38}$/) })
  const patch = { rpm: null, budget_nano_usd: null, allowed_ips: ['10.0.0.0/8'], metadata: { owner: 'ann' } }
  const edited = await browser.ask('PATCH', `/keys/${id}`, { body: patch })
  expect(edited.body).toMatchObject({
    rpm: null,
    budget_period: null,
    allowed_ips: ['10.0.0.0/8'],
    models: ['openai/*'],
  })
  const rotated = await browser.ask('POST', `/keys/${id}/rotate`, { body: { overlap: '1h' } })
  expect(rotated.body.key).not.toBe(secret)
  expect(rotated.body.secrets).toHaveLength(2)
  const { body: ended } = await browser.ask('POST', `/keys/${id}/end-overlap`)
  expect(ended.secrets.map(({ expires_ms: ms }: { expires_ms: number | null }) => ms)).toEqual([fixture.clock.ms, null])
  expect((await browser.ask('POST', `/keys/${id}/revoke`)).body.status).toBe('revoked')
  const { keys } = (await browser.ask('GET', '/keys')).body
  expect(keys).toEqual([(await browser.ask('GET', `/keys/${id}`)).body])
  expect(JSON.stringify(keys)).not.toContain(secret.slice(6))
  const [editor] = await fixture.identity.readAdmins()
  const rows = await fixture.store.readAudit({ subjects: [id] })
  expect(rows.map(({ action, actor }) => [action, actor])).toEqual(
    ['keys.revoke', 'keys.end_overlap', 'keys.rotate', 'keys.edit', 'keys.create'].map((action) => [
      action,
      String(editor?.id),
    ]),
  )
})

test('a change is effective before its response', async () => {
  const namesOf = () => [...(fixture.serving.snapshot()?.secrets.values() ?? [])].map(({ key }) => key.name)
  const { body: dev } = await browser.ask('POST', '/keys', { body: { name: 'dev' } })
  expect(namesOf()).toEqual(['dev'])
  await browser.ask('PATCH', `/keys/${dev.id}`, { body: { name: 'prod' } })
  expect(namesOf()).toEqual(['prod'])
  await browser.ask('POST', '/teams', { body: { name: 'research' } })
  expect([...(fixture.serving.snapshot()?.teams.values() ?? [])].map(({ name }) => name)).toEqual(['research'])
})

test.each([
  ['a field that is none', { name: 'dev', colour: 'red' }, 'colour'],
  ['a number that is a text', { name: 'dev', rpm: '60' }, 'rpm'],
  ['a limit of nothing', { name: 'dev', rpm: 0 }, 'rpm'],
  ['a budget without its period', { name: 'dev', budget_nano_usd: 5 }, 'budget'],
  ['no name', {}, 'name'],
  ['an address that is none', { name: 'dev', allowed_ips: ['here'] }, 'allowed_ips'],
])('%s is refused with its name, and nothing is made', async (_, body, field) => {
  const { status, body: answer } = await browser.ask('POST', '/keys', { body })
  expect([status, answer.error.kind, answer.error.field]).toEqual([400, 'invalid', field])
  expect((await browser.ask('GET', '/keys')).body.keys).toEqual([])
})

test('reserved names of keys and teams are refused; existing ones can be used by ID', async () => {
  for (const [path, name, free] of [
    ['/keys', 'system', 'System'],
    ['/teams', 'none', 'None'],
  ] as const) {
    const { status, body } = await browser.ask('POST', path, { body: { name } })
    expect([path, status, body.error.kind, body.error.field]).toEqual([path, 400, 'invalid', 'name'])
    const { id } = (await browser.ask('POST', path, { body: { name: free } })).body
    expect((await browser.ask('PATCH', `${path}/${id}`, { body: { name } })).body.error.field).toBe('name')
    const table = path.slice(1)
    await fixture.store.changeKeys({ actor: 'test', nowMs: 1 }, (rows) => ({
      value: null,
      change: {
        ...{ action: 'keys.edit', subject: id, detail: {} },
        write: { [table]: rows[table as 'keys'].map((row) => ({ ...row, name })) },
      },
    }))
    const edited = await browser.ask('PATCH', `${path}/${id}`, { body: { rpm: 5 } })
    expect([edited.body.name, edited.body.rpm]).toEqual([name, 5])
  }
})

test('unknown keys are 404, existing names 409', async () => {
  await browser.ask('POST', '/keys', { body: { name: 'dev' } })
  expect((await browser.ask('POST', '/keys', { body: { name: 'dev' } })).status).toBe(409)
  expect((await browser.ask('PATCH', '/keys/nothing', { body: {} })).body.error.kind).toBe('key_not_found')
  expect((await browser.ask('POST', '/keys', { body: { name: 'x', team: 'none' } })).body.error.kind).toBe(
    'team_not_found',
  )
  expect((await browser.ask('PUT', '/keys')).headers.get('allow')).toBe('GET, POST')
  expect((await browser.ask('GET', '/nothing')).body.error.kind).toBe('unknown_path')
})
