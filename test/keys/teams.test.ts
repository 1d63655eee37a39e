/** Teams in the tables: what is stored, what is refused, and how one is found. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { NO_LIMITS } from '../../src/domain/settings.ts'
import { findTeam } from '../../src/keys/find.ts'
import { createTeam, listTeams } from '../../src/keys/teams.ts'
import type { ConfigStore } from '../../src/store/config-store.ts'
import { toSnapshot } from '../../src/store/snapshot.ts'
import { createConfigStore, toTables } from '../../src/store/sqlite/config-store.ts'
import { audit } from '../../src/store/sqlite/schema.ts'
import { createFolder, type Folder } from '../ledger/fixture.ts'

let folder: Folder
let store: ConfigStore
let tables: ReturnType<typeof toTables>
beforeEach(() => {
  folder = createFolder()
  store = createConfigStore(folder.database)
  tables = toTables(folder.database)
})
afterEach(() => folder.close())

const by = (nowMs: number) => ({ actor: 'test', nowMs })

test('a team is a change of configuration, which a running server sees', async () => {
  const before = (await store.read()).revision
  const team = await createTeam(store, { name: 'Blue', budget: { nanoUsd: 7, period: 'week' } }, by(50))
  const { revision, teams } = toSnapshot(await store.read(), {})
  expect(revision).toBe(before + 1)
  expect([...teams.values()]).toEqual([
    { id: team.id, name: 'Blue', scope: 'all', models: [], limits: NO_LIMITS, budget: { nanoUsd: 7, period: 'week' } },
  ])
  expect(tables.select().from(audit).all()).toMatchObject([
    { atMs: 50, actor: 'test', action: 'teams.create', subject: team.id, detail: { name: 'Blue' } },
  ])
})

test('a second team of the same name is refused with the first one’s id, and leaves nothing behind', async () => {
  const first = await createTeam(store, { name: 'Blue' }, by(1))
  const { revision } = toSnapshot(await store.read(), {})
  await expect(createTeam(store, { name: 'Blue' }, by(2))).rejects.toThrow(
    `There is a team 'Blue' already (${first.id.slice(-8)})`,
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

test('a team is found by its name, its id or a part of that, by the id if both could be meant', async () => {
  const blue = await createTeam(store, { name: 'Blue' }, by(1))
  const find = async (idOrName: string) => findTeam(await listTeams(store), idOrName)
  const { id } = blue
  for (const which of ['Blue', id, id.slice(-8), id.slice(-8, -2), id.slice(0, 6)])
    expect(await find(which)).toEqual(blue)
  await createTeam(store, { name: blue.id }, by(2))
  expect(await find(blue.id)).toEqual(blue)
  await expect(find('blue')).rejects.toThrow("There is no team 'blue'")
})
