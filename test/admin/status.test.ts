/** How the server is doing, over the admin API: with what is found of keys and budgets. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { createKey } from '../../src/keys/service.ts'
import { createFixture, type Fixture } from './fixture.ts'

let fixture: Fixture
beforeEach(() => {
  fixture = createFixture()
})
afterEach(() => fixture.close())

test('viewers are told how it is doing, and which keys end soon', async () => {
  const viewer = await fixture.signIn('viewer')
  const none = (await viewer.ask('GET', '/status')).body
  expect(none).toMatchObject({ readiness: 'ok', reasons: [], ledger: 'ok', disk: null, backups: { keep: 7 } })
  expect(none.checks).toMatchObject([{ name: 'keys', status: 'warning' }])
  const expiresMs = fixture.clock.ms + 86_400_000
  await createKey(fixture.store, { name: 'dev', expiresMs }, { actor: 'test', nowMs: fixture.clock.ms })
  const { checks } = (await viewer.ask('GET', '/status')).body
  expect(checks).toEqual([{ name: 'keys', status: 'warning', message: expect.stringMatching(/^dev expires on /) }])
})
