/** The playground on a running server: without a key, but metered, limited and recorded. */

import type { Database } from 'bun:sqlite'
import { afterEach, beforeEach, expect, test } from 'bun:test'
import type { Role } from '../../src/domain/roles.ts'
import { editAdmin, inviteAdmin } from '../../src/identity/admins.ts'
import { createOwnKeys, takePlaygroundKey } from '../../src/identity/own-keys.ts'
import { createToken } from '../../src/identity/principal.ts'
import { beginSession } from '../../src/identity/sign-in.ts'
import { createTeam, editKey, listAllKeys, listKeys, revokeKey, rotateKey } from '../../src/keys/service.ts'
import { hashToken } from '../../src/keys/token.ts'
import type { ConfigStore } from '../../src/store/config-store.ts'
import type { IdentityStore } from '../../src/store/identity-store.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { databasePath } from '../../src/store/sqlite/files.ts'
import { createIdentityStore } from '../../src/store/sqlite/identity-store.ts'
import { openDatabase } from '../../src/store/sqlite/open.ts'
import { toFrames } from '../support/frames.ts'
import { costOf, type Gateway, HELLO, startGateway } from '../support/gateway.ts'
import { streamAnswer } from '../support/upstream-answers.ts'

let gateway: Gateway
let database: Database
let identity: IdentityStore
let store: ConfigStore
beforeEach(async () => {
  gateway = await startGateway()
  database = openDatabase(databasePath(gateway.app.dataFolder), { busyMs: 5_000 })
  identity = createIdentityStore(database)
  store = createConfigStore(database)
})
afterEach(async () => {
  database.close()
  await gateway.stop()
})

const by = () => ({ actor: 'test', nowMs: gateway.app.clock.nowMs })
const CLIENT = { address: '203.0.113.7', agent: 'test', sessionId: null }

interface Person {
  id: string
  /** URL of the playground. */
  at(query: string): Promise<Response>
  /** Sends to an endpoint that isn't a chat. */
  to(path: string, body: Blob | FormData): Promise<Response>
  /** Sends the user's usual request to the playground, changed by `body`. */
  ask(body?: object, init?: RequestInit): Promise<Response>
}

async function person(role: Role, name: string = role, team: string | null = null): Promise<Person> {
  const { admin } = await inviteAdmin(identity, { name, role, team }, by())
  const { secret } = await beginSession(identity, admin, CLIENT, by().nowMs)
  const cookie = { cookie: `${cookieName()}=${secret}` }
  return {
    id: admin.id,
    at: (query) => post(cookie, {}, {}, query),
    to: (path, body) =>
      fetch(`${gateway.app.origin}/admin/api/playground/${path}`, {
        ...{ method: 'POST', headers: { origin: gateway.app.origin, ...cookie }, body },
      }),
    ask: (body = {}, init = {}) => post(cookie, body, init),
  }
}

const cookieName = () => `tollgate-${new URL(gateway.app.origin).port}`

const post = (headers: Record<string, string>, body: object, init: RequestInit = {}, query = '') =>
  fetch(`${gateway.app.origin}/admin/api/playground${query}`, {
    method: 'POST',
    headers: { origin: gateway.app.origin, 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ ...HELLO, ...body }),
    ...init,
  })

// biome-ignore lint/suspicious/noExplicitAny: whatever it answers with, for a test to look into
const bodyOf = async (response: Response): Promise<any> => response.json()

const kindOf = async (response: Response) => [response.status, (await bodyOf(response)).error.kind]
const hiddenKeys = async () => (await listAllKeys(store, by().nowMs)).filter(({ hidden }) => hidden)

test('an editor can ask one upstream only, to test a route; a member cannot', async () => {
  const ann = await person('editor', 'ann')
  expect((await ann.at('?upstream=paid')).headers.get('x-tollgate-upstream')).toBe('paid')
  expect([(await ann.at('?upstream=other')).status, (await ann.at('?upsteram=paid')).status]).toEqual([404, 400])
  const team = await createTeam(store, { name: 'research' }, by())
  const ben = await person('member', 'ben', team.id)
  expect(await kindOf(await ben.at('?upstream=paid'))).toEqual([403, 'role_too_small'])
})

test("it responds like the API, with its receipt, and the request is recorded with the user's playground key", async () => {
  const ann = await person('editor', 'ann')
  const [first, second] = [await ann.ask(), await ann.ask({ stream: true })]
  expect([first.status, (await bodyOf(first)).usage.cost_nano_usd]).toEqual([200, costOf(10, 5)])
  expect([first.headers.get('x-tollgate-upstream'), first.headers.get('x-tollgate-attempts')]).toEqual(['paid', '1'])
  expect([first.headers.get('x-request-id')?.slice(0, 4), first.headers.get('cache-control')]).toEqual([
    ...['req_', 'no-store'],
  ])
  expect(toFrames(await second.text()).done).toBe(true)
  const rows = await gateway.app.settled(2)
  const [key, ...more] = await hiddenKeys()
  expect(more).toEqual([])
  expect(key).toMatchObject({ name: 'playground of ann', ownerId: ann.id, secrets: [], teamId: null })
  for (const row of rows) expect(row).toMatchObject({ key_id: key?.id, status: 'ok', cost_nano_usd: costOf(10, 5) })
})

test('errors are the same as in the API', async () => {
  const ann = await person('owner', 'ann')
  const wrong = await ann.ask({ temperature: 9 })
  expect([wrong.status, (await bodyOf(wrong)).error.param]).toEqual([400, 'temperature'])
  const unknown = await ann.ask({ model: 'acme/none' })
  expect([unknown.status, (await bodyOf(unknown)).error.code]).toEqual([404, 'model_not_found'])
})

const toJson = (body: object) => new Blob([JSON.stringify(body)], { type: 'application/json' })

test('each endpoint has its own path below it, for bodies of JSON and forms', async () => {
  const [ann, vic] = [await person('owner', 'ann'), await person('viewer', 'vic')]
  const form = new FormData()
  form.append('model', HELLO.model)
  form.append('file', new File(['RIFF'], 'a.wav'))
  for (const [path, body] of [
    ['rerank', toJson({ model: HELLO.model, query: 'a', documents: ['b'] })],
    ['speech', toJson({ model: HELLO.model, input: 'a', voice: 'b' })],
    ['transcriptions', form],
  ] as const) {
    const answer = await ann.to(path, body)
    expect([answer.status, (await bodyOf(answer)).error.code]).toEqual([400, 'unsupported_endpoint'])
    expect(await kindOf(await vic.to(path, body))).toEqual([403, 'role_too_small'])
  }
  expect((await ann.to('none', toJson({}))).status).toBe(404)
})

test('a body may be as long as in the API, and is refused beyond that', async () => {
  const ann = await person('owner', 'ann')
  const content = (mib: number) => [{ role: 'user', content: 'x'.repeat(mib * 1024 ** 2) }]
  // An unknown model is reported once the body is read, without waiting for token counting.
  const long = await ann.ask({ model: 'acme/none', messages: content(9) })
  expect([long.status, (await bodyOf(long)).error.code]).toEqual([404, 'model_not_found'])
  const tooLong = await ann.ask({ messages: content(33) })
  expect([tooLong.status, (await bodyOf(tooLong)).error.code]).toEqual([413, 'request_too_large'])
})

test("viewers, scripts, other sites, and signed-out users can't use it, and their bodies are not read", async () => {
  const { secret } = await createToken(identity, { name: 'ci', scope: 'write' }, by())
  const headers = { authorization: `Bearer ${secret}` }
  expect(await kindOf(await (await person('viewer')).ask())).toEqual([403, 'role_too_small'])
  expect(await kindOf(await post(headers, {}))).toEqual([403, 'no_session'])
  expect(await kindOf(await post({}, {}))).toEqual([401, 'signed_out'])
  const foreign = { headers: { origin: 'https://evil.example.com' } }
  expect(await kindOf(await (await person('owner')).ask({}, foreign))).toEqual([403, 'origin_not_allowed'])
  expect([await hiddenKeys(), gateway.upstream.requests]).toEqual([[], []])
})

test('a member is limited by their team, together with its keys, and by another team once they join it', async () => {
  for (const name of ['crew', 'rest']) await createTeam(store, { name, rpm: 2 }, by())
  const mia = await person('member', 'mia', 'crew')
  await mia.ask()
  gateway.app.key({ name: 'other', team: 'crew' })
  await mia.ask()
  const refused = await mia.ask()
  expect([refused.status, (await bodyOf(refused)).error.code]).toEqual([429, 'rate_limit_exceeded'])
  await editAdmin(identity, 'mia', { team: 'rest' }, by())
  expect((await mia.ask()).status).toBe(200)
  const { teams } = await store.readKeys()
  expect((await hiddenKeys()).map(({ team }) => team)).toEqual(['rest'])
  const rows = await gateway.app.settled(3)
  expect(new Set(rows.map(({ team_id }) => teams.find(({ id }) => id === team_id)?.name))).toEqual(
    new Set(['crew', 'rest']),
  )
})

test('its own limits can be set, and apply', async () => {
  const ann = await person('editor', 'ann')
  await ann.ask()
  const budget = { nanoUsd: costOf(10, 5), period: 'month' } as const
  gateway.app.change((store, by) => editKey(store, 'playground of ann', { budget }, by))
  const refused = await ann.ask()
  expect([refused.status, (await bodyOf(refused)).error.code]).toEqual([429, 'insufficient_quota'])
})

test("its key can't be used directly, no command gives it a secret, and no list, name, or limit of keys includes it", async () => {
  const { id: teamId } = await createTeam(store, { name: 'crew', maxKeys: 1 }, by())
  const mia = await person('member', 'mia', 'crew')
  await mia.ask()
  const [key] = await hiddenKeys()
  for (const token of [key?.id, key?.name, '', hashToken('')]) {
    const response = await gateway.chat({}, { headers: { authorization: `Bearer ${token}` } })
    expect(response.status).toBe(401)
  }
  const name = 'playground of mia'
  for (const work of [
    rotateKey(store, name, 0, by()),
    revokeKey(store, name, by()),
    editKey(store, name, { team: null }, by()),
  ])
    await expect(work).rejects.toThrow("'playground of mia' is a playground key.")
  expect((await listKeys(store, by().nowMs)).map((one) => one.name)).toEqual(['test'])
  const own = createOwnKeys(store, identity, { id: mia.id, teamId })
  const made = await own.create({ name }, by())
  expect((await listKeys(own, by().nowMs)).map(({ id }) => id)).toEqual([made.key.id])
  await expect(editKey(own, key?.id ?? '', { concurrency: null }, by())).rejects.toThrow('There is no key')
  expect((await revokeKey(store, name, by())).key.id).toBe(made.key.id)
})

/** A stream that waits before its second word. */
function held() {
  const { promise, resolve } = Promise.withResolvers<void>()
  const [role = '', first = '', ...rest] = streamAnswer({ tokens: ['one ', 'two '] }).steps
  gateway.upstream.script({ kind: 'stream', steps: [role, first, { until: promise }, ...rest] })
  return resolve
}

test('requests in flight when a user is disabled finish, and none begins until they are enabled again', async () => {
  const goOn = held()
  const ann = await person('editor', 'ann')
  const response = await ann.ask({ stream: true })
  await editAdmin(identity, 'ann', { disabled: true }, by())
  expect(await kindOf(await ann.ask())).toEqual([401, 'signed_out'])
  expect((await hiddenKeys()).map(({ status }) => status)).toEqual(['revoked'])
  goOn()
  expect(toFrames(await response.text())).toMatchObject({ done: true, content: 'one two ' })
  await editAdmin(identity, 'ann', { disabled: false }, by())
  const [{ id } = { id: '' }] = await hiddenKeys()
  expect(await takePlaygroundKey(identity, ann.id, by())).toMatchObject({ id, revokedMs: null })
  await gateway.app.settled(1)
})

test('a stream that its reader cancels is settled as interrupted, and its upstream call ends', async () => {
  held()
  const ann = await person('owner', 'ann')
  const left = new AbortController()
  const response = await ann.ask({ stream: true }, { signal: left.signal })
  await response.body?.getReader().read()
  left.abort()
  const [row] = await gateway.app.settled(1)
  expect(row).toMatchObject({ status: 'cut', stream: 1 })
  await gateway.upstream.waitFor(([seen]) => seen?.abortedAtMs != null)
})

test('a stream whose upstream breaks off says so in its last frame', async () => {
  gateway.upstream.script({ ...streamAnswer({ tokens: ['one '], finish: null, usage: null }), end: 'eof' })
  const { error, done } = toFrames(await (await (await person('owner')).ask({ stream: true })).text())
  expect([error?.code, done]).toEqual(['upstream_failed', false])
  expect(await gateway.app.settled(1)).toMatchObject([{ status: 'cut' }])
})
