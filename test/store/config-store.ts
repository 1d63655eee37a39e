/** What every store of configuration must do: its contract, as tests. Each implementation runs them with its own stores. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import type { AuditAction } from '../../src/domain/changes.ts'
import { NO_LIMITS } from '../../src/domain/limits.ts'
import { mergeLayers } from '../../src/store/catalog-layers.ts'
import type {
  AliasRow,
  CatalogRows,
  CatalogWrite,
  ModelRow,
  RouteRow,
  UpstreamRow,
} from '../../src/store/catalog-rows.ts'
import type { AuditQuery, ConfigStore, Decided, StoredKey, StoredTeam, Watch } from '../../src/store/config-store.ts'
import { until } from '../support/until.ts'

/** Stores that see the same configuration, as two processes would. */
export interface StorePair {
  store: ConfigStore
  other: ConfigStore
  close(): void | Promise<void>
}

export const BY = { actor: 'test', nowMs: 1_000 }
const RECORD = { action: 'keys.edit' as const, subject: 'it', detail: { why: 'a test' } }

const team = (id: string, more: Partial<StoredTeam> = {}): StoredTeam => ({
  id,
  name: `team ${id}`,
  scope: 'all',
  models: [],
  limits: NO_LIMITS,
  budget: null,
  maxKeys: 10,
  metadata: {},
  createdMs: 1,
  ...more,
})

export const key = (id: string, more: Partial<StoredKey> = {}): StoredKey => ({
  id,
  name: `key ${id}`,
  scope: 'all',
  teamId: null,
  expiresMs: null,
  revokedMs: null,
  ownerId: null,
  hidden: false,
  models: [],
  allowedIps: [],
  ceilings: {},
  limits: NO_LIMITS,
  budget: null,
  metadata: {},
  createdMs: 1,
  secrets: [{ hash: `hash of ${id}`, lastFour: 'abcd', createdMs: 1, expiresMs: null }],
  ...more,
})

const AT = { origin: 'file', createdMs: 1, updatedMs: 1 } as const
export const UPSTREAM: UpstreamRow = {
  ...{ id: 'u', dialect: 'openai', baseUrl: 'http://h/v1', apiKeyRef: null, local: true, enabled: true },
  ...{ deadlines: { idle: 5 }, options: { rpm: 3 }, ...AT },
}
const MODEL: ModelRow = {
  ...{ slug: 'v/m', name: 'M', ownedBy: 'v', contextLength: 10, maxOutputLength: 5, enabled: true },
  ...{ listed: true, fromWildcard: false, fromList: ['contextLength', 'tools'] },
  ...{ inputModalities: ['text'], outputModalities: ['text'], supportedFeatures: ['tools'] },
  ...{ pricing: [{ prompt: '1', completion: '2' }], priceId: 'p', ...AT },
}
const ROUTE: RouteRow = {
  ...{ model: 'v/m', upstream: 'u', upstreamModel: 'z', priority: 0, weight: 1, pricing: null, priceId: null },
  ...{
    contextLength: null,
    maxOutputLength: null,
    supportedFeatures: null,
    fromList: ['pricing'],
    options: {},
    enabled: true,
    origin: 'file',
  },
}
const ALIAS: AliasRow = { alias: 'fast', model: 'v/m', listed: true, origin: 'file' }
const PRICE = { id: 'p', model: 'v/m', upstream: null, pricing: MODEL.pricing, createdMs: 1 }
export const ROWS: CatalogRows = {
  ...{ upstreams: [UPSTREAM], models: [MODEL], aliases: [ALIAS] },
  routes: [ROUTE, { ...ROUTE, upstreamModel: 'a' }],
}
const ALL: CatalogWrite = { layers: ROWS, prices: [PRICE] }

export const decided = <Write>(what: Write): Decided<Write, null> => ({
  value: null,
  change: { ...RECORD, write: what },
})

/** Runs the contract's tests. `open` makes an empty store, seen twice. */
export function testConfigStore(name: string, open: () => StorePair | Promise<StorePair>): void {
  describe(name, () => {
    let pair: StorePair
    let store: ConfigStore
    let watch: Watch | null = null
    beforeEach(async () => {
      pair = await open()
      store = pair.store
    })
    afterEach(async () => {
      watch?.stop()
      watch = null
      await pair.close()
    })

    test('is empty at first', async () => {
      const empty = { keys: [], teams: [], upstreams: [], models: [], routes: [], aliases: [] }
      expect(await store.read()).toEqual({ ...empty, sealed: [], revision: 0 })
      expect(await store.readAudit()).toEqual([])
    })

    const set = (row: UpstreamRow, more: Partial<CatalogWrite> = {}) =>
      store.changeCatalog(BY, () => decided<CatalogWrite>({ layers: { ...ROWS, upstreams: [row] }, ...more }))

    test('a credential that was typed in stays with its upstream as long as that goes where it went', async () => {
      const { id, dialect, baseUrl, options } = UPSTREAM
      const sealed = async () => (await pair.other.readSealed()).map((one) => one.sealed)
      await store.changeCatalog(BY, () => decided<CatalogWrite>(ALL))
      expect(await sealed()).toEqual([])
      await set(UPSTREAM, { credentials: [{ id, sealed: ['x'] }] })
      expect(await pair.other.readSealed()).toEqual([{ id, dialect, baseUrl, options, number: 1, sealed: 'x' }])
      expect((await pair.other.read()).sealed).toEqual([{ id, dialect, baseUrl, options, number: 1, sealed: 'x' }])
      await set({ ...UPSTREAM, enabled: false, options: { rpm: 9 }, origin: 'admin' })
      expect(await sealed()).toEqual(['x'])
      for (const options of [{ preset: 'groq' }, { path: '/x' }, { auth: 'x-key' }, { headers: { a: 'b' } }]) {
        await set({ ...UPSTREAM, options })
        expect(await sealed()).toEqual([''])
        await set(UPSTREAM, { credentials: [{ id, sealed: ['x'] }] })
      }
      await set({ ...UPSTREAM, baseUrl: 'http://other/v1' })
      expect(await sealed()).toEqual([''])
      await set({ ...UPSTREAM, baseUrl: 'http://other/v1' }, { credentials: [{ id, sealed: ['y'] }] })
      await set({ ...UPSTREAM, baseUrl: 'http://other/v1', dialect: 'demo' })
      expect(await sealed()).toEqual([''])
      await set(UPSTREAM, { credentials: [{ id, sealed: ['z'] }] })
      await set({ ...UPSTREAM, apiKeyRef: `\${KEY}` })
      expect(await sealed()).toEqual([])
      await set(UPSTREAM)
      expect(await sealed()).toEqual([])
    })

    test('a credential that was typed in is to be typed in again once another setting leads it elsewhere', async () => {
      const { id } = UPSTREAM
      const sealed = async () => (await pair.other.readSealed()).map((one) => [one.number, one.sealed])
      const both = [
        [1, 'x'],
        [2, 'y'],
      ]
      await store.changeCatalog(BY, () => decided<CatalogWrite>(ALL))
      await set(UPSTREAM, { credentials: [{ id, sealed: ['x', 'y'] }] })
      expect(await sealed()).toEqual(both)
      await set({ ...UPSTREAM, options: { ...UPSTREAM.options, rpm: 7 } })
      expect(await sealed()).toEqual(both)
      await set({ ...UPSTREAM, options: { ...UPSTREAM.options, path: '/elsewhere' } })
      expect(await sealed()).toEqual([[1, '']])
    })

    test('an upstream has several references, in their order', async () => {
      const apiKeyRef = [`\${B}`, `\${A}`, 'file:/run/secrets/c']
      await store.changeCatalog(BY, () => decided<CatalogWrite>(ALL))
      await set({ ...UPSTREAM, apiKeyRef })
      expect((await pair.other.readCatalog()).upstreams[0]?.apiKeyRef).toEqual(apiKeyRef)
      await set({ ...UPSTREAM, apiKeyRef: `\${A}` })
      expect((await pair.other.readCatalog()).upstreams[0]?.apiKeyRef).toBe(`\${A}`)
    })

    test('no row of the catalogue, and no state of it that is kept, has a credential', async () => {
      await store.changeCatalog(BY, () => decided<CatalogWrite>({ ...ALL, credentials: [{ id: 'u', sealed: ['x'] }] }))
      expect((await store.readCatalog()).upstreams).toEqual([UPSTREAM])
      expect((await store.read()).upstreams).toEqual([UPSTREAM])
    })

    test('a change is written with its audit row and the next revision, and others see it', async () => {
      await store.changeKeys(BY, () => decided({ teams: [team('t')] }))
      await store.changeCatalog({ ...BY, nowMs: 2_000 }, () => decided<CatalogWrite>(ALL))
      const { revision, teams, models } = await pair.other.read()
      expect([revision, teams, models]).toEqual([2, [team('t')], [MODEL]])
      expect(await pair.other.readRevision()).toBe(2)
      expect(await store.readAudit()).toEqual([
        { id: expect.any(String), atMs: 2_000, actor: 'test', ...RECORD },
        { id: expect.any(String), atMs: 1_000, actor: 'test', ...RECORD },
      ])
    })

    test('who changed what is found by each of its columns, newest first and page by page', async () => {
      const record = (nowMs: number, actor: string, action: AuditAction, subject: string) =>
        store.changeKeys({ actor, nowMs }, () => ({
          value: null,
          change: { action, subject, detail: { nowMs }, write: { teams: [team('t')] } },
        }))
      await record(1, 'ann', 'keys.edit', 'a')
      await record(2, 'bob', 'keys.edit', 'b')
      await record(3, 'ann', 'keys.revoke', 'b')
      await record(4, 'ann', 'keysmith.edit' as AuditAction, '%')
      const timesOf = async (query: AuditQuery) => (await store.readAudit(query)).map(({ atMs }) => atMs)
      expect(await timesOf({})).toEqual([4, 3, 2, 1])
      expect(await timesOf({ sinceMs: 3 })).toEqual([4, 3])
      expect(await timesOf({ actors: ['ann', 'nobody'] })).toEqual([4, 3, 1])
      expect(await timesOf({ action: 'keys.edit' })).toEqual([2, 1])
      expect(await timesOf({ action: 'keys' })).toEqual([3, 2, 1])
      expect(await timesOf({ action: 'key_' })).toEqual([])
      expect(await timesOf({ subjects: ['b', '%'] })).toEqual([4, 3, 2])
      expect(await timesOf({ subjects: [] })).toEqual([])
      expect(await timesOf({ actors: ['ann'], action: 'keys', limit: 1 })).toEqual([3])
      const [, third] = await store.readAudit()
      expect(await timesOf({ before: String(third?.id), limit: 1 })).toEqual([2])
    })

    test('changes are on record in the order in which they were made, whatever their commands took for the time', async () => {
      const times = [5, 5, 5, 3, 9, 7]
      for (const nowMs of times) await store.changeKeys({ actor: 'ann', nowMs }, () => decided({ teams: [team('t')] }))
      expect((await store.readAudit()).map(({ atMs }) => atMs)).toEqual(times.toReversed())
    })

    test('what was decided to stay leaves no trace but its settings, and the value is handed back', async () => {
      const value = await store.changeKeys(BY, () => ({ value: 5, settings: { seen: 'yes' }, change: null }))
      expect(value).toBe(5)
      expect(await store.readSettings()).toEqual({ seen: 'yes' })
      expect([(await store.read()).revision, await store.readAudit()]).toEqual([0, []])
    })

    test('what a decision throws reaches the caller, and nothing is written', async () => {
      const refused = store.changeKeys(BY, () => {
        throw new Error('no')
      })
      await expect(refused).rejects.toThrow('no')
      const broken = decided({ teams: [team('t')], keys: [key('k', { teamId: 'nowhere' })] })
      await expect(store.changeKeys(BY, () => ({ ...broken, settings: { a: 'b' } }))).rejects.toThrow()
      expect(await store.read()).toMatchObject({ revision: 0, teams: [], keys: [] })
      expect([await store.readSettings(), await store.readAudit()]).toEqual([{}, []])
    })

    test('a key and a team become what they are given as, whole, and others stay', async () => {
      const first = key('k1', {
        ...{
          teamId: 't',
          expiresMs: 5,
          models: ['v/*', 'a/b'],
          allowedIps: ['10.0.0.0/8', '::1'],
          scope: 'local',
          metadata: { a: 'b' },
        },
        limits: { rpm: 1, tpm: 2, concurrency: 3 },
        budget: { nanoUsd: 7, period: 'week' },
      })
      const second = key('k2', { createdMs: 0 })
      await store.changeKeys(BY, () => decided({ teams: [team('t')], keys: [first, second] }))
      // Oldest first, whatever the order in which they came.
      expect((await store.readKeys()).keys).toEqual([second, first])

      const next = { hash: 'next', lastFour: 'efgh', createdMs: 9, expiresMs: null }
      const rotated = { ...first, models: ['c/d'], budget: null, secrets: [...first.secrets, next] }
      const renamed = team('t', {
        ...{ name: 'new', models: ['b/*', 'a/*'], scope: 'local', maxKeys: null },
        limits: { rpm: 4, tpm: 5, concurrency: 6 },
        budget: { nanoUsd: 1, period: 'total' },
      })
      await store.changeKeys(BY, () => decided({ teams: [renamed], keys: [rotated] }))
      expect(await store.readKeys()).toEqual({ keys: [second, rotated], teams: [renamed] })
    })

    test('two teams of one name are refused, whoever decided so', async () => {
      await store.changeKeys(BY, () => decided({ teams: [team('a', { name: 'Blue' })] }))
      const again = decided({ teams: [team('b', { name: 'Blue' })] })
      await expect(store.changeKeys(BY, () => again)).rejects.toThrow()
    })

    test('a decision sees what is there, and catalogue rows come in the order in which they were made', async () => {
      await store.changeCatalog(BY, () => decided<CatalogWrite>(ALL))
      const seen = await store.changeCatalog(BY, (rows) => ({ value: rows, change: null }))
      expect(mergeLayers(seen)).toEqual(await store.readCatalog())
      expect(seen.routes.map(({ upstreamModel }) => upstreamModel)).toEqual(['z', 'a'])
      expect(seen).toMatchObject({ upstreams: [UPSTREAM], models: [MODEL], aliases: [ALIAS] })
    })

    test('prices stay on record, newest first, whatever becomes of their model', async () => {
      const prices = [{ ...PRICE, id: 'q', upstream: UPSTREAM.id, createdMs: 2 }]
      await store.changeCatalog(BY, () => decided<CatalogWrite>(ALL))
      await store.changeCatalog(BY, () => decided<CatalogWrite>({ prices, layers: { ...ROWS, models: [] } }))
      expect(await store.readPrices(MODEL.slug)).toEqual([...prices, PRICE])
      expect(await store.readPrices('v/other')).toEqual([])
    })

    test('catalogue rows are updated and deleted by their names, routes with what they lead to', async () => {
      await store.changeCatalog(BY, () => decided<CatalogWrite>(ALL))
      const [other, narrow] = [
        { ...MODEL, name: 'Other' },
        { ...ROUTE, maxOutputLength: 2 },
      ]
      const layers = { upstreams: [UPSTREAM], models: [other], routes: [narrow], aliases: [] }
      await store.changeCatalog(BY, () => decided<CatalogWrite>({ layers }))
      expect(await store.readCatalog()).toEqual({
        ...{ upstreams: [UPSTREAM], models: [other], routes: [narrow], aliases: [] },
      })
      await store.changeCatalog(BY, () => decided<CatalogWrite>({ layers: { ...layers, upstreams: [] } }))
      expect(await store.readCatalog()).toMatchObject({ upstreams: [], models: [other], routes: [] })
    })

    test('versions of the catalogue are kept with a change, found again, and forgotten below the oldest', async () => {
      const toVersion = (number: number) => ({
        ...{ number, atMs: 5, actor: 'ann', action: 'catalog.apply', subject: 'c.yaml' },
        ...{ created: 1, updated: 2, deleted: 3 },
      })
      const layers = { upstreams: [UPSTREAM], models: [MODEL], routes: [ROUTE], aliases: [ALIAS] }
      const versions = [1, 2, 3].map((number) => ({ ...toVersion(number), layers }))
      await store.changeCatalog(BY, (_, history) => {
        expect([history.newest(), history.find(1)]).toEqual([null, null])
        return decided<CatalogWrite>({ versions, oldestVersion: 2 })
      })
      expect(await pair.other.readVersions()).toEqual([2, 3].map(toVersion))
      expect([await store.readVersion(1), await store.readVersion(2)]).toEqual([null, { ...toVersion(2), layers }])
      const newest = await store.changeCatalog(BY, (_, history) => ({ value: history.newest(), change: null }))
      expect(newest?.number).toBe(3)
    })

    test('rows of settings are written, and taken away, with an audit row and without a new revision', async () => {
      const write = (rows: Record<string, string | null>) =>
        store.changeSettings(BY, (before) => ({
          value: before,
          change: { action: 'settings.edit', subject: 'settings', detail: {}, write: rows },
        }))
      await write({ drain: '1m', keep: '7d' })
      expect(await write({ drain: null })).toMatchObject({ drain: '1m', keep: '7d' })
      const { drain, keep } = await pair.other.readSettings()
      expect([drain, keep]).toEqual([undefined, '7d'])
      expect(await store.readAudit({ action: 'settings' })).toHaveLength(2)
      expect((await store.read()).revision).toBe(0)
    })

    test('a change by another process is noticed, with its revision', async () => {
      const seen: number[] = []
      watch = store.watch(0, async (revision) => void seen.push(revision))
      await pair.other.changeKeys(BY, () => decided({ teams: [team('t')] }))
      await until('the change', () => seen.length > 0)
      expect([seen, watch.healthy()]).toEqual([[1], true])
    })
  })
}
