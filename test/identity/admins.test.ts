/** Those who sign in: roles, teams of members, and that there is always an owner. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { editAdmin, inviteAdmin, resetAdmin } from '../../src/identity/admins.ts'
import { createKey, listKeys } from '../../src/keys/service.ts'
import { createTeam } from '../../src/keys/teams.ts'
import { type Browser, createFixture, type Fixture, PASSWORD } from '../admin/fixture.ts'

let fixture: Fixture
beforeEach(() => {
  fixture = createFixture()
})
afterEach(() => fixture.close())

const by = () => ({ actor: 'test', nowMs: fixture.clock.ms })
const isIn = async (browser: Browser) => (await browser.ask('GET', '/session')).body.name !== null

test('names are compared without case, and each is there once', async () => {
  const { admin } = await inviteAdmin(fixture.identity, { name: ' Ann@Example.com ', role: 'viewer' }, by())
  expect(admin.name).toBe('ann@example.com')
  const again = inviteAdmin(fixture.identity, { name: 'ANN@example.com', role: 'owner' }, by())
  await expect(again).rejects.toThrow("There is somebody called 'ann@example.com' already.")
})

test('a member has a team, and nobody else has', async () => {
  await createTeam(fixture.store, { name: 'research' }, by())
  const { identity } = fixture
  await expect(inviteAdmin(identity, { name: 'a', role: 'member' }, by())).rejects.toThrow('A member needs a team.')
  await expect(inviteAdmin(identity, { name: 'a', role: 'viewer', team: 'research' }, by())).rejects.toThrow(
    'Members alone',
  )
  await inviteAdmin(identity, { name: 'a', role: 'member', team: 'research' }, by())
  expect((await editAdmin(identity, 'a', { role: 'editor' }, by())).admin.teamId).toBeNull()
})

test('an invitation sets a password once, within a week, for its own name', async () => {
  const { code } = await inviteAdmin(fixture.identity, { name: 'bob', role: 'editor' }, by())
  await inviteAdmin(fixture.identity, { name: 'eve', role: 'viewer' }, by())
  const browser = fixture.createBrowser()
  const use = (name: string) => browser.ask('POST', '/code', { body: { name, code, password: PASSWORD } })
  expect((await use('eve')).body.error.kind).toBe('code_wrong')
  expect((await use('bob')).body).toEqual({ name: 'bob', role: 'editor' })
  expect((await use('bob')).body.error.kind).toBe('code_wrong')
  const late = await inviteAdmin(fixture.identity, { name: 'late', role: 'viewer' }, by())
  fixture.clock.ms += 7 * 86_400_000
  const { body } = await browser.ask('POST', '/code', { body: { name: 'late', code: late.code, password: PASSWORD } })
  expect(body.error.kind).toBe('code_wrong')
})

test('a reset ends the old password and all sessions at once', async () => {
  const browser = await fixture.signIn('owner')
  const { code } = await resetAdmin(fixture.identity, 'owner', by())
  expect(await isIn(browser)).toBe(false)
  const old = await browser.ask('POST', '/session', { body: { name: 'owner', password: PASSWORD } })
  expect(old.status).toBe(401)
  const password = 'quite another password'
  expect((await browser.ask('POST', '/code', { body: { name: 'owner', code, password } })).status).toBe(200)
  expect(await isIn(browser)).toBe(true)
})

test('who is disabled is signed out at once, and keys of their own are revoked', async () => {
  await createTeam(fixture.store, { name: 'research' }, by())
  const browser = await fixture.signIn('member', 'mia', 'research')
  const [mia] = await fixture.identity.readAdmins()
  const own = { team: 'research', ownerId: mia?.id ?? '' }
  await createKey(fixture.store, { name: 'of mia', ...own }, by())
  await createKey(fixture.store, { name: 'of the team', team: 'research' }, by())
  const { revoked } = await editAdmin(fixture.identity, 'mia', { disabled: true }, by())
  expect(revoked.map(({ name }) => name)).toEqual(['of mia'])
  const keys = await listKeys(fixture.store, fixture.clock.ms)
  expect(keys.map(({ name, status }) => [name, status])).toEqual([
    ['of mia', 'revoked'],
    ['of the team', 'active'],
  ])
  expect(await isIn(browser)).toBe(false)
  const again = await browser.ask('POST', '/session', { body: { name: 'mia', password: PASSWORD } })
  expect(again.body.error.kind).toBe('sign_in_failed')
})

test('keys of their own go with a member into another team', async () => {
  for (const name of ['research', 'sales']) await createTeam(fixture.store, { name }, by())
  await fixture.signIn('member', 'mia', 'research')
  const [mia] = await fixture.identity.readAdmins()
  await createKey(fixture.store, { name: 'of mia', team: 'research', ownerId: mia?.id ?? '' }, by())
  await createKey(fixture.store, { name: 'of the team', team: 'research' }, by())
  const { moved } = await editAdmin(fixture.identity, 'mia', { team: 'sales' }, by())
  expect(moved.map(({ name }) => name)).toEqual(['of mia'])
  const keys = await listKeys(fixture.store, fixture.clock.ms)
  expect(keys.map(({ name, team }) => [name, team])).toEqual([
    ['of mia', 'sales'],
    ['of the team', 'research'],
  ])
  const [row] = await fixture.store.readAudit()
  expect([row?.action, row?.detail.keys_moved]).toEqual(['admins.edit', 1])
})

test('the last owner who can sign in stays one', async () => {
  await fixture.signIn('owner', 'ann')
  const { code } = await inviteAdmin(fixture.identity, { name: 'bob', role: 'owner' }, by())
  for (const changes of [{ role: 'editor' }, { disabled: true }] as const)
    await expect(editAdmin(fixture.identity, 'ann', changes, by())).rejects.toThrow('no owner left')
  await fixture.createBrowser().ask('POST', '/code', { body: { name: 'bob', code, password: PASSWORD } })
  expect((await editAdmin(fixture.identity, 'ann', { role: 'editor' }, by())).admin.role).toBe('editor')
})

test('what is done to them is on record, and by whom', async () => {
  await fixture.signIn('owner', 'ann')
  await inviteAdmin(fixture.identity, { name: 'bob', role: 'viewer' }, by())
  await editAdmin(fixture.identity, 'bob', { role: 'editor' }, { ...by(), actor: 'ann' })
  const rows = await fixture.store.readAudit()
  expect(rows.map(({ action, actor, detail }) => [action, actor, detail.name])).toEqual([
    ['admins.edit', 'ann', 'bob'],
    ['admins.create', 'test', 'bob'],
    ['admins.password', expect.any(String), 'ann'],
    ['admins.create', 'test', 'ann'],
  ])
})
