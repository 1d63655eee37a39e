/** Server status over the admin API, with findings on keys and budgets. */
import { expect, test } from 'bun:test'
import { createKey } from '../../src/keys/service.ts'
import { forEachTest } from '../support/lifetime.ts'
import { createFixture } from './fixture.ts'

const fixture = forEachTest(createFixture)

test("viewers see the server's health, and which keys expire soon", async () => {
  const viewer = await fixture.signIn('viewer')
  const none = (await viewer.ask('GET', '/status')).body
  expect(none).toMatchObject({ readiness: 'ok', reasons: [], ledger: 'ok', disk: null, backups: { keep: 7 } })
  expect(none.checks).toMatchObject([{ name: 'keys', status: 'warning' }])
  const expiresMs = fixture.clock.ms + 86_400_000
  await createKey(fixture.store, { name: 'dev', expiresMs }, { actor: 'test', nowMs: fixture.clock.ms })
  const { checks } = (await viewer.ask('GET', '/status')).body
  expect(checks).toEqual([{ name: 'keys', status: 'warning', message: expect.stringMatching(/^dev expires on /) }])
})
