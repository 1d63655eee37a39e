/** Edits of a key: the result, what is rejected, and what the audit log has. */

import { beforeEach, describe, expect, test } from 'bun:test'
import type { KeyChanges } from '../../src/keys/definition.ts'
import { createKey, createTeam, decideKey, editKey, listKeys, revokeKey } from '../../src/keys/service.ts'
import type { ConfigStore } from '../../src/store/config-store.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { createFolder } from '../ledger/fixture.ts'
import { forEachTest } from '../support/lifetime.ts'

let store: ConfigStore
const folder = forEachTest(createFolder)
beforeEach(() => {
  store = createConfigStore(folder.database)
})

const by = (nowMs: number) => ({ actor: 'test', nowMs })
const failureOf = (promise: Promise<unknown>) => promise.then(String, (error) => error.failure)

/** Every field of a key, and the value that removes it. */
const ALL = {
  name: 'new',
  scope: 'local',
  models: ['a/*', 'b/c'],
  allowedIps: ['10.0.0.0/8'],
  team: 'Blue',
  expiresMs: 9_000,
  rpm: 1,
  tpm: 2,
  concurrency: 3,
  budget: { nanoUsd: 20, period: 'month' },
  metadata: { owner: 'ann', room: '7' },
} satisfies KeyChanges
const NONE = {
  ...{
    name: 'dev',
    scope: 'all',
    models: [],
    allowedIps: [],
    team: null,
    expiresMs: null,
    budget: null,
    metadata: null,
  },
  ...{ rpm: null, tpm: null, concurrency: null },
} satisfies KeyChanges

test('each field can be set and removed, on its own and with all others, and nothing else changes', async () => {
  await createTeam(store, { name: 'Blue' }, by(1))
  const { key } = await createKey(store, { name: 'dev' }, by(2))
  for (const property of Object.keys(ALL) as (keyof KeyChanges)[]) {
    const set = await editKey(store, key.id, { [property]: ALL[property] }, by(3))
    expect(set.difference, property).not.toBeNull()
    expect(await listKeys(store, 3)).toEqual([set.key])
    const undone = await editKey(store, key.id, { [property]: NONE[property] }, by(3))
    expect(undone.key, property).toEqual(key)
  }
  const { key: changed } = await editKey(store, key.id, ALL, by(3))
  expect(await listKeys(store, 3)).toEqual([changed])
  expect(changed).toMatchObject({ id: key.id, createdMs: 2, secrets: key.secrets, name: 'new', team: 'Blue' })
  expect((await editKey(store, 'new', NONE, by(3))).key).toEqual(key)
})

test('changes are recorded with old and new values; no change leaves no record', async () => {
  const { key } = await createKey(store, { name: 'dev', rpm: 5, metadata: { owner: 'ann' } }, by(1))
  const { revision } = await store.read()
  const changes: KeyChanges = { rpm: 5, budget: { nanoUsd: 7, period: 'day' }, metadata: { room: '7' } }
  const { difference } = await editKey(store, 'dev', changes, { actor: 'ann', nowMs: 50 })
  expect(difference).toEqual({
    before: { budget_nano_usd: null, budget_period: null, metadata: { owner: 'ann' } },
    after: { budget_nano_usd: 7, budget_period: 'day', metadata: { owner: 'ann', room: '7' } },
  })
  const again = await editKey(store, 'dev', changes, by(60))
  expect([again.difference, (await store.read()).revision]).toEqual([null, revision + 1])
  expect(await store.readAudit({ action: 'keys.edit' })).toEqual([
    expect.objectContaining({
      ...{ atMs: 50, actor: 'ann', action: 'keys.edit', subject: key.id },
      detail: { name: 'dev', ...difference },
    }),
  ])
})

test('one metadata entry can be removed on its own', async () => {
  await createKey(store, { name: 'dev', metadata: { owner: 'ann', room: '7' } }, by(1))
  const { key } = await editKey(store, 'dev', { metadata: { owner: null, nobody: null } }, by(2))
  expect(key.metadata).toEqual({ room: '7' })
})

describe('a rejected edit changes nothing', () => {
  test.each<[string, KeyChanges]>([
    ['name', { name: '' }],
    ['name', { name: 'dev ' }],
    ['models', { models: ['a b'] }],
    ['models', { models: Array.from({ length: 201 }, (_, i) => `acme/${i}`) }],
    ['tpm', { tpm: 0 }],
    ['budget', { budget: { nanoUsd: 0.5, period: 'day' } }],
    ['expires_ms', { expiresMs: Number.NaN }],
    ['metadata', { metadata: { 'two words': 'x' } }],
    ['metadata', { metadata: { empty: '' } }],
    ['metadata', { metadata: { long: 'x'.repeat(513) } }],
    // There are four already.
    ['metadata', { metadata: Object.fromEntries(Array.from({ length: 13 }, (_, i) => [`n${i}`, 'x'])) }],
  ])('a wrong %s: %o', async (field, wrong) => {
    await createKey(store, { name: 'dev', metadata: { a: '1', b: '2', c: '3', d: '4' } }, by(1))
    const before = await store.read()
    expect(await failureOf(editKey(store, 'dev', { concurrency: 9, ...wrong }, by(2)))).toEqual({
      kind: 'invalid',
      field,
    })
    expect(await store.read()).toEqual(before)
  })

  test('an unknown team, and a revoked key', async () => {
    await createKey(store, { name: 'dev' }, by(1))
    expect(await failureOf(editKey(store, 'dev', { team: 'Red' }, by(2)))).toMatchObject({ kind: 'team_not_found' })
    await revokeKey(store, 'dev', by(3))
    expect(await failureOf(editKey(store, 'dev', { expiresMs: null }, by(4)))).toMatchObject({ kind: 'key_revoked' })
  })
})

describe('a name', () => {
  test('of another active key is rejected, and free once that key is revoked or expired', async () => {
    const { key: taken } = await createKey(store, { name: 'dev', expiresMs: 100 }, by(1))
    await createKey(store, { name: 'other' }, by(2))
    const rename = (nowMs: number) => editKey(store, 'other', { name: 'dev' }, by(nowMs))
    expect(await failureOf(rename(99))).toEqual({ kind: 'key_exists', key: 'dev', id: taken.id })
    expect((await rename(100)).key.name).toBe('dev')
    // The expired one doesn't return under a name that is now taken.
    const revive = (changes: KeyChanges) => editKey(store, taken.id, { expiresMs: 500, ...changes }, by(101))
    expect(await failureOf(revive({}))).toMatchObject({ kind: 'key_exists' })
    expect((await revive({ name: 'back' })).key.status).toBe('active')
  })

  test("shared from before names were unique doesn't keep either key from being edited by ID", async () => {
    for (const nowMs of [1, 2]) await store.changeKeys(by(nowMs), (rows) => decideKey(rows, { name: 'dev' }, by(nowMs)))
    const [first] = await listKeys(store, 3)
    expect(await failureOf(editKey(store, 'dev', { concurrency: 1 }, by(3)))).toMatchObject({ kind: 'key_ambiguous' })
    const { key } = await editKey(store, String(first?.id), { name: 'dev', concurrency: 1 }, by(3))
    expect(key.limits.concurrency).toBe(1)
    expect((await editKey(store, String(first?.id), { name: 'mine' }, by(3))).key.name).toBe('mine')
  })
})
