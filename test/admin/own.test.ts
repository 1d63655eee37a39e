/** Members manage only their own keys, within their team's limits. */

import { beforeEach, expect, test } from 'bun:test'
import { editAdmin } from '../../src/identity/admins.ts'
import { createKey, createTeam } from '../../src/keys/service.ts'
import { forEachTest } from '../support/lifetime.ts'
import { applyText } from './catalogs.ts'
import { type Browser, createFixture } from './fixture.ts'

let mia: Browser
const fixture = forEachTest(createFixture)
beforeEach(async () => {
  const team = { name: 'research', maxKeys: 2, models: ['demo/*'], metadata: { contact: 'secret' } }
  await createTeam(fixture.store, team, by())
  mia = await fixture.signIn('member', 'mia', 'research')
})

const by = () => ({ actor: 'test', nowMs: fixture.clock.ms })
const create = (browser: Browser, name: string, more = {}) =>
  browser.ask('POST', '/own/keys', { body: { name, ...more } })
const namesOf = (keys: { name: string }[]) => keys.map(({ name }) => name)

test("a member's key is created in their team, edited, rotated, and revoked, and recorded with their ID", async () => {
  const made = (await create(mia, 'laptop', { rpm: 60 })).body
  const [admin] = await fixture.identity.readAdmins()
  expect([made.team, made.owner_id, made.rpm]).toEqual(['research', String(admin?.id), 60])
  expect(made.key).toMatch(/^sk-tg-/)
  const patch = { name: 'desk', rpm: null, models: ['demo/small'], expires_ms: fixture.clock.ms + 1_000 }
  expect((await mia.ask('PATCH', `/own/keys/${made.id}`, { body: patch })).body).toMatchObject(patch)
  expect((await mia.ask('POST', `/own/keys/${made.id}/rotate`, { body: {} })).body.secrets).toHaveLength(2)
  const { body: ended } = await mia.ask('POST', `/own/keys/${made.id}/end-overlap`)
  expect(ended.secrets[0].expires_ms).toBe(fixture.clock.ms)
  const { keys } = (await mia.ask('GET', '/own/keys')).body
  expect(keys).toEqual([(await mia.ask('GET', `/own/keys/${made.id}`)).body])
  expect((await mia.ask('POST', `/own/keys/${made.id}/revoke`)).body.status).toBe('revoked')
  const rows = await fixture.store.readAudit({ subjects: [made.id] })
  expect(rows.map(({ action, actor }) => [action, actor])).toEqual(
    ['keys.revoke', 'keys.end_overlap', 'keys.rotate', 'keys.edit', 'keys.create'].map((action) => [
      action,
      String(admin?.id),
    ]),
  )
})

test("a member can't use the key of another member, of the team, or of no owner, by any name", async () => {
  const eve = await fixture.signIn('member', 'eve', 'research')
  const own = (await create(mia, 'mine')).body
  const theirs = (await create(eve, 'hers')).body
  const { key: shared } = await createKey(fixture.store, { name: 'shared', team: 'research' }, by())
  const { key: other } = await createKey(fixture.store, { name: 'other' }, by())
  const before = await fixture.store.readKeys()
  for (const key of [theirs, shared, other]) {
    fixture.clock.ms += 60_000
    const lastFour = before.keys.find(({ id }) => id === key.id)?.secrets[0]?.lastFour ?? ''
    for (const which of [key.id, key.id.slice(-8), key.name, lastFour, encodeURIComponent(`sk-tg-…${lastFour}`)]) {
      const asked = [
        ['GET', `/own/keys/${which}`],
        ['PATCH', `/own/keys/${which}`, { name: 'taken over' }],
        ['POST', `/own/keys/${which}/rotate`, {}],
        ['POST', `/own/keys/${which}/end-overlap`, undefined],
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

test("the team's limit of active keys holds, even if an expired one is extended", async () => {
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

const MONTH = { budget_nano_usd: 20, budget_period: 'month' }

/** The editor's value, allowed changes, and refused ones. */
const CEILINGS: [field: string, set: object, lower: object[], higher: object[]][] = [
  ['rpm', { rpm: 60 }, [{ rpm: 59 }, { rpm: 60 }], [{ rpm: 61 }, { rpm: null }]],
  ['tpm', { tpm: 600 }, [{ tpm: 1 }], [{ tpm: 601 }, { tpm: null }]],
  ['concurrency', { concurrency: 2 }, [{ concurrency: 1 }], [{ concurrency: 3 }, { concurrency: null }]],
  [
    'budget',
    MONTH,
    [
      { ...MONTH, budget_nano_usd: 19 },
      { ...MONTH, budget_period: 'total' },
    ],
    [{ ...MONTH, budget_nano_usd: 21 }, { budget_nano_usd: 1, budget_period: 'day' }, { budget_nano_usd: null }],
  ],
  ['scope', { scope: 'local' }, [{ scope: 'local' }], [{ scope: 'all' }]],
  [
    'models',
    { models: ['openai/*', 'a/b'] },
    [{ models: ['openai/gpt-*'] }, { models: ['a/b', 'openai/x'] }],
    [{ models: [] }, { models: ['*'] }, { models: ['openai/x', 'a/*'] }, { models: ['openai*'] }],
  ],
  [
    'allowed_ips',
    { allowed_ips: ['10.0.0.0/8', '2001:db8::/32'] },
    [{ allowed_ips: ['10.1.0.0/16', '2001:db8::7'] }],
    [{ allowed_ips: [] }, { allowed_ips: ['0.0.0.0/0'] }, { allowed_ips: ['10.0.0.0/7'] }, { allowed_ips: ['::/0'] }],
  ],
  ['expires_ms', { expires_ms: 9e12 }, [{ expires_ms: 8e12 }], [{ expires_ms: 9e12 + 1 }, { expires_ms: null }]],
]

test.each(CEILINGS)(
  'what an editor has set of %s their member lowers and never lifts',
  async (field, set, lower, higher) => {
    const editor = await fixture.signIn('editor')
    const { id } = (await create(mia, 'laptop')).body
    const own = (body: object) => mia.ask('PATCH', `/own/keys/${id}`, { body })
    // If no one else set anything, the member controls all.
    for (const body of [
      ...lower,
      ...higher.filter((one) => !('allowed_ips' in one && JSON.stringify(one).includes('/7'))),
    ])
      expect([body, (await own(body)).status]).toEqual([body, 200])
    const { ceilings } = (await editor.ask('PATCH', `/keys/${id}`, { body: set })).body
    expect(ceilings).toEqual(set)
    for (const body of lower) {
      expect([body, (await own(body)).status]).toEqual([body, 200])
      for (const lift of higher) {
        const { status, body: answer } = await own(lift)
        expect([lift, status, answer.error.kind, answer.error.field]).toEqual([lift, 403, 'above_ceiling', field])
        const told = Object.keys(set).length > 1 ? set : Object.values(set)[0]
        expect([lift, answer.error.ceiling]).toEqual([lift, told])
      }
    }
    // A rotation or new name lifts no limit.
    expect((await own({ name: 'desk', metadata: { of: 'mia' } })).status).toBe(200)
    const rotated = (await mia.ask('POST', `/own/keys/${id}/rotate`, { body: {} })).body
    expect(rotated.ceilings).toEqual(set)
    const freed = Object.fromEntries(Object.keys(set).map((name) => [name, FREE[name] ?? null]))
    const { budget_period: _, ...free } = freed
    expect((await editor.ask('PATCH', `/keys/${id}`, { body: free })).body.ceilings).toEqual({})
    for (const body of higher.slice(0, 1)) expect([body, (await own(body)).status]).toEqual([body, 200])
  },
)

const FREE: Record<string, unknown> = { scope: 'all', models: [], allowed_ips: [] }

test('a key that an editor has limited still counts when its member revokes it or lets it expire', async () => {
  const editor = await fixture.signIn('editor')
  const [revoked, ended] = [(await create(mia, 'revoked')).body, (await create(mia, 'ended')).body]
  for (const { id } of [revoked, ended]) await editor.ask('PATCH', `/keys/${id}`, { body: { rpm: 1 } })
  await mia.ask('POST', `/own/keys/${revoked.id}/revoke`)
  // A past expiry doesn't free the key either.
  const past = { expires_ms: fixture.clock.ms - 40 * 86_400_000 }
  const { status, body } = await mia.ask('PATCH', `/own/keys/${ended.id}`, { body: past })
  expect([status, body.error.field]).toEqual([400, 'expires_ms'])
  await mia.ask('PATCH', `/own/keys/${ended.id}`, { body: { expires_ms: fixture.clock.ms } })
  const refused = await create(mia, 'without limits')
  expect([refused.status, refused.body.error.kind]).toEqual([409, 'too_many_keys'])
  expect(refused.body.error.message).toContain('31 days')
  // Its member may reinstate an expired key, with its limits.
  const again = await mia.ask('PATCH', `/own/keys/${ended.id}`, { body: { expires_ms: null } })
  expect([again.status, again.body.rpm]).toEqual([200, 1])
  fixture.clock.ms += 32 * 86_400_000
  mia = await fixture.signIn('member', 'mia2', 'research')
  expect((await create(mia, 'later')).status).toBe(200)
})

test("another user's key name is refused, without revealing whose it is", async () => {
  const { key } = await createKey(fixture.store, { name: 'production', metadata: { of: 'ops' } }, by())
  const { status, body } = await create(mia, 'production')
  expect([status, body.error]).toEqual([
    400,
    { kind: 'invalid', message: 'This name is taken. Choose another.', field: 'name' },
  ])
  const { id } = (await create(mia, 'laptop')).body
  const renamed = await mia.ask('PATCH', `/own/keys/${id}`, { body: { name: 'production' } })
  expect(JSON.stringify(renamed.body)).not.toContain(key.id.slice(-8))
  expect(renamed.status).toBe(400)
})

test("members see their team's permissions, but not its notes", async () => {
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

test('a member without a team is told why they have nothing', async () => {
  for (const role of ['owner', 'editor', 'viewer'] as const) {
    const browser = await fixture.signIn(role)
    for (const path of ['/own/keys', '/own/team', '/own/models']) {
      const { status, body } = await browser.ask('GET', path)
      expect([role, path, status, body.error.kind]).toEqual([role, path, 403, 'no_team'])
    }
    expect((await create(browser, 'laptop')).body.error.kind).toBe('no_team')
  }
})

test('nothing is created for a user who is disabled during their request', async () => {
  const { changeIdentity } = fixture.identity
  fixture.identity.changeIdentity = async (actor, decide) => {
    fixture.identity.changeIdentity = changeIdentity
    await editAdmin(fixture.identity, 'mia', { disabled: true }, by())
    return changeIdentity(actor, decide)
  }
  expect((await create(mia, 'late')).body.error.kind).toBe('no_team')
  expect(namesOf((await fixture.store.readKeys()).keys)).toEqual([])
})

test('changes are limited per user: in a loop the next one waits, others do not, and every session can be ended', async () => {
  const other = await fixture.signIn('member', 'eve', 'research')
  const { id } = (await create(mia, 'laptop')).body
  const rename = (n: number) => mia.ask('PATCH', `/own/keys/${id}`, { body: { name: `laptop ${n}` } })
  const statuses = []
  for (let n = 1; n < 30; n++) statuses.push((await rename(n)).status)
  expect(new Set(statuses)).toEqual(new Set([200]))
  const before = await fixture.store.readAudit()
  for (const answer of [await rename(30), await mia.ask('POST', `/own/keys/${id}/revoke`), await create(mia, 'more')]) {
    expect([answer.status, answer.body.error.kind]).toEqual([429, 'too_many_changes'])
    expect(answer.headers.get('retry-after')).toBe('2')
  }
  expect(await fixture.store.readAudit()).toEqual(before)
  expect((await create(other, 'hers')).status).toBe(200)
  expect((await mia.ask('GET', '/own/keys')).status).toBe(200)
  fixture.clock.ms += 2_000
  expect([(await rename(31)).status, (await rename(32)).status]).toEqual([200, 429])
  expect((await mia.ask('DELETE', '/session')).status).toBe(200)
})
