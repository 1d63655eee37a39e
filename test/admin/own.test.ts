/** Members: keys of their own, within what their team allows, and nothing of anybody else's. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { editAdmin } from '../../src/identity/admins.ts'
import { createKey } from '../../src/keys/service.ts'
import { createTeam } from '../../src/keys/teams.ts'
import { applyText } from './catalogs.ts'
import { type Browser, createFixture, type Fixture } from './fixture.ts'

let fixture: Fixture
let mia: Browser
beforeEach(async () => {
  fixture = createFixture()
  const team = { name: 'research', maxKeys: 2, models: ['demo/*'], metadata: { contact: 'secret' } }
  await createTeam(fixture.store, team, by())
  mia = await fixture.signIn('member', 'mia', 'research')
})
afterEach(() => fixture.close())

const by = () => ({ actor: 'test', nowMs: fixture.clock.ms })
const create = (browser: Browser, name: string, more = {}) =>
  browser.ask('POST', '/own/keys', { body: { name, ...more } })
const namesOf = (keys: { name: string }[]) => keys.map(({ name }) => name)

test('a key of their own is made in their team, edited, rotated and revoked, on record under their id', async () => {
  const made = (await create(mia, 'laptop', { rpm: 60 })).body
  const [admin] = await fixture.identity.readAdmins()
  expect([made.team, made.owner_id, made.rpm]).toEqual(['research', String(admin?.id), 60])
  expect(made.key).toMatch(/^sk-tg-/)
  const patch = { name: 'desk', rpm: null, models: ['demo/small'], expires_ms: fixture.clock.ms + 1_000 }
  expect((await mia.ask('PATCH', `/own/keys/${made.id}`, { body: patch })).body).toMatchObject(patch)
  expect((await mia.ask('POST', `/own/keys/${made.id}/rotate`, { body: {} })).body.secrets).toHaveLength(2)
  const { keys } = (await mia.ask('GET', '/own/keys')).body
  expect(keys).toEqual([(await mia.ask('GET', `/own/keys/${made.id}`)).body])
  expect((await mia.ask('POST', `/own/keys/${made.id}/revoke`)).body.status).toBe('revoked')
  const rows = await fixture.store.readAudit({ subjects: [made.id] })
  expect(rows.map(({ action, actor }) => [action, actor])).toEqual(
    ['keys.revoke', 'keys.rotate', 'keys.edit', 'keys.create'].map((action) => [action, String(admin?.id)]),
  )
})

test('a member comes to no key of another member, of the team, or of nobody, by whatever names it', async () => {
  const eve = await fixture.signIn('member', 'eve', 'research')
  const own = (await create(mia, 'mine')).body
  const theirs = (await create(eve, 'hers')).body
  const { key: shared } = await createKey(fixture.store, { name: 'shared', team: 'research' }, by())
  const { key: other } = await createKey(fixture.store, { name: 'other' }, by())
  const before = await fixture.store.readKeys()
  for (const key of [theirs, shared, other]) {
    const lastFour = before.keys.find(({ id }) => id === key.id)?.secrets[0]?.lastFour ?? ''
    for (const which of [key.id, key.id.slice(-8), key.name, lastFour, encodeURIComponent(`sk-tg-…${lastFour}`)]) {
      const asked = [
        ['GET', `/own/keys/${which}`],
        ['PATCH', `/own/keys/${which}`, { name: 'taken over' }],
        ['POST', `/own/keys/${which}/rotate`, {}],
        ['POST', `/own/keys/${which}/revoke`],
      ] as const
      for (const [method, path, body] of asked) {
        const answer = await mia.ask(method, path, { body })
        expect([method, path, answer.status, answer.body.error?.kind]).toEqual([method, path, 404, 'key_not_found'])
      }
    }
  }
  expect(await fixture.store.readKeys()).toEqual(before)
  expect((await mia.ask('GET', '/own/keys')).body.keys).toEqual([(await mia.ask('GET', `/own/keys/${own.id}`)).body])
})

test.each([
  ['another team', { team: 'other' }],
  ['another owner', { owner_id: 'eve' }],
])("%s cannot be given to a key of one's own", async (_, field) => {
  expect((await create(mia, 'laptop', field)).status).toBe(400)
  const { id } = (await create(mia, 'laptop')).body
  expect((await mia.ask('PATCH', `/own/keys/${id}`, { body: field })).status).toBe(400)
})

test('no more keys are in force than the team allows, also where one that had expired is to go on', async () => {
  const expires_ms = fixture.clock.ms + 1_000
  const first = (await create(mia, 'first', { expires_ms })).body
  await create(mia, 'second')
  const third = await create(mia, 'third')
  expect([third.status, third.body.error.kind, third.body.error.most]).toEqual([409, 'too_many_keys', 2])
  fixture.clock.ms = expires_ms
  expect((await create(mia, 'third')).status).toBe(200)
  const again = await mia.ask('PATCH', `/own/keys/${first.id}`, { body: { expires_ms: null } })
  expect(again.body.error.kind).toBe('too_many_keys')
  const others = await fixture.signIn('member', 'eve', 'research')
  expect((await create(others, 'hers')).status).toBe(200)
})

test('a name that a key of somebody else has is refused, without a word of whose it is', async () => {
  const { key } = await createKey(fixture.store, { name: 'production', metadata: { of: 'ops' } }, by())
  const { status, body } = await create(mia, 'production')
  expect([status, body.error]).toEqual([
    400,
    { kind: 'invalid', message: 'This name is taken: choose another one.', field: 'name' },
  ])
  const { id } = (await create(mia, 'laptop')).body
  const renamed = await mia.ask('PATCH', `/own/keys/${id}`, { body: { name: 'production' } })
  expect(JSON.stringify(renamed.body)).not.toContain(key.id.slice(-8))
  expect(renamed.status).toBe(400)
})

test('they are told what their team may use, and nothing that is noted beside it', async () => {
  const facts = 'context_length: 100, max_output_length: 50, input_modalities: [text], output_modalities: [text]'
  await applyText(
    fixture,
    `version: 1
upstreams: { here: { dialect: demo, local: true } }
models:
  demo/small: { name: S, ${facts}, supported_features: [], routes: [{ upstream: here, model: m }] }
  other/large: { name: L, ${facts}, supported_features: [], routes: [{ upstream: here, model: m }] }
`,
  )
  const { models } = (await mia.ask('GET', '/own/models')).body
  expect(models).toMatchObject([{ id: 'demo/small', is_ready: true }])
  const { body } = await mia.ask('GET', '/own/team')
  expect(body).toMatchObject({ name: 'research', models: ['demo/*'], max_keys: 2, spent_total_nano_usd: 0 })
  expect(JSON.stringify(body)).not.toContain('secret')
})

test('who has no team is told why there is nothing of their own', async () => {
  for (const role of ['owner', 'editor', 'viewer'] as const) {
    const browser = await fixture.signIn(role)
    for (const path of ['/own/keys', '/own/team', '/own/models']) {
      const { status, body } = await browser.ask('GET', path)
      expect([role, path, status, body.error.kind]).toEqual([role, path, 403, 'no_team'])
    }
    expect((await create(browser, 'laptop')).body.error.kind).toBe('no_team')
  }
})

test('nothing is made for somebody who is disabled while their request is on its way', async () => {
  const { changeIdentity } = fixture.identity
  fixture.identity.changeIdentity = async (actor, decide) => {
    fixture.identity.changeIdentity = changeIdentity
    await editAdmin(fixture.identity, 'mia', { disabled: true }, by())
    return changeIdentity(actor, decide)
  }
  expect((await create(mia, 'late')).body.error.kind).toBe('no_team')
  expect(namesOf((await fixture.store.readKeys()).keys)).toEqual([])
})
