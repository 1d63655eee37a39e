/** The ledger over the admin API: usage, requests, their explanation, and the audit log. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { createKey, createTeam } from '../../src/keys/service.ts'
import type { OpenRow, Outcome } from '../../src/store/ledger-rows.ts'
import { createLedgerWriter } from '../../src/store/sqlite/ledger-apply.ts'
import { calling, HOUR, opening, settling, toCall, toOpen, toSettled, toSettledCall } from '../ledger/fixture.ts'
import { forEachTest } from '../support/lifetime.ts'
import { type Browser, createFixture } from './fixture.ts'

const DAY_MS = 86_400_000

let viewer: Browser
const fixture = forEachTest(createFixture)
beforeEach(async () => {
  fixture.clock.ms = HOUR + 60_000
  viewer = await fixture.signIn('viewer')
})

type Fields = Partial<OpenRow & Outcome>
const apply = (...records: Parameters<ReturnType<typeof createLedgerWriter>['apply']>[0]) =>
  createLedgerWriter(fixture.folder.database).apply(records)
const settle = (fields: Fields = {}) => {
  const row = toSettled(toOpen(fields), fields)
  apply(settling(row))
  return row
}
const read = async (path: string) => {
  const { status, body } = await viewer.ask('GET', path)
  return status === 200 ? body : `${status} ${body.error.kind} ${body.error.field ?? ''}`.trim()
}

describe('usage', () => {
  test('is grouped by one or two dimensions, and exact, however large it is', async () => {
    for (const model of ['acme/large', 'acme/small'])
      for (const day of [0, 1, 1])
        settle({ model, createdMs: HOUR - day * DAY_MS, costNanoUsd: Number.MAX_SAFE_INTEGER })
    const { text } = await viewer.ask('GET', '/usage?by=day,model&since=30d')
    expect(JSON.parse(text)).toMatchObject({
      usage: [{ model: 'acme/large' }, { model: 'acme/small' }, { requests: 1 }, { requests: 1 }],
      since_ms: HOUR + 60_000 - 30 * DAY_MS,
      pending_records: 0,
    })
    expect(text).toContain(`"cost_nano_usd":${6n * BigInt(Number.MAX_SAFE_INTEGER)},`)
  })

  test('has only sums on request, which takes few bytes', async () => {
    settle({ costNanoUsd: 7 })
    const { usage, total } = await read('/usage?by=model&figures=spend')
    const spend = { requests: 1, cost_nano_usd: 7, estimated_cost_nano_usd: 0, estimated_share: 0 }
    expect([usage, total]).toEqual([[{ model: 'acme/large', ...spend }], spend])
  })

  test('is filtered by names, several per filter', async () => {
    const by = { actor: 'test', nowMs: 1 }
    const [{ key: ann }, { key: bob }] = [
      await createKey(fixture.store, { name: 'ann, the first' }, by),
      await createKey(fixture.store, { name: 'bob' }, by),
    ]
    settle({ keyId: ann.id, user: 'x' })
    settle({ keyId: bob.id, upstream: 'spare' })
    settle({ keyId: 'system' })
    const keysOf = async (query: string) =>
      (await read(`/usage?${query}`)).usage.map(({ key_id }: { key_id: string }) => key_id).sort()
    expect(await keysOf('key=ann, the first&key=system')).toEqual([ann.id, 'system'].sort())
    expect(await keysOf('upstream=spare')).toEqual([bob.id])
    expect(await keysOf('user=x')).toEqual([ann.id])
    expect(await keysOf('model=acme/*')).toHaveLength(3)
    expect(await keysOf(`since=${HOUR + 59_000}`)).toEqual([])
    const { usage, other } = await read('/usage?limit=1')
    expect([usage.length, other.groups]).toEqual([1, 2])
  })

  test.each([
    ['by=colour', '400 invalid by'],
    ['by=day,hour', '400 invalid by'],
    ['since=soon', '400 invalid since'],
    ['since=1d&until=2d', '400 invalid since'],
    ['key=nobody', '404 key_not_found'],
    ['endpoint=speach', '400 invalid endpoint'],
    ['limit=0', '400 invalid limit'],
    ['limit=10001', '400 invalid limit'],
    ['colour=red', '400 invalid colour'],
  ])('%s is refused with %s', async (query, refusal) => {
    expect(await read(`/usage?${query}`)).toBe(refusal)
  })
})

describe('requests', () => {
  test('are listed newest first, page by page, with the names of their keys', async () => {
    const { key } = await createKey(fixture.store, { name: 'dev' }, { actor: 'test', nowMs: 1 })
    const rows = Array.from({ length: 5 }, (_, at) => settle({ createdMs: HOUR + at, keyId: key.id }))
    const [, , third] = rows
    const first = await read('/requests?limit=3')
    expect(first).toMatchObject({
      requests: [
        { id: rows[4]?.id, key: 'dev', key_id: key.id, cost_nano_usd: 500, team: null },
        {},
        { id: third?.id },
      ],
      ...{ next: third?.id, scanned: null },
    })
    expect(first.requests[0]).not.toHaveProperty('first_call')
    const second = await read(`/requests?limit=3&before=${first.next}`)
    expect(second.requests.map(({ id }: { id: string }) => id)).toEqual([rows[1]?.id, rows[0]?.id])
    expect(second.next).toBeNull()
  })

  test('are filtered like `requests list`', async () => {
    settle()
    settle({ status: 'failed', model: 'other/x', errorCode: 'upstream_timeout' })
    settle({ status: 'cut', user: 'ann' })
    const count = async (query: string) => (await read(`/requests?${query}`)).requests.length
    expect(await Promise.all(['errors=true', 'status=ok,cut', 'status=ok&status=failed'].map(count))).toEqual([2, 2, 2])
    expect(await count('error_code=upstream_timeout')).toBe(1)
    expect(
      await Promise.all(
        ['endpoint=chat', 'endpoint=messages', 'since=today', 'since=yesterday&until=today'].map(count),
      ),
    ).toEqual([3, 0, 3, 0])
    expect(await Promise.all(['user=ann', 'model=other/*', 'key=system', 'until=1h'].map(count))).toEqual([1, 1, 0, 0])
  })

  test('are filtered by the owner of their key, by name and ID', async () => {
    const team = await createTeam(fixture.store, { name: 'research' }, { actor: 'test', nowMs: 1 })
    const member = await fixture.signIn('member', 'ann@example.com', team.id)
    const { id: keyId, owner_id: owner } = (await member.ask('POST', '/own/keys', { body: { name: 'dev' } })).body
    settle({ keyId })
    settle()
    for (const text of [owner, 'ANN@example.com'])
      expect((await read(`/requests?owner=${text}`)).requests).toMatchObject([{ key_id: keyId }])
    expect(await read('/requests?owner=nobody')).toBe('404 admin_not_found')
  })

  test('are exported as CSV, with outcome, exact costs, and nothing that a spreadsheet would execute', async () => {
    const open = toOpen({ user: '=1+1', createdMs: HOUR })
    const failed = { status: 'failed', httpStatus: 502, errorCode: 'upstream_failed' } as const
    const call = toSettledCall(toCall(open, 1), { status: 'failed', errorCode: 'status', httpStatus: 401 })
    apply(settling(toSettled(open, { ...failed, costNanoUsd: 1_500_000_001 }), [call]))
    settle({ createdMs: HOUR - 1 })
    const { text, headers } = await viewer.ask('GET', '/requests/csv?errors=true')
    expect(headers.get('content-disposition')).toBe('attachment; filename="tollgate-requests-2026-11-21.csv"')
    const [names, values, ...rest] = text.split('\r\n').map((line) => line.split(','))
    expect(rest).toEqual([['']])
    expect(Object.fromEntries((names ?? []).map((name, at) => [name, values?.[at]]))).toMatchObject({
      ...{ id: open.id, time_utc: '2026-11-21T12:00:00.000Z', status: 'failed', http_status: '502' },
      ...{ error_code: 'upstream_failed', error: 'Upstream paid returned 401.', user: `"'=1+1"` },
      ...{ cost_usd: '1.500000001', cost_nano_usd: '1500000001' },
    })
    expect(await read('/requests/csv?limit=1000001')).toBe('400 invalid limit')
    expect(await read('/requests/csv?key=nobody')).toBe('404 key_not_found')
  })

  test('of a long CSV each appear once, and a third concurrent export is refused', async () => {
    const rows = Array.from({ length: 4_500 }, (_, at) => toSettled(toOpen({ createdMs: HOUR + at })))
    apply(...rows.map((row) => settling(row)))
    const headers = { host: '127.0.0.1:4000', cookie: viewer.cookie }
    const open = () => fixture.admin.handle(new Request('http://127.0.0.1/admin/api/requests/csv', { headers }))
    const running = [await open(), await open()]
    const refused = await open()
    expect([refused.status, await refused.json()]).toMatchObject([429, { error: { kind: 'too_many_exports' } }])
    await running[1]?.body?.cancel()
    const text = (await running[0]?.text()) ?? ''
    const ids = text
      .split('\r\n')
      .slice(1, -1)
      .map((line) => line.split(',')[0])
    expect(ids).toEqual(
      rows
        .map(({ id }) => id)
        .sort()
        .reverse(),
    )
    expect((await open()).status).toBe(200)
  })

  test('are explained by their calls and the calculation of their charge', async () => {
    const open = toOpen()
    const call = toCall(open, 2)
    apply(opening(open), calling(call))
    apply(settling(toSettled(open, { attempts: 2, costNanoUsd: 700 }), [toSettledCall(call)]))
    const whole = await read(`/requests/${open.id}`)
    expect(whole).toMatchObject({ id: open.id, attempts: 2, calls: [{ number: 1 }, { number: 2, upstream: 'spare' }] })
    expect(await read(`/requests/chatcmpl-${open.id}`)).toEqual(whole)
    expect(await read(`/requests/${open.id.slice(-8)}`)).toEqual(whole)
  })

  test.each([
    ['?status=lost', '400 invalid status'],
    ['?status=ok&errors=true', '400 invalid status'],
    ['?before=1', '400 invalid before'],
    ['?team=nobody', '404 team_not_found'],
    ['?limit=1001', '400 invalid limit'],
    ['/0', '400 invalid id'],
    ['/0192f0c0000070008000000000000000', '404 request_not_found'],
    ['/live?status=lost', '400 invalid status'],
    ['/live?key=nobody', '404 key_not_found'],
    ['/live?since=1d', '400 invalid since'],
  ])('%s is refused with %s', async (path, refusal) => {
    expect(await read(`/requests${path}`)).toBe(refusal)
  })
})

test('the audit log has names of users, and is filtered by them', async () => {
  const editor = await fixture.signIn('editor', 'ann@example.com')
  await editor.ask('POST', '/keys', { body: { name: 'dev' } })
  await fixture
    .createBrowser()
    .ask('POST', '/keys', { body: { name: 'ci' }, headers: await fixture.tokenHeaders('write') })
  const { audit, next } = await read('/audit?action=keys&limit=1')
  expect(audit).toMatchObject([{ action: 'keys.create', actor_name: 'write-1', detail: { name: 'ci' } }])
  const rest = await read(`/audit?action=keys&before=${next}`)
  expect(rest).toMatchObject({ audit: [{ actor_name: 'ann@example.com', detail: { name: 'dev' } }], next: null })
  expect(await read('/audit?actor=ANN@example.com&action=keys')).toEqual(rest)
  expect(await read('/audit?action=keys.lost')).toBe('400 invalid action')
})

test('members have no access to any of this', async () => {
  const team = await createTeam(fixture.store, { name: 'research' }, { actor: 'test', nowMs: 1 })
  const member = await fixture.signIn('member', 'bob', team.id)
  for (const path of ['/usage', '/requests', '/requests/live', '/requests/1234', '/audit'])
    expect((await member.ask('GET', path)).body.error.kind).toBe('role_too_small')
})

describe('failures', () => {
  test('are counted by code, per day or hour', async () => {
    settle({ status: 'failed', errorCode: 'upstream_timeout' })
    settle({ status: 'cut', errorCode: null, createdMs: HOUR - DAY_MS })
    settle()
    expect(await read('/failures?since=30d')).toMatchObject({
      failures: [
        { at_ms: HOUR - 36 * 3_600_000, status: 'cut', error_code: null, requests: 1 },
        { at_ms: HOUR - 12 * 3_600_000, status: 'failed', error_code: 'upstream_timeout', requests: 1 },
      ],
      ...{ other_count: 0, since_ms: HOUR + 60_000 - 30 * DAY_MS, pending_records: 0 },
    })
    expect((await read('/failures?step=hour&model=acme/*&since=1h')).failures).toMatchObject([{ at_ms: HOUR }])
  })

  test('reject unsupported filters', async () => {
    expect(await read('/failures?step=week')).toBe('400 invalid step')
    expect(await read('/failures?user=x')).toStartWith('400 invalid')
    expect(await read('/failures?limit=0')).toBe('400 invalid limit')
    expect(await read('/failures?since=1h&until=2h')).toBe('400 invalid since')
    expect(await read('/failures?key=nobody')).toBe('404 key_not_found')
  })
})
