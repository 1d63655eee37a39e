/** Teams in the database: what is stored, what is rejected, and how one is found. */

import { beforeEach, expect, test } from 'bun:test'
import { NO_LIMITS } from '../../src/domain/limits.ts'
import type { TeamChanges } from '../../src/keys/definition.ts'
import { findTeam } from '../../src/keys/find.ts'
import { createKey, createTeam, editKey, editTeam, listTeams, revokeKey, showTeam } from '../../src/keys/service.ts'
import type { ConfigStore } from '../../src/store/config-store.ts'
import { toSnapshot } from '../../src/store/snapshot.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { audit } from '../../src/store/sqlite/schema.ts'
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

test('a team is a configuration change, which a running server sees', async () => {
  const before = (await store.read()).revision
  const team = await createTeam(store, { name: 'Blue', budget: { nanoUsd: 7, period: 'week' } }, by(50))
  const { revision, teams } = toSnapshot(await store.read(), {})
  expect(revision).toBe(before + 1)
  expect([...teams.values()]).toEqual([
    { id: team.id, name: 'Blue', scope: 'all', models: [], limits: NO_LIMITS, budget: { nanoUsd: 7, period: 'week' } },
  ])
  expect(tables.select().from(audit).all()).toMatchObject([
    {
      ...{ atMs: 50, actor: 'test', action: 'teams.create', subject: team.id },
      detail: { name: 'Blue', before: {}, after: { name: 'Blue', models: [], max_keys: 10, budget_nano_usd: 7 } },
    },
  ])
})

test('a second team of the same name is rejected with the first one’s ID, and leaves nothing behind', async () => {
  const first = await createTeam(store, { name: 'Blue' }, by(1))
  const { revision } = toSnapshot(await store.read(), {})
  await expect(createTeam(store, { name: 'Blue' }, by(2))).rejects.toThrow(
    `A team named 'Blue' already exists (${first.id.slice(-8)})`,
  )
  expect([await listTeams(store), (await store.read()).revision]).toEqual([[first], revision])
  expect(tables.select().from(audit).all()).toHaveLength(1)
})

test('teams are listed oldest first', async () => {
  for (const [name, atMs] of [
    ['later', 20],
    ['first', 10],
    ['last', 30],
  ] as const)
    await createTeam(store, { name }, by(atMs))
  expect((await listTeams(store)).map(({ name }) => name)).toEqual(['first', 'later', 'last'])
})

test('a team is found by name, ID, or part of the ID; the ID wins if both match', async () => {
  const blue = await createTeam(store, { name: 'Blue' }, by(1))
  const find = async (idOrName: string) => findTeam(await listTeams(store), idOrName)
  const { id } = blue
  for (const which of ['Blue', id, id.slice(-8), id.slice(-8, -2), id.slice(0, 6)])
    expect(await find(which)).toEqual(blue)
  await createTeam(store, { name: blue.id }, by(2))
  expect(await find(blue.id)).toEqual(blue)
  await expect(find('blue')).rejects.toThrow("There is no team 'blue'")
  const named = await createTeam(store, { name: id.slice(-8) }, by(3))
  await expect(find(id.slice(-8))).rejects.toThrow(`matches 2 teams: ${id}, ${named.id}.`)
})

/** Every field of a team, and the value that removes it. */
const ALL = {
  ...{ name: 'new', scope: 'local', models: ['a/*', 'b/c'], maxKeys: 3, metadata: { owner: 'ann', room: '7' } },
  ...{ rpm: 1, tpm: 2, concurrency: 3, budget: { nanoUsd: 20, period: 'month' } },
} satisfies TeamChanges
const NONE = {
  ...{ name: 'Blue', scope: 'all', models: [], maxKeys: null, metadata: null },
  ...{ rpm: null, tpm: null, concurrency: null, budget: null },
} satisfies TeamChanges

test('each field can be set and removed, on its own and with all others, and nothing else changes', async () => {
  const team = await createTeam(store, { name: 'Blue', maxKeys: null }, by(1))
  for (const property of Object.keys(ALL) as (keyof TeamChanges)[]) {
    const set = await editTeam(store, team.id, { [property]: ALL[property] }, by(3))
    expect(set.difference, property).not.toBeNull()
    expect(await listTeams(store)).toEqual([set.team])
    expect((await editTeam(store, team.id, { [property]: NONE[property] }, by(3))).team, property).toEqual(team)
  }
  const { team: changed } = await editTeam(store, 'Blue', ALL, by(3))
  expect(await listTeams(store)).toEqual([changed])
  expect((await editTeam(store, 'new', NONE, by(3))).team).toEqual(team)
})

test('changes are recorded with old and new values; no change leaves no record', async () => {
  const team = await createTeam(store, { name: 'Blue', tpm: 5 }, by(1))
  const { revision } = await store.read()
  const changes: TeamChanges = { tpm: 5, concurrency: 2, maxKeys: null }
  const { difference } = await editTeam(store, 'Blue', changes, { actor: 'ann', nowMs: 50 })
  expect(difference).toEqual({ before: { concurrency: null, max_keys: 10 }, after: { concurrency: 2, max_keys: null } })
  const again = await editTeam(store, 'Blue', changes, by(60))
  expect([again.difference, (await store.read()).revision]).toEqual([null, revision + 1])
  expect(await store.readAudit({ action: 'teams.edit' })).toEqual([
    expect.objectContaining({
      ...{ atMs: 50, actor: 'ann', action: 'teams.edit', subject: team.id },
      detail: { name: 'Blue', ...difference },
    }),
  ])
})

test.each<[string, TeamChanges]>([
  ['name', { name: '' }],
  ['models', { models: ['a b'] }],
  ['max_keys', { maxKeys: 0 }],
  ['concurrency', { concurrency: 1.5 }],
  ['metadata', { metadata: { 'two words': 'x' } }],
])('a wrong %s is rejected, and changes nothing', async (field, wrong) => {
  await createTeam(store, { name: 'Blue' }, by(1))
  const before = await store.read()
  for (const tried of [
    editTeam(store, 'Blue', { rpm: 9, ...wrong }, by(2)),
    createTeam(store, { name: 'Red', ...wrong }, by(2)),
  ])
    await expect(tried).rejects.toMatchObject({ failure: { kind: 'invalid', field } })
  expect(await store.read()).toEqual(before)
})

test("a team can't get another team's name, but may keep its own", async () => {
  const blue = await createTeam(store, { name: 'Blue' }, by(1))
  await createTeam(store, { name: 'Red' }, by(2))
  await expect(editTeam(store, 'Red', { name: 'Blue' }, by(3))).rejects.toMatchObject({
    failure: { kind: 'team_exists', team: 'Blue', id: blue.id },
  })
  expect((await editTeam(store, 'Blue', { name: 'Blue' }, by(3))).difference).toBeNull()
})

test('a team is shown with its current keys', async () => {
  await createTeam(store, { name: 'Blue' }, by(1))
  for (const name of ['one', 'two', 'three']) await createKey(store, { name, team: 'Blue' }, by(2))
  await revokeKey(store, 'two', by(3))
  await editKey(store, 'three', { team: null }, by(3))
  const { team, keys } = await showTeam(store, 'Blue', 4)
  expect([team.name, keys.map(({ name, status }) => [name, status])]).toEqual([
    'Blue',
    [
      ['one', 'active'],
      ['two', 'revoked'],
    ],
  ])
})
