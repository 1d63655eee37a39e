/** Users: roles, teams of members, and that there is always an owner. */

import { expect, test } from 'bun:test'
import { editAdmin, inviteAdmin, resetAdmin } from '../../src/identity/admins.ts'
import { createKey, createTeam, listKeys } from '../../src/keys/service.ts'
import { type Browser, createFixture, PASSWORD } from '../admin/fixture.ts'
import { forEachTest } from '../support/lifetime.ts'

const fixture = forEachTest(createFixture)

const by = () => ({ actor: 'test', nowMs: fixture.clock.ms })
const isIn = async (browser: Browser) => (await browser.ask('GET', '/session')).body.name !== null

test('names are case-insensitive and unique', async () => {
  const { admin } = await inviteAdmin(fixture.identity, { name: ' Ann@Example.com ', role: 'viewer' }, by())
  expect(admin.name).toBe('ann@example.com')
  const again = inviteAdmin(fixture.identity, { name: 'ANN@example.com', role: 'owner' }, by())
  await expect(again).rejects.toThrow("A user named 'ann@example.com' already exists.")
})

test.each(['an\u200bn', 'ann\u202e', '\u3164', 'an n', '', 'a'.repeat(201)])('%j is not a valid name', async (name) => {
  const inviting = inviteAdmin(fixture.identity, { name, role: 'viewer' }, by())
  await expect(inviting).rejects.toThrow(
    'The name must have 1 to 200 characters, none of them invisible, and no spaces.',
  )
})

test('a name is the same in each Unicode form, also at sign-in', async () => {
  await fixture.signIn('viewer', 'zo\u00eb')
  const inviting = inviteAdmin(fixture.identity, { name: 'ＺＯE\u0308', role: 'owner' }, by())
  await expect(inviting).rejects.toThrow("A user named 'zo\u00eb' already exists.")
  const body = { name: 'Zoe\u0308', password: PASSWORD }
  expect((await fixture.createBrowser().ask('POST', '/session', { body })).status).toBe(200)
})

test('only members have a team', async () => {
  await createTeam(fixture.store, { name: 'research' }, by())
  const { identity } = fixture
  await expect(inviteAdmin(identity, { name: 'a', role: 'member' }, by())).rejects.toThrow(
    'A member needs a team. Choose one.',
  )
  await expect(inviteAdmin(identity, { name: 'a', role: 'viewer', team: 'research' }, by())).rejects.toThrow(
    'Only members',
  )
  await inviteAdmin(identity, { name: 'a', role: 'member', team: 'research' }, by())
  expect((await editAdmin(identity, 'a', { role: 'editor' }, by())).admin.teamId).toBeNull()
})

test('an invitation sets a password once, within a week, for its own user', async () => {
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

test('a disabled user is signed out at once, and their own keys are revoked', async () => {
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

test('keys of a former member stay active in their team, and are revoked when the user is disabled', async () => {
  const team = await createTeam(fixture.store, { name: 'research' }, by())
  await fixture.signIn('member', 'mia', 'research')
  const [mia] = await fixture.identity.readAdmins()
  await createKey(fixture.store, { name: 'of mia', team: 'research', ownerId: mia?.id ?? '' }, by())
  await editAdmin(fixture.identity, 'mia', { role: 'editor' }, by())
  const own = async () =>
    (await listKeys(fixture.store, fixture.clock.ms)).map(({ status, teamId }) => [status, teamId])
  expect(await own()).toEqual([['active', team.id]])
  await editAdmin(fixture.identity, 'mia', { disabled: true }, by())
  expect(await own()).toEqual([['revoked', team.id]])
})

test("a member's own keys move with them to another team", async () => {
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
    await expect(editAdmin(fixture.identity, 'ann', changes, by())).rejects.toThrow(
      'At least one owner must be able to sign in.',
    )
  await fixture.createBrowser().ask('POST', '/code', { body: { name: 'bob', code, password: PASSWORD } })
  expect((await editAdmin(fixture.identity, 'ann', { role: 'editor' }, by())).admin.role).toBe('editor')
})

test("an owner without an available sign-in method doesn't count as the last one", async () => {
  const { identity } = fixture
  const ann = await fixture.signIn('owner', 'ann')
  const { admin } = await inviteAdmin(identity, { name: 'bob', role: 'owner' }, by())
  const bob = { ...admin, oidcSubject: 'https://login.example.com bob' }
  const change = { action: 'admins.edit' as const, subject: bob.id, detail: {}, write: { admins: [bob] } }
  await identity.changeIdentity(by(), () => ({ value: null, change }))
  const id = (await identity.readAdmins())[0]?.id
  expect((await ann.ask('PATCH', `/admins/${id}`, { body: { disabled: true } })).body.error.kind).toBe('last_owner')
  for (const [ways, isSetUpFor] of [
    [['password'], 'ann'],
    [['oidc'], 'bob'],
  ] as const)
    for (const who of ['ann', 'bob']) {
      const editing = editAdmin(identity, who, { role: 'viewer' }, by(), ways)
      if (who === isSetUpFor) await expect(editing).rejects.toThrow('At least one owner must be able to sign in.')
      else {
        await editing
        await editAdmin(identity, who, { role: 'owner' }, by(), ways)
      }
    }
})

test('changes of users are recorded, with their actor', async () => {
  await fixture.signIn('owner', 'ann')
  await inviteAdmin(fixture.identity, { name: 'bob', role: 'viewer' }, by())
  await editAdmin(fixture.identity, 'bob', { role: 'editor' }, { ...by(), actor: 'ann' })
  const rows = await fixture.store.readAudit()
  expect(rows.map(({ action, actor, detail }) => [action, actor, detail.name])).toEqual([
    ['admins.edit', 'ann', 'bob'],
    ['admins.create', 'test', 'bob'],
    ['sessions.begin', expect.any(String), 'ann'],
    ['admins.password', 'test', 'ann'],
    ['admins.create', 'test', 'ann'],
  ])
})
