/** Finished requests as live events, for readers who stay signed in. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { editAdmin } from '../../src/identity/admins.ts'
import { createKey } from '../../src/keys/service.ts'
import type { SettledRow } from '../../src/store/ledger-rows.ts'
import { toOpen, toSettled } from '../ledger/fixture.ts'
import { createFixture, type Fixture } from './fixture.ts'

let fixture: Fixture
let headers: Record<string, string>
beforeEach(async () => {
  fixture = createFixture()
  headers = { host: '127.0.0.1:4000', cookie: (await fixture.signIn('viewer')).cookie }
})
afterEach(async () => {
  await fixture.live.end()
  fixture.close()
})

const follow = (query = '', signal = new AbortController().signal, as = headers) =>
  fixture.admin.handle(new Request(`http://127.0.0.1/admin/api/requests/live${query}`, { headers: as, signal }))
const finish = (fields: Partial<SettledRow> = {}, reason: string | null = null) =>
  fixture.live.finished({ row: toSettled(toOpen(fields), fields), reason })

/** A page's EventSource: each event's name and document. */
const toEvents = (text: string): [name: string, document: unknown][] =>
  text
    .split('\n\n')
    .filter((event) => event.includes('data: '))
    .map((event) => [
      /^event: (.*)$/m.exec(event)?.[1] ?? 'message',
      JSON.parse(event.replace(/^(?:event: .*\n)?data: /, '')),
    ])

test('each is an event, with columns’ names and the current name of its key, and the last one says that the server stops', async () => {
  const { key } = await createKey(fixture.store, { name: 'dev' }, { actor: 'test', nowMs: 1 })
  await fixture.serving.refresh()
  const [all, some] = await Promise.all([follow(), follow('?status=failed&key=dev')])
  expect([all.headers.get('content-type'), all.headers.get('cache-control')]).toEqual(['text/event-stream', 'no-store'])
  finish({ keyId: key.id })
  finish({ keyId: key.id, status: 'failed' }, 'the upstream said sk-0123456789abcdefghij')
  finish({ keyId: 'gone', status: 'failed' })
  await fixture.live.end()
  const events = toEvents(await all.text())
  expect(events).toMatchObject([
    ['message', { key: 'dev', key_id: key.id, status: 'ok', cost_nano_usd: 500, reason: null }],
    ['message', { status: 'failed', reason: 'the upstream said sk-…ghij' }],
    ['message', { key: null, key_id: 'gone' }],
    ['end', { end: 'stopped' }],
  ])
  expect(toEvents(await some.text())).toEqual(events.filter((_, at) => at === 1 || at === 3))
  expect((await follow()).status).toBe(429)
})

test('if there are more than a page shows, the newest are sent, after the number of dropped ones', async () => {
  const page = await follow()
  for (let n = 0; n < 3_000; n++) finish({ user: String(n) })
  const [text] = await Promise.all([page.text(), fixture.live.end()])
  const events = toEvents(text)
  expect([events[0], events.at(-1)]).toEqual([
    ['dropped', { dropped: 2_950 }],
    ['end', { end: 'stopped' }],
  ])
  expect(events.slice(1, -1)).toMatchObject(
    Array.from({ length: 50 }, (_, n) => ['message', { user: String(2_950 + n) }]),
  )
})

test("a user has a limited number of live streams, which doesn't limit others, and closing one frees its slot", async () => {
  const leaving = new AbortController()
  const first = await follow('', leaving.signal)
  const others = await Promise.all(Array.from({ length: 5 }, () => follow()))
  expect([first, ...others].map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 200])
  const refused = await follow()
  expect([refused.status, ((await refused.json()) as { error: { kind: string } }).error.kind]).toEqual([
    429,
    'too_many_tails',
  ])
  const token = { host: '127.0.0.1:4000', ...(await fixture.tokenHeaders('read')) }
  expect((await follow('', undefined, token)).status).toBe(200)
  leaving.abort()
  expect((await follow()).status).toBe(200)
})

test('however many pages members have open, there is capacity for users who see more', async () => {
  const leaving = new AbortController()
  const open = (id: string, signal = new AbortController().signal) =>
    fixture.live.follow({ id, signal, ownerId: id }, {}, async () => true) !== null
  expect(open('member 0', leaving.signal)).toBe(true)
  const opened = Array.from({ length: 40 }, (_, i) => open(`member ${i}`))
  expect(opened.filter((isOpen) => isOpen)).toHaveLength(15)
  expect((await follow()).status).toBe(200)
  leaving.abort()
  expect([open('member 41'), open('member 42')]).toEqual([true, false])
})

test('a user who loses access gets no more events', async () => {
  await fixture.signIn('owner')
  const page = await follow()
  await editAdmin(fixture.identity, 'viewer', { disabled: true }, { actor: 'test', nowMs: fixture.clock.ms })
  // The stream ends although the server keeps running.
  expect(toEvents(await page.text())).toEqual([])
  finish()
})
