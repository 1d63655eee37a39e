/** Credentials that were typed in: what opens them, what does not, and what is said where nothing does. */
import { beforeEach, expect, test } from 'bun:test'
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createVault, type SealedFor } from '../../src/store/vault.ts'
import { createTestFolder, forEachTest } from '../support/lifetime.ts'

const PLACE: SealedFor = { id: 'paid', dialect: 'openai', baseUrl: 'https://api.example.com/v1', options: {} }
const CREDENTIAL = 'sk-proj-abcdefghijklmnop1234567890'

let path: string
const folder = forEachTest(createTestFolder)
beforeEach(() => {
  path = join(folder.path, 'secret')
})

const openOne = async (sealed: string, place = PLACE, vault = createVault(folder.path)) =>
  (await vault.open([{ ...place, number: 1, sealed }])).get(place.id)?.[0]

test('nothing is made, and nothing is read, before something is sealed', async () => {
  expect((await createVault(folder.path).open([])).size).toBe(0)
  expect(existsSync(path)).toBe(false)
})

test('what is sealed says nothing of itself, is another text each time, and opens in every process of the folder', async () => {
  const vault = createVault(folder.path)
  const [one, other] = [await vault.seal(CREDENTIAL, PLACE), await vault.seal(CREDENTIAL, PLACE)]
  expect(one).toMatch(/^2\.[\da-f]{8}\.[\w-]{80,}$/)
  expect(one).not.toBe(other)
  expect(Buffer.from(one.slice(11), 'base64url').includes(CREDENTIAL)).toBe(false)
  expect(statSync(path).mode & 0o777).toBe(0o600)
  for (const sealed of [one, other]) expect(await openOne(sealed)).toEqual({ credential: CREDENTIAL })
})

test('the secret is made once, also by two at a time', async () => {
  const vaults = [createVault(folder.path), createVault(folder.path)]
  const sealed = await Promise.all(vaults.map((vault) => vault.seal(CREDENTIAL, PLACE)))
  for (const each of sealed) expect(await openOne(each)).toEqual({ credential: CREDENTIAL })
})

test.each([
  ['another upstream', { ...PLACE, id: 'evil' }],
  ['another address', { ...PLACE, baseUrl: 'https://evil.example.com/v1' }],
  ['another path', { ...PLACE, baseUrl: 'https://api.example.com/v2' }],
  ['another dialect', { ...PLACE, dialect: 'demo' as const }],
  ['another preset', { ...PLACE, options: { preset: 'groq' } }],
  ['another path of its chats', { ...PLACE, options: { path: '/evil' } }],
  ['another header', { ...PLACE, options: { auth: 'x-evil' } }],
  ['more headers', { ...PLACE, options: { headers: { host: 'evil' } } }],
  ['a query', { ...PLACE, options: { query: { to: 'evil' } } }],
])('it does not open for %s', async (_, place) => {
  const sealed = await createVault(folder.path).seal(CREDENTIAL, PLACE)
  expect(await openOne(sealed, place)).toEqual({ problem: expect.stringContaining('or for another address') })
})

test('it opens whatever else is said of its upstream, and in whichever order', async () => {
  const vault = createVault(folder.path)
  const place = { ...PLACE, options: { headers: { a: '1', b: '2' } } }
  const sealed = await vault.seal(CREDENTIAL, place)
  const later = { ...PLACE, options: { rpm: 5, drop: ['seed'], headers: { b: '2', a: '1' } } }
  expect(await openOne(sealed, later)).toEqual({ credential: CREDENTIAL })
})

test('what was changed, cut or never sealed does not open', async () => {
  const sealed = await createVault(folder.path).seal(CREDENTIAL, PLACE)
  const flipped = `${sealed.slice(0, -2)}${sealed.at(-2) === 'A' ? 'B' : 'A'}${sealed.at(-1)}`
  for (const wrong of [flipped, sealed.slice(0, 20), '1.', '1', 'abc', `3${sealed.slice(1)}`, '1.\u0000'])
    expect([wrong, await openOne(wrong)]).toEqual([wrong, { problem: expect.stringContaining("can't be decrypted") }])
  expect(await openOne('')).toEqual({ problem: expect.stringContaining('enter it again') })
})

const putFolder = () => {
  rmSync(path)
  mkdirSync(path)
}

test.each([
  ['lost', () => rmSync(path), 'secret, the encryption key of stored credentials, is missing'],
  ['another one', () => writeFileSync(path, `${'ab'.repeat(32)}\n`), 'another file'],
  ['empty', () => writeFileSync(path, ''), 'is damaged: it is not an encryption key that Tollgate created'],
  ['no file', putFolder, "can't read"],
])('a secret that is %s is told of, and a server that runs goes on', async (_, spoil, words) => {
  const vault = createVault(folder.path)
  const sealed = await vault.seal(CREDENTIAL, PLACE)
  expect(await openOne(sealed, PLACE, vault)).toEqual({ credential: CREDENTIAL })
  spoil()
  expect(await openOne(sealed)).toEqual({ problem: expect.stringContaining(words) })
  // A server that runs goes on with what it has opened.
  expect(await openOne(sealed, PLACE, vault)).toEqual({ credential: CREDENTIAL })
  expect(JSON.stringify(await openOne(sealed))).not.toContain(CREDENTIAL)
})

test('a secret that cannot be used is never written over', async () => {
  writeFileSync(path, 'what somebody else has put here')
  const error = await createVault(folder.path)
    .seal(CREDENTIAL, PLACE)
    .catch((cause: unknown) => cause)
  expect(error).toMatchObject({ failure: { kind: 'secret_unusable' } })
  expect(readFileSync(path, 'utf8')).toBe('what somebody else has put here')
})

test('where it cannot be written, nothing is sealed', async () => {
  rmSync(folder.path, { recursive: true })
  writeFileSync(folder.path, '')
  chmodSync(folder.path, 0o600)
  const error = await createVault(folder.path)
    .seal(CREDENTIAL, PLACE)
    .catch((cause: unknown) => cause)
  expect(error).toMatchObject({ failure: { kind: 'secret_unusable' } })
})
