/** Bodies of the admin API: how much is read, by role, and errors about invalid ones. */

import { describe, expect, test } from 'bun:test'
import { createTeam } from '../../src/keys/service.ts'
import { type Browser, createFixture } from '../admin/fixture.ts'
import { forEachTest } from '../support/lifetime.ts'

const fixture = forEachTest(createFixture)

const KIB = 1024

test('bodies that are not JSON, too long, or of unknown length are refused, whatever their encoding', async () => {
  const browser = await fixture.signIn('owner')
  const refused = [
    [{ 'content-length': String(9 * KIB ** 2) }, 413],
    [{ 'transfer-encoding': 'chunked' }, 411],
    [{ 'content-type': 'text/plain' }, 400],
    [{ 'content-type': 'application/x-www-form-urlencoded' }, 400],
    [{ 'content-type': 'multipart/form-data; boundary=x' }, 400],
  ] as const
  for (const [headers, status] of refused) {
    const answer = await browser.ask('POST', '/keys', { body: { name: 'dev' }, headers })
    expect([headers, answer.status]).toEqual([headers, status])
  }
})

describe('the maximum length of a body', () => {
  const isTooLong = async (browser: Browser, path: string, kib: number) => {
    const headers = { 'content-length': String(kib * KIB) }
    return (await browser.ask('POST', path, { body: {}, headers })).body.error.kind === 'body_too_long'
  }

  test('depends on the role, and on whether it is a catalog', async () => {
    const team = await createTeam(fixture.store, { name: 'research' }, { actor: 'test', nowMs: fixture.clock.ms })
    const limits = [
      ...([
        [fixture.createBrowser(), '/session', 16],
        [fixture.createBrowser(), '/catalog/plan', 16],
      ] as const),
      ...([[await fixture.signIn('member', 'mia', team.id), '/own/keys', 64]] as const),
      ...([[await fixture.signIn('viewer'), '/catalog/plan', 64]] as const),
    ] as [Browser, string, number][]
    for (const role of ['editor', 'owner'] as const) {
      const browser = await fixture.signIn(role)
      limits.push([browser, '/keys', 256], [browser, '/catalog/plan', 8 * KIB], [browser, '/catalog/apply', 8 * KIB])
    }
    for (const [browser, path, kib] of limits)
      expect([path, kib, await isTooLong(browser, path, kib), await isTooLong(browser, path, kib + 1)]).toEqual([
        ...[path, kib, false, true],
      ])
  })
})

test('bodies with too many levels or values are refused before validation, from any user', async () => {
  const editor = await fixture.signIn('editor')
  let deep: unknown = 1
  for (let level = 0; level < 32; level++) deep = [deep]
  const sent = [
    [fixture.createBrowser(), '/session', { name: 'ann', password: deep }],
    [editor, '/keys', { name: deep }],
    [editor, '/catalog/plan', { document: { deep } }],
    [editor, '/catalog/plan', { yaml: Array(200_000).fill(1) }],
    [editor, '/catalog/plan', Object.fromEntries(Array.from({ length: 200_000 }, (_, i) => [`a${i}`, 1]))],
  ] as const
  for (const [browser, path, body] of sent) {
    const answer = await browser.ask('POST', path, { body })
    expect([path, answer.status, answer.body.error]).toEqual([
      ...[path, 400],
      {
        kind: 'invalid',
        message:
          'The body must be JSON of at most 32 levels and 200000 values, with the content type application/json.',
      },
    ])
  }
})

test("an error quotes nothing from the body except a field's name", async () => {
  const [owner, nobody] = [await fixture.signIn('owner'), fixture.createBrowser()]
  const secret = 'tell-me-not'
  const sent = [
    [nobody, '/session', { name: 'owner', password: 1, secret }],
    [nobody, '/session', { name: 'owner', password: [secret] }],
    [nobody, '/code', { name: 'owner', password: 'long enough for it', code: { [secret]: secret } }],
    [owner, '/upstreams', { id: 'mine', dialect: 'openai', base_url: 'https://api.example.com', api_key: [[secret]] }],
    [owner, '/upstreams', { id: 'mine', dialect: 'openai', api_key: secret }],
    [owner, '/upstreams', { id: 'mine', dialect: secret }],
    [owner, '/keys', { name: 'dev', metadata: { note: [secret] } }],
  ] as const
  for (const [browser, path, body] of sent) {
    const { status, text } = await browser.ask('POST', path, { body })
    expect([path, status, text.includes(secret)]).toEqual([path, 400, false])
  }
  expect(await fixture.logged()).not.toContain(secret)
})
