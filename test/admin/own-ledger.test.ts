/** Members see only their own keys' requests. */

import { afterEach, beforeEach, expect, test } from 'bun:test'
import { createKey, createTeam } from '../../src/keys/service.ts'
import type { SettledRow } from '../../src/store/ledger-rows.ts'
import { createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import { createRefusalWriter } from '../../src/store/sqlite/refusals.ts'
import { HOUR, settling, toOpen, toSettled } from '../ledger/fixture.ts'
import { type Browser, createFixture, type Fixture } from './fixture.ts'

let fixture: Fixture
let mia: Browser
let own: SettledRow
let others: SettledRow[]
let ids: { mine: string; hers: string; shared: string }
beforeEach(async () => {
  fixture = createFixture()
  fixture.clock.ms = HOUR + 60_000
  const team = await createTeam(fixture.store, { name: 'research' }, by())
  mia = await fixture.signIn('member', 'mia', team.id)
  const eve = await fixture.signIn('member', 'eve', team.id)
  const make = async (browser: Browser, name: string) =>
    (await browser.ask('POST', '/own/keys', { body: { name } })).body.id as string
  const { key: shared } = await createKey(fixture.store, { name: 'shared', team: 'research' }, by())
  ids = { mine: await make(mia, 'mine'), hers: await make(eve, 'hers'), shared: shared.id }
  own = settle({ keyId: ids.mine, teamId: team.id, user: 'u' })
  others = [ids.hers, ids.shared, 'system'].map((keyId) => {
    const open = toOpen({ keyId, teamId: team.id, user: 'u' })
    return settle({ ...open, upstreamRequestId: `of-${open.id}` })
  })
})
afterEach(async () => {
  await fixture.live.end()
  fixture.close()
})

const by = () => ({ actor: 'test', nowMs: fixture.clock.ms })
const settle = (fields: Partial<SettledRow>): SettledRow => {
  const row = toSettled(toOpen(fields), fields)
  createLedgerWriter(fixture.folder.database).apply([settling(row)])
  return row
}
const keysIn = ({ text }: { text: string }) => [...text.matchAll(/"key_id":"([^"]*)"/g)].map(([, id]) => id)

test('usage and requests are those of their own keys, with every filter and dimension', async () => {
  for (const path of ['/own/usage', '/own/requests']) expect(keysIn(await mia.ask('GET', path))).toEqual([ids.mine])
  for (const query of ['key=mine', 'team=research', 'user=u', 'model=*', `since=${HOUR - 1}`]) {
    const { usage, total } = (await mia.ask('GET', `/own/usage?${query}`)).body
    expect([query, usage.length, total.requests]).toEqual([query, 1, 1])
    expect([query, keysIn(await mia.ask('GET', `/own/requests?${query}`))]).toEqual([query, [ids.mine]])
  }
  for (const dimension of ['team', 'model', 'upstream', 'endpoint', 'user', 'day', 'hour']) {
    const { total } = (await mia.ask('GET', `/own/usage?by=${dimension}`)).body
    expect([dimension, total.requests]).toEqual([dimension, 1])
  }
})

test('no name of another key and no ID of another request finds anything', async () => {
  for (const name of ['hers', ids.hers, ids.hers.slice(-8), 'shared', ids.shared]) {
    for (const path of ['/own/usage', '/own/requests', '/own/requests/live']) {
      const { status, body } = await mia.ask('GET', `${path}?key=${name}`)
      expect([path, name, status, body.error.kind]).toEqual([path, name, 404, 'key_not_found'])
    }
  }
  expect((await mia.ask('GET', '/own/usage?key=system')).body.total.requests).toBe(0)
  expect((await mia.ask('GET', '/own/requests?key=system')).body.requests).toEqual([])
  for (const which of [`chatcmpl-${own.id}`, own.id.slice(-8), own.id.slice(0, 8)])
    expect((await mia.ask('GET', `/own/requests/${which}`)).body).toMatchObject({ id: own.id, key: 'mine' })
  for (const { id } of others) {
    for (const which of [id, `chatcmpl-${id}`, `req_${id}`, `${id}-1`, id.slice(-8), `of-${id}`]) {
      const { status, body } = await mia.ask('GET', `/own/requests/${which}`)
      expect([which, status, body.error.kind]).toEqual([which, 404, 'request_not_found'])
    }
  }
})

test('their CSV has their own requests, whatever the filter', async () => {
  for (const query of ['', '?team=research', '?user=u', '?limit=1', `?before=${'f'.repeat(32)}`]) {
    const { text } = await mia.ask('GET', `/own/requests/csv${query}`)
    const ids = text
      .split('\r\n')
      .slice(1, -1)
      .map((line) => line.split(',')[0])
    expect([query, ids]).toEqual([query, [own.id]])
  }
  expect((await mia.ask('GET', '/own/requests/csv?key=hers')).body.error.kind).toBe('key_not_found')
  expect((await mia.ask('GET', '/own/requests?owner=eve')).body.error).toMatchObject({ field: 'owner' })
})

test('refused requests are those of their own keys, with every filter and dimension', async () => {
  const count = { hourMs: HOUR, teamId: 't', code: 'over_share', refused: 1, lastMs: HOUR } as const
  createRefusalWriter(fixture.folder.database).add(
    ['', 'system', ids.mine, ids.hers, ids.shared].map((keyId) => ({ ...count, keyId })),
  )
  for (const query of ['by=key', 'by=team', 'by=code,hour', 'key=mine', 'code=over_share'])
    expect([query, (await mia.ask('GET', `/own/usage/refusals?${query}`)).body.total]).toEqual([query, 1])
  expect((await mia.ask('GET', '/own/usage/refusals?key=system')).body.total).toBe(0)
  expect((await mia.ask('GET', `/own/usage/refusals?key=${ids.hers}`)).status).toBe(404)
  expect((await mia.ask('GET', '/usage/refusals')).status).toBe(403)
  expect((await mia.ask('GET', '/own/keys')).body.keys).toMatchObject([{ refused_24h: 1 }])
})

test('a member without a key sees no request', async () => {
  const zoe = await fixture.signIn('member', 'zoe', 'research')
  expect((await zoe.ask('GET', '/own/usage')).body).toMatchObject({ usage: [], total: { requests: 0 } })
  expect((await zoe.ask('GET', '/own/requests')).body.requests).toEqual([])
})

test('the live stream only has their own requests', async () => {
  const headers = { host: '127.0.0.1:4000', cookie: mia.cookie }
  const following = await fixture.admin.handle(
    new Request('http://127.0.0.1/admin/api/own/requests/live', { headers, signal: new AbortController().signal }),
  )
  for (const row of [...others, own]) fixture.live.finished({ row, reason: null })
  await fixture.live.end()
  expect(keysIn({ text: await following.text() })).toEqual([ids.mine])
})

test('a member without a team is told why it is empty', async () => {
  const viewer = await fixture.signIn('viewer')
  for (const path of ['/own/usage', '/own/requests', '/own/requests/live', `/own/requests/${own.id}`]) {
    const { status, body } = await viewer.ask('GET', path)
    expect([path, status, body.error.kind]).toEqual([path, 403, 'no_team'])
  }
})
