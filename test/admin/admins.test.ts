/** Sign-in accounts and API tokens over the admin API: owners only. */

import { beforeEach, expect, test } from 'bun:test'
import { createTeam } from '../../src/keys/service.ts'
import type { StoredToken } from '../../src/store/identity-store.ts'
import { forEachTest } from '../support/lifetime.ts'
import { type Browser, createFixture, PASSWORD } from './fixture.ts'

let browser: Browser
const fixture = forEachTest(createFixture)
beforeEach(async () => {
  browser = await fixture.signIn('owner')
})

test('an invited user sets a password with the code, gets another role, and is disabled', async () => {
  await createTeam(fixture.store, { name: 'research' }, { actor: 'test', nowMs: fixture.clock.ms })
  const invited = await browser.ask('POST', '/admins', { body: { name: 'Mia', role: 'member', team: 'research' } })
  const { id, code } = invited.body
  expect(invited.body).toMatchObject({ name: 'mia', role: 'member', status: 'invited', code: expect.any(String) })
  expect(invited.body.code_expires_ms).toBeGreaterThan(fixture.clock.ms)
  const theirs = fixture.createBrowser()
  await theirs.ask('POST', '/code', { body: { name: 'mia', code, password: PASSWORD } })
  const edited = await browser.ask('PATCH', `/admins/${id}`, { body: { role: 'viewer' } })
  expect(edited.body).toMatchObject({ role: 'viewer', team_id: null, status: 'active' })
  expect((await theirs.ask('GET', '/keys')).status).toBe(200)
  const disabled = await browser.ask('PATCH', `/admins/${id}`, { body: { disabled: true } })
  expect(disabled.body).toMatchObject({ status: 'disabled', keys_revoked: 0, keys_moved: 0 })
  expect((await theirs.ask('GET', '/keys')).status).toBe(401)
  const listed = (await browser.ask('GET', '/admins')).body
  expect(listed.admins.map(({ name }: { name: string }) => name)).toEqual(['owner', 'mia'])
  for (const secret of [code, 'argon2']) expect(JSON.stringify(listed)).not.toContain(secret)
})

test.each([
  ['no role', { name: 'mia' }, 400, 'invalid'],
  ['a role that is none', { name: 'mia', role: 'root' }, 400, 'invalid'],
  ['a member without a team', { name: 'mia', role: 'member' }, 400, 'invalid'],
  ['a team that is not there', { name: 'mia', role: 'member', team: 'none' }, 404, 'team_not_found'],
  ['a name that is there', { name: 'OWNER', role: 'viewer' }, 409, 'admin_exists'],
])('%s is refused, and nobody is made', async (_, body, status, kind) => {
  const answer = await browser.ask('POST', '/admins', { body })
  expect([answer.status, answer.body.error.kind]).toEqual([status, kind])
  expect((await browser.ask('GET', '/admins')).body.admins).toHaveLength(1)
})

test('a user who has not signed in is invited again, and no one with a password loses it', async () => {
  const first = (await browser.ask('POST', '/admins', { body: { name: 'mia', role: 'viewer' } })).body
  const again = (await browser.ask('POST', `/admins/${first.id}/invite`)).body
  const theirs = fixture.createBrowser()
  const use = (code: string) => theirs.ask('POST', '/code', { body: { name: 'mia', code, password: PASSWORD } })
  expect((await use(first.code)).body.error.kind).toBe('code_wrong')
  expect((await use(again.code)).status).toBe(200)
  const { status, body } = await browser.ask('POST', `/admins/${first.id}/invite`)
  expect([status, body.error.kind]).toEqual([400, 'invalid'])
  expect((await theirs.ask('GET', '/keys')).status).toBe(200)
})

test('the last owner stays an owner, and an unknown user is 404', async () => {
  const demoted = await browser.ask('PATCH', '/admins/owner', { body: { role: 'viewer' } })
  expect([demoted.status, demoted.body.error.kind]).toEqual([409, 'last_owner'])
  const nobody = await browser.ask('POST', '/admins/nobody/invite')
  expect([nobody.status, nobody.body.error.kind]).toEqual([404, 'admin_not_found'])
})

test('a token is created, its secret shown once, used, and revoked', async () => {
  const expires_ms = fixture.clock.ms + 1_000
  const made = await browser.ask('POST', '/tokens', { body: { name: 'ci', scope: 'read', expires_ms } })
  const { id, token: secret } = made.body
  expect(made.body).toMatchObject({ name: 'ci', scope: 'read', expires_ms, revoked_ms: null })
  const script = fixture.createBrowser()
  const headers = { authorization: `Bearer ${secret}` }
  expect((await script.ask('GET', '/keys', { headers })).status).toBe(200)
  const { tokens } = (await browser.ask('GET', '/tokens')).body
  expect(tokens).toEqual([{ ...made.body, token: `sk-tgadm-…${secret.slice(-4)}` }])
  const revoked = await browser.ask('POST', `/tokens/${id}/revoke`)
  expect(revoked.body.revoked_ms).toBe(fixture.clock.ms)
  expect((await script.ask('GET', '/keys', { headers })).body.error.kind).toBe('token_wrong')
  expect((await browser.ask('POST', '/tokens/nothing/revoke')).body.error.kind).toBe('token_not_found')
})

test('names of active tokens are unique, and an ambiguous name revokes no token', async () => {
  const create = (name: string) => browser.ask('POST', '/tokens', { body: { name, scope: 'read' } })
  const { id } = (await create('ci')).body
  const again = await create('ci')
  expect([again.status, again.body.error.kind, again.body.error.id]).toEqual([409, 'token_exists', id])
  expect((await browser.ask('POST', '/tokens/ci/revoke')).body.id).toBe(id)
  const second = (await create('ci')).body
  // Two that share a name from before names were unique.
  const third = { ...(await fixture.identity.readTokens())[1], id: 'f'.repeat(32), hash: 'x' } as StoredToken
  const change = { action: 'tokens.create' as const, subject: third.id, detail: {}, write: { tokens: [third] } }
  await fixture.identity.changeIdentity({ actor: 'test', nowMs: fixture.clock.ms }, () => ({ value: null, change }))
  const refused = await browser.ask('POST', '/tokens/ci/revoke')
  expect([refused.status, refused.body.error.kind]).toEqual([409, 'token_ambiguous'])
  expect(refused.body.error.message).toContain(second.id)
  expect((await browser.ask('POST', `/tokens/${third.id}/revoke`)).body.id).toBe(third.id)
  expect((await browser.ask('POST', '/tokens/ci/revoke')).body.id).toBe(second.id)
})

test('a token with write access creates neither tokens nor users, and sees none', async () => {
  const headers = await fixture.tokenHeaders('write')
  const script = fixture.createBrowser()
  const asked = [
    ['GET', '/tokens'],
    ['POST', '/tokens', { name: 'more', scope: 'write' }],
    ['GET', '/admins'],
    ['POST', '/admins', { name: 'eve', role: 'owner' }],
    ['PATCH', '/admins/owner', { disabled: true }],
    ['POST', '/admins/owner/invite'],
  ] as const
  for (const [method, path, body] of asked) {
    const answer = await script.ask(method, path, { headers, body })
    expect([method, path, answer.body.error?.kind]).toEqual([method, path, 'role_too_small'])
  }
})
