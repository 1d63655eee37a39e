/** Teams in the tables: what is stored, what is refused, and how one is found. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { createTeam, findTeam, listTeams } from '../../src/keys/teams.ts'
import { type Store, toStore } from '../../src/store/sqlite/open.ts'
import { audit } from '../../src/store/sqlite/schema.ts'
import { loadSnapshot } from '../../src/store/sqlite/snapshot.ts'
import { createFolder, type Folder } from '../ledger/fixture.ts'

let folder: Folder
let store: Store
beforeEach(() => {
  folder = createFolder()
  store = toStore(folder.database)
})
afterEach(() => folder.close())

const by = (nowMs: number) => ({ actor: 'test', nowMs })

test('a team is a change of configuration, which a running server sees', () => {
  const before = loadSnapshot(store, {}).revision
  const team = createTeam(store, { name: 'Blue', budget: { nanoUsd: 7, period: 'week' } }, by(50))
  const { revision, teams } = loadSnapshot(store, {})
  expect(revision).toBe(before + 1)
  expect([...teams.values()]).toEqual([{ id: team.id, name: 'Blue', budget: { nanoUsd: 7, period: 'week' } }])
  expect(store.select().from(audit).all()).toMatchObject([
    { atMs: 50, actor: 'test', action: 'teams.create', subject: team.id, detail: { name: 'Blue' } },
  ])
})

test('a second team of the same name is refused with the first one’s id, and leaves nothing behind', () => {
  const first = createTeam(store, { name: 'Blue' }, by(1))
  const { revision } = loadSnapshot(store, {})
  expect(() => createTeam(store, { name: 'Blue' }, by(2))).toThrow(`There is a team 'Blue' already (${first.id})`)
  expect([listTeams(store), loadSnapshot(store, {}).revision]).toEqual([[first], revision])
  expect(store.select().from(audit).all()).toHaveLength(1)
})

test('teams are listed oldest first', () => {
  for (const [name, atMs] of [
    ['later', 20],
    ['first', 10],
    ['last', 30],
  ] as const)
    createTeam(store, { name }, by(atMs))
  expect(listTeams(store).map(({ name }) => name)).toEqual(['first', 'later', 'last'])
})

test('a team is found by its name or its id, by the id if both could be meant', () => {
  const blue = createTeam(store, { name: 'Blue' }, by(1))
  expect([findTeam(store, 'Blue'), findTeam(store, blue.id)]).toEqual([blue, blue])
  createTeam(store, { name: blue.id }, by(2))
  expect(findTeam(store, blue.id)).toEqual(blue)
  expect(() => findTeam(store, 'blue')).toThrow("There is no team 'blue'")
})
