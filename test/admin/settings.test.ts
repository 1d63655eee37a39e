/** Server settings over the admin API: effective values, their source, and pending restarts. */
import { beforeEach, expect, test } from 'bun:test'
import { toServeConfig, toSettingTexts } from '../../src/config.ts'
import { forEachTest } from '../support/lifetime.ts'
import { type Answer, type Browser, createFixture } from './fixture.ts'

let owner: Browser
const fixture = forEachTest(createFixture)
beforeEach(async () => {
  owner = await fixture.signIn('owner')
})

const find = ({ body }: Answer, name: string) =>
  body.settings.find((setting: { name: string }) => setting.name === name)

test('each has its current value and source', async () => {
  const viewer = await fixture.signIn('viewer')
  const listed = await viewer.ask('GET', '/settings')
  expect(find(listed, 'port')).toMatchObject({ value: '4001', from: 'flag', default: '4000', pending: false })
  expect(find(listed, 'retention')).toMatchObject({ value: '30d', from: 'environment', variable: 'TOLLGATE_RETENTION' })
  expect(find(listed, 'drain')).toMatchObject({ value: '30s', from: 'default', stored: null, needs_restart: true })
  expect(find(listed, 'disk-budget')).toMatchObject({ value: null, from: 'default', default: null })
})

test('a change is a row for the next start, overridden by flag and environment', async () => {
  const changed = await owner.ask('PATCH', '/settings', {
    body: { drain: '1m', retention: '7d', 'disk-budget': '10G' },
  })
  expect(find(changed, 'drain')).toMatchObject({ value: '30s', stored: '1m', pending: true })
  expect(find(changed, 'retention')).toMatchObject({ value: '30d', stored: '7d', pending: false })
  expect((await owner.ask('GET', '/settings')).body).toEqual(changed.body)
  const settings = await fixture.store.readSettings()
  const sources = { flags: {}, environment: {}, settings }
  expect(toServeConfig(sources)).toMatchObject({ drainMs: 60_000, diskBytes: 10 * 1024 ** 3 })
  expect(toSettingTexts(sources).find(({ name }) => name === 'drain')).toMatchObject({ text: '1m', place: 'setting' })
  const back = await owner.ask('PATCH', '/settings', { body: { drain: null } })
  expect(find(back, 'drain')).toMatchObject({ value: '30s', stored: null, pending: false })
  expect(Object.keys(await fixture.store.readSettings())).not.toContain('drain')
  const rows = await fixture.store.readAudit({ action: 'settings' })
  expect(rows.map(({ action, detail }) => [action, detail])).toEqual([
    ['settings.edit', { before: { drain: '1m' }, after: { drain: null } }],
    [
      'settings.edit',
      {
        before: { drain: null, retention: null, 'disk-budget': null },
        after: { drain: '1m', retention: '7d', 'disk-budget': '10G' },
      },
    ],
  ])
})

test('an edit without changes is not recorded', async () => {
  await owner.ask('PATCH', '/settings', { body: { drain: null } })
  expect(await fixture.store.readAudit({ action: 'settings' })).toEqual([])
})

test.each([
  [
    'a value that no server starts with',
    { drain: '1m', retention: 'never' },
    'retention',
    'The setting retention must be a',
  ],
  ['a name that is none', { colour: 'red' }, 'colour', "Unknown setting 'colour'"],
  ['a row that is no setting', { config_revision: '1' }, 'config_revision', "Unknown setting 'config_revision'"],
  [
    'who signs in',
    { 'password-sign-in': 'on' },
    'password-sign-in',
    'This setting can only be set at the start of the server',
  ],
  ['a number', { port: 4000 }, 'port', 'port'],
])('%s is refused with its name, and nothing is written', async (_, body, field, says) => {
  const before = await fixture.store.readSettings()
  const answer = await owner.ask('PATCH', '/settings', { body })
  expect([answer.status, answer.body.error.field]).toEqual([400, field])
  expect(answer.body.error.message).toContain(says)
  expect(await fixture.store.readSettings()).toEqual(before)
})

test('editors read them and change none', async () => {
  const editor = await fixture.signIn('editor')
  expect((await editor.ask('GET', '/settings')).status).toBe(200)
  expect((await editor.ask('PATCH', '/settings', { body: { drain: '1m' } })).body.error.kind).toBe('role_too_small')
})
