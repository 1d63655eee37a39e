/** Teams over the admin API. */
import { beforeEach, expect, test } from 'bun:test'
import { forEachTest } from '../support/lifetime.ts'
import { type Browser, createFixture } from './fixture.ts'

let browser: Browser
const fixture = forEachTest(createFixture)
beforeEach(async () => {
  browser = await fixture.signIn('editor')
})

test('a team is created, shown with its keys, and edited, and recorded with the user', async () => {
  const body = { name: 'research', models: ['openai/*'], rpm: 600, max_keys: 2 }
  const made = await browser.ask('POST', '/teams', { body })
  expect(made.body).toMatchObject({ ...body, budget_period: null })
  const { id } = made.body
  const key = (await browser.ask('POST', '/keys', { body: { name: 'dev', team: 'research' } })).body
  await browser.ask('POST', '/keys', { body: { name: 'of nobody' } })
  const budget = { budget_nano_usd: 5_000_000_000, budget_period: 'month' }
  const edited = await browser.ask('PATCH', `/teams/${id}`, { body: { max_keys: null, ...budget } })
  expect(edited.body).toMatchObject({ ...body, max_keys: null, ...budget, spent_nano_usd: 0 })
  const { keys, ...shown } = (await browser.ask('GET', `/teams/${id}`)).body
  expect(keys).toEqual([(await browser.ask('GET', `/keys/${key.id}`)).body])
  expect((await browser.ask('GET', '/teams')).body.teams).toEqual([shown])
  const [editor] = await fixture.identity.readAdmins()
  const rows = await fixture.store.readAudit({ subjects: [id] })
  expect(rows.map(({ action, actor }) => [action, actor])).toEqual(
    ['teams.edit', 'teams.create'].map((action) => [action, String(editor?.id)]),
  )
})

test.each([
  ['a field that is none', { name: 'research', team: 'other' }, 'team'],
  ['room for no key', { name: 'research', max_keys: 0 }, 'max_keys'],
  ['no name', {}, 'name'],
])('%s is refused with its name, and nothing is made', async (_, body, field) => {
  const { status, body: answer } = await browser.ask('POST', '/teams', { body })
  expect([status, answer.error.kind, answer.error.field]).toEqual([400, 'invalid', field])
  expect((await browser.ask('GET', '/teams')).body.teams).toEqual([])
})

test("another team's name is 409, an unknown team 404", async () => {
  await browser.ask('POST', '/teams', { body: { name: 'research' } })
  expect((await browser.ask('POST', '/teams', { body: { name: 'research' } })).status).toBe(409)
  expect((await browser.ask('PATCH', '/teams/nothing', { body: {} })).body.error.kind).toBe('team_not_found')
})
