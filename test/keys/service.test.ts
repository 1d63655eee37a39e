/** Keys in the database: what is stored, and the effect of revoking. */

import { beforeEach, describe, expect, test } from 'bun:test'
import { eq } from 'drizzle-orm'
import { createFirstKey, createKey, createTeam, listKeys, revokeKey } from '../../src/keys/service.ts'
import { hashToken } from '../../src/keys/token.ts'
import type { ConfigStore } from '../../src/store/config-store.ts'
import { toSnapshot } from '../../src/store/snapshot.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { audit, keySecrets, settings } from '../../src/store/sqlite/schema.ts'
import { toTables } from '../../src/store/sqlite/tables.ts'
import { createFolder } from '../ledger/fixture.ts'
import { forEachTest } from '../support/lifetime.ts'

let store: ConfigStore
let tables: ReturnType<typeof toTables>
const folder = forEachTest(createFolder)
beforeEach(() => {
  store = createConfigStore(folder.database)
  tables = toTables(folder.database)
})

const by = (nowMs: number) => ({ actor: 'test', nowMs })
const revision = () => tables.select().from(settings).where(eq(settings.key, 'config_revision')).get()?.value

describe('createKey', () => {
  test("stores every option, but only the secret's hash and last four characters", async () => {
    const team = await createTeam(store, { name: 'Blue' }, by(1))
    const { key, secret } = await createKey(
      store,
      {
        name: 'dev',
        models: ['openai/*', 'openai/*', 'a/b'],
        allowedIps: ['10.0.0.0/8', '2001:DB8:0::1', '::ffff:10.0.0.0/104'],
        scope: 'local',
        team: 'Blue',
        expiresMs: 9_000,
        rpm: 1,
        tpm: 2,
        concurrency: 3,
        budget: { nanoUsd: 20_000_000_000, period: 'month' },
      },
      by(1_000),
    )
    expect(key).toMatchObject({
      name: 'dev',
      scope: 'local',
      teamId: team.id,
      team: 'Blue',
      expiresMs: 9_000,
      status: 'active',
      createdMs: 1_000,
    })
    const held = toSnapshot(await store.read(), {}).secrets.get(hashToken(secret))
    expect(held?.lastFour).toBe(secret.slice(-4))
    expect(held?.key).toMatchObject({
      models: ['openai/*', 'a/b'],
      allowedIps: ['10.0.0.0/8', '2001:db8::1'],
      limits: { rpm: 1, tpm: 2, concurrency: 3 },
      budget: { nanoUsd: 20_000_000_000, period: 'month' },
    })
    expect(
      JSON.stringify([key, tables.select().from(keySecrets).all(), tables.select().from(audit).all()]),
    ).not.toContain(secret)
    expect(revision()).toBe('2')
    expect(await listKeys(store, 2_000)).toEqual([{ ...key, models: expect.arrayContaining(key.models) }])
  })

  test.each([
    ['name', { name: '' }],
    ['name', { name: 'x'.repeat(201) }],
    ['models', { models: ['a b'] }],
    ['allowed_ips', { allowedIps: ['10.1.2.3/8'] }],
    ['allowed_ips', { allowedIps: Array.from({ length: 101 }, (_, i) => `10.0.0.${i}`) }],
    ['rpm', { rpm: 0 }],
    ['concurrency', { concurrency: 1.5 }],
    ['budget', { budget: { nanoUsd: 0, period: 'day' as const } }],
  ])('rejects a wrong %s: %o', async (field, wrong) => {
    const failure = await createKey(store, { name: 'dev', ...wrong }, by(1)).catch((error) => error.failure)
    expect(failure).toEqual({ kind: 'invalid', field })
    expect(await listKeys(store, 2)).toEqual([])
  })

  test('rejects an unknown team and leaves nothing behind', async () => {
    await expect(createKey(store, { name: 'dev', team: 'Red' }, by(1))).rejects.toThrow("There is no team 'Red'")
    expect(await listKeys(store, 2)).toEqual([])
    expect(revision()).toBeUndefined()
  })
})

test('createFirstKey creates one key, and none if there are others', async () => {
  const secret = await createFirstKey(store, { name: 'first key' }, by(1))
  expect(await createFirstKey(store, { name: 'first key' }, by(2))).toBeNull()
  const keys = await listKeys(store, 3)
  expect(keys.map(({ name, secrets }) => [name, secrets[0]?.hash])).toEqual([['first key', hashToken(String(secret))]])
  expect(revision()).toBe('1')
})

describe('revokeKey', () => {
  test('keeps the key listed, oldest first, and reports the second time without a new revision', async () => {
    const { key: first } = await createKey(store, { name: 'first' }, by(1))
    await createKey(store, { name: 'second', expiresMs: 50 }, by(2))
    expect(await revokeKey(store, first.id, by(10))).toMatchObject({
      alreadyRevoked: false,
      key: { status: 'revoked' },
    })
    expect(await revokeKey(store, first.id, by(20))).toMatchObject({ alreadyRevoked: true, key: { revokedMs: 10 } })
    expect(revision()).toBe('3')
    expect((await listKeys(store, 60)).map((key) => [key.name, key.status])).toEqual([
      ['first', 'revoked'],
      ['second', 'expired'],
    ])
  })

  test("accepts a key's masked secret in place of its ID, unless it is ambiguous", async () => {
    const { key, secret } = await createKey(store, { name: 'one' }, by(1))
    const other = await createKey(store, { name: 'other' }, by(2))
    expect((await revokeKey(store, `sk-tg-…${secret.slice(-4)}`, by(3))).key.id).toBe(key.id)
    tables
      .update(keySecrets)
      .set({ lastFour: secret.slice(-4) })
      .where(eq(keySecrets.keyId, other.key.id))
      .run()
    // Over another connection: readers of this one already have the key.
    await expect(revokeKey(createConfigStore(folder.other()), secret.slice(-4), by(4))).rejects.toThrow(
      `matches 2 keys: ${key.id}, ${other.key.id}.`,
    )
  })

  test('names an unknown key without repeating a secret', async () => {
    const { secret } = await createKey(store, { name: 'one' }, by(1))
    await expect(revokeKey(store, 'nope', by(2))).rejects.toThrow("There is no key 'nope'.")
    const end = secret.slice(-3)
    await expect(revokeKey(store, `${secret}x`, by(2))).rejects.toThrow(`There is no key 'sk-tg-…${end}x'.`)
  })
})
