/** What seals credentials is replaced: all of them open before, after, and wherever that is cut off. */
import { beforeEach, expect, test } from 'bun:test'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { addTarget, openTarget } from '../../src/alerts/targets.ts'
import { createUpstream, editUpstream } from '../../src/catalog/edit-upstream.ts'
import type { Environment } from '../../src/domain/snapshot.ts'
import type { AlertStore } from '../../src/store/alert-store.ts'
import type { ConfigStore } from '../../src/store/config-store.ts'
import { createAlertStore } from '../../src/store/sqlite/alert-store.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { createVault, type RotateDeps, rotateSecret } from '../../src/store/vault.ts'
import { createFolder, HOUR } from '../ledger/fixture.ts'
import { forEachTest } from '../support/lifetime.ts'

const KEYS = ['one-of-two~aaaaaaaaaaaa', 'two-of-two~bbbbbbbbbbbb']
const BY = { actor: 'test', nowMs: HOUR }

let store: ConfigStore
let alerts: AlertStore
let path: string
const folder = forEachTest(createFolder)
beforeEach(() => {
  store = createConfigStore(folder.database)
  alerts = createAlertStore(folder.database)
  path = join(folder.path, 'secret')
})

const depsOf = (environment: Environment) => ({
  ...{ store, vault: createVault(folder.path, environment), lookUp: async () => [] },
})

const typeIn = (environment: Environment = {}, id = 'mine', apiKey = KEYS) =>
  createUpstream(depsOf(environment), { id, dialect: 'openai', baseUrl: 'https://api.example.com', apiKey }, BY)

const openAll = async (environment: Environment = {}) =>
  (await createVault(folder.path, environment).open(await store.readSealed())).get('mine')

const rotate = (environment: Environment = {}, more: Partial<RotateDeps> = {}) =>
  rotateSecret({ dataFolder: folder.path, store, alerts, vault: createVault(folder.path, environment), ...more }, BY)

const secret = () => readFileSync(path, 'utf8')
const opened = KEYS.map((credential) => ({ credential }))

test('a node of a cluster does not replace a file that the others have too', async () => {
  await typeIn()
  const before = secret()
  await expect(rotate({}, { isShared: true })).rejects.toThrow('TOLLGATE_SECRET')
  expect(secret()).toBe(before)
  const environment = { TOLLGATE_SECRET: 'n'.repeat(32) }
  expect(await rotate(environment, { isShared: true })).toMatchObject({ credentials: 2 })
  expect(await openAll(environment)).toEqual(opened)
})

test('a new secret opens all, the old one none of it, and only the sealed texts have changed', async () => {
  await typeIn()
  const [old, before, revision] = [secret(), await store.readSealed(), await store.readRevision()]
  expect(await rotate()).toEqual({ credentials: 2, unopened: [], unopened_alerts: [] })
  expect(await openAll()).toEqual(opened)
  expect(secret()).toMatch(/^[\da-f]{64}\n$/)
  expect([secret() === old, statSync(path).mode & 0o777]).toEqual([false, 0o600])
  const after = await store.readSealed()
  for (const [index, one] of before.entries()) {
    expect({ ...after[index], sealed: '' }).toEqual({ ...one, sealed: '' })
    expect(after[index]?.sealed).not.toBe(one.sealed)
  }
  // A server that runs reads them anew.
  expect(await store.readRevision()).toBe(revision + 1)
  const [row] = await store.readAudit({ action: 'database.reseal' })
  expect(JSON.stringify(row)).not.toContain(secret().trim())
  writeFileSync(path, old)
  expect(await openAll()).toEqual(KEYS.map(() => ({ problem: expect.stringContaining("can't be decrypted") })))
})

test.each(['renewed', 'opened', 'sealed', 'forgotten'])(
  'killed once it is %s, all opens as before, what is typed in then does, too, and doing it again ends it',
  async (step) => {
    await typeIn()
    const old = secret().trim()
    const child = Bun.spawn([process.execPath, join(import.meta.dir, 'rotating.ts'), folder.path, step])
    await child.exited
    expect(child.signalCode).toBe('SIGKILL')
    expect(await openAll()).toEqual(opened)
    await typeIn({}, 'other', ['typed-in-later~cccccccc'])
    expect(await openAll()).toEqual(opened)
    await rotate()
    expect(await openAll()).toEqual(opened)
    expect(secret().trim().split('\n')).toHaveLength(1)
    expect(secret()).not.toContain(old)
    const sealed = await createVault(folder.path).open(await store.readSealed())
    expect(sealed.get('other')).toEqual([{ credential: 'typed-in-later~cccccccc' }])
  },
)

test('who has sealed by the old secret, and writes it down only once that is replaced, is refused and loses nothing', async () => {
  await typeIn()
  const deps = depsOf({})
  const slow = {
    ...deps,
    vault: {
      ...deps.vault,
      async seal(...given: Parameters<typeof deps.vault.seal>) {
        const sealed = await deps.vault.seal(...given)
        await rotate()
        return sealed
      },
    },
  }
  await expect(editUpstream(slow, 'mine', { apiKey: 'typed-in-later~cccccccc' }, BY)).rejects.toMatchObject({
    failure: { kind: 'catalog_changed' },
  })
  expect(await openAll()).toEqual(opened)
})

test('what is being written while there is nothing else to seal is sealed anew as well', async () => {
  await typeIn()
  const rows = folder.database
    .query<[string, number, string], []>('SELECT upstream, number, sealed FROM upstream_credentials')
    .values()
  folder.database.run('DELETE FROM upstream_credentials')
  const other = folder.other()
  other.run('BEGIN IMMEDIATE')
  for (const row of rows) other.run('INSERT INTO upstream_credentials (upstream, number, sealed) VALUES (?, ?, ?)', row)
  const rotating = rotate()
  await Bun.sleep(20)
  other.run('COMMIT')
  expect(await rotating).toEqual({ credentials: 2, unopened: [], unopened_alerts: [] })
  expect(await openAll()).toEqual(opened)
})

test('what did not open before is left as it is, and told', async () => {
  await typeIn()
  await typeIn({}, 'lost', ['another~dddddddd'])
  folder.database.run("UPDATE upstream_credentials SET sealed = '2.00000000.xxxx' WHERE upstream = 'lost'")
  expect(await rotate()).toEqual({ credentials: 2, unopened: ['lost'], unopened_alerts: [] })
  expect(await openAll()).toEqual(opened)
})

const FIRST = { TOLLGATE_SECRET: 'the first secret of 32 characters or more' }
const SECOND = { TOLLGATE_SECRET: 'the second secret of 32 characters or more' }

test('a variable has the secret, and no file is made', async () => {
  await typeIn(FIRST)
  expect(existsSync(path)).toBe(false)
  expect(await openAll(FIRST)).toEqual(opened)
  expect(await openAll(SECOND)).toEqual(KEYS.map(() => ({ problem: expect.stringContaining("can't be decrypted") })))
})

test('one variable takes over from another, which is named beside it until then', async () => {
  await typeIn(FIRST)
  await expect(rotate(FIRST)).rejects.toThrow(
    'To rotate it, move it to TOLLGATE_SECRET_PREVIOUS, set a new TOLLGATE_SECRET',
  )
  const both = { ...SECOND, TOLLGATE_SECRET_PREVIOUS: FIRST.TOLLGATE_SECRET }
  expect(await openAll(both)).toEqual(opened)
  expect(await rotate(both)).toMatchObject({ credentials: 2 })
  expect(await openAll(SECOND)).toEqual(opened)
})

test('a variable takes over from the file, which is gone then, and a file from a variable', async () => {
  await typeIn()
  await rotate(FIRST)
  expect(existsSync(path)).toBe(false)
  expect(await openAll(FIRST)).toEqual(opened)
  await rotate({ TOLLGATE_SECRET_PREVIOUS: FIRST.TOLLGATE_SECRET })
  expect(await openAll()).toEqual(opened)
})

test('a variable that is short, or nothing to replace, is refused in words that say what to do', async () => {
  await expect(rotate()).rejects.toThrow('No credentials are stored yet')
  await expect(typeIn({ TOLLGATE_SECRET: 'short-one' })).rejects.toThrow(/^TOLLGATE_SECRET is too short: .*openssl/)
  await typeIn()
  const held = await openAll({ TOLLGATE_SECRET: 'short-one' })
  expect(held?.[0]).toEqual({ problem: expect.stringContaining('too short') })
  expect(JSON.stringify(held)).not.toContain('short-one')
})

test('only one does it at a time', async () => {
  await typeIn()
  const inner: Promise<unknown>[] = []
  await rotate({}, { onStep: (step) => step === 'renewed' && inner.push(rotate().catch((error) => error)) })
  expect(await inner[0]).toMatchObject({ failure: { kind: 'secret_busy' } })
  expect(await openAll()).toEqual(opened)
})

test('URLs of alert targets are re-encrypted with credentials, and without any', async () => {
  const vault = () => createVault(folder.path)
  const url = 'https://hooks.slack.com/services/T0/B0/very-secret'
  await addTarget({ alerts, vault: vault(), lookUp: null }, { url }, BY)
  const old = secret()
  expect(await rotate()).toEqual({ credentials: 1, unopened: [], unopened_alerts: [] })
  expect(secret()).not.toBe(old)
  const [target] = await alerts.readTargets()
  expect(target && (await openTarget(vault(), target))?.url).toBe(url)
  expect(target && (await vault().openFor({ alert: 'another' }, target.sealed))).toBeNull()
  writeFileSync(path, old)
  expect(target && (await openTarget(vault(), target))).toBeNull()
  expect(await rotate()).toEqual({ credentials: 0, unopened: [], unopened_alerts: ['hooks.slack.com'] })
})
