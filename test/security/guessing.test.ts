/** Guessing attacks: how many guesses are allowed, what a guess reveals and costs, and whom it blocks. */
import { describe, expect, spyOn, test } from 'bun:test'
import { inviteAdmin, resetAdmin } from '../../src/identity/admins.ts'
import { hashPassword } from '../../src/identity/passwords.ts'
import { type Browser, createFixture, PASSWORD } from '../admin/fixture.ts'
import { forEachTest } from '../support/lifetime.ts'

const fixture = forEachTest(createFixture)

const QUARTER = 15 * 60_000
const by = () => ({ actor: 'test', nowMs: fixture.clock.ms })
const at = (address: string) => ({ headers: { 'x-test-address': address } })
const owner = { name: 'owner', password: PASSWORD }
const NEW = 'another way to the sea'

const kindsOf = (answers: readonly { body: { error?: { kind: string } } }[]) =>
  Object.fromEntries(
    [...Map.groupBy(answers, ({ body }) => body.error?.kind ?? 'open')].map(([kind, all]) => [kind, all.length]),
  )

/** The requested hashes, which are computed as usual. */
async function countingHashes(work: () => Promise<unknown>): Promise<{ made: number; compared: string[] }> {
  const made = spyOn(Bun.password, 'hash')
  const compared = spyOn(Bun.password, 'verify')
  try {
    await work()
    return { made: made.mock.calls.length, compared: compared.mock.calls.map(([, hash]) => String(hash)) }
  } finally {
    made.mockRestore()
    compared.mockRestore()
  }
}

describe('of twenty concurrent guesses, no more are checked than sequentially', () => {
  const guess = (browser: Browser, path: string, body: object) =>
    Promise.all(Array.from({ length: 20 }, () => browser.ask('POST', path, { body })))

  test('of a password', async () => {
    await fixture.signIn('owner')
    const answers = await guess(fixture.createBrowser(), '/session', { ...owner, password: 'not the right one' })
    expect(kindsOf(answers)).toEqual({ sign_in_failed: 5, too_many_attempts: 15 })
  })

  test('of a password; the log has each failure, and the audit log the blocked account', async () => {
    await fixture.signIn('owner')
    const browser = fixture.createBrowser()
    const wrong = { ...at('198.51.100.9'), body: { ...owner, password: 'my typed secret' } }
    for (let i = 0; i < 7; i++) await browser.ask('POST', '/session', wrong)
    await browser.ask('POST', '/session', { ...wrong, body: { name: 'a password typed as a name', password: 'x' } })
    const lines = (await fixture.logged()).split('\n').filter((line) => line.includes('"sign_in_failed","msg"'))
    const about = { level: 'warn', ip: '198.51.100.9', method: 'password' }
    const told = lines.map((line) => JSON.parse(line))
    expect(told).toHaveLength(8)
    expect(told[0]).toMatchObject({ ...about, account: 'owner', code: 'sign_in_failed' })
    expect(told[6]).toMatchObject({ ...about, account: 'owner', code: 'too_many_attempts' })
    expect(told[7]).toMatchObject({ ...about, account: null })
    expect(lines.join()).not.toContain('typed')
    const owners = await fixture.signIn('editor')
    const [row, ...more] = (await owners.ask('GET', '/audit?action=admins.close')).body.audit
    expect([row.actor, row.detail, more]).toEqual(['server', { name: 'owner', address: '198.51.100.9' }, []])
  })

  test('of the old password in a page that its user has left open', async () => {
    const browser = await fixture.signIn('owner')
    const answers = await guess(browser, '/password', { old: 'not the right one', password: NEW })
    expect(kindsOf(answers)).toEqual({ sign_in_failed: 5, too_many_attempts: 15 })
  })

  test.each(['/code', '/setup'])('of a code at %s, which an address may try twenty times', async (path) => {
    await inviteAdmin(fixture.identity, { name: 'ann', role: 'owner' }, by())
    await fixture.setupCode.make(fixture.clock.ms)
    const body = { name: 'ann', password: PASSWORD, code: 'guessed' }
    const browser = fixture.createBrowser()
    const first = await guess(browser, path, body)
    const then = await guess(browser, path, body)
    expect(kindsOf([...first, ...then])).toEqual({ code_wrong: 20, too_many_attempts: 20 })
  })
})

describe('a guess', () => {
  test('of a password takes the same work and gets the same response for any user', async () => {
    await fixture.signIn('owner')
    await fixture.signIn('viewer', 'disabled')
    await inviteAdmin(fixture.identity, { name: 'invited', role: 'viewer' }, by())
    const passwordHash = await hashPassword(PASSWORD)
    await fixture.identity.changeIdentity(by(), ({ admins }) => {
      const found = admins
        .filter((one) => one.passwordHash !== null)
        .map((one) => ({ ...one, passwordHash, disabledMs: one.name === 'disabled' ? 1 : null }))
      return { value: null, change: { action: 'admins.edit', subject: '', detail: {}, write: { admins: found } } }
    })
    const seen = new Set<string>()
    for (const name of ['owner', 'disabled', 'invited', 'nobody']) {
      const browser = fixture.createBrowser()
      const { made, compared } = await countingHashes(async () => {
        const { status, body } = await browser.ask('POST', '/session', {
          body: { name, password: 'not the right one' },
        })
        seen.add(JSON.stringify([status, body]))
      })
      // Parameters and cost of the algorithm.
      expect([name, made, compared.map((hash) => hash.split('$').slice(0, 4).join('$'))]).toEqual([
        ...[name, 0, ['$argon2id$v=19$m=19456,t=2,p=1']],
      ])
    }
    expect(seen.size).toBe(1)
  })

  test('of a code costs no hash', async () => {
    await inviteAdmin(fixture.identity, { name: 'ann', role: 'owner' }, by())
    await fixture.setupCode.make(fixture.clock.ms)
    for (const name of ['ann', 'nobody'])
      for (const path of ['/code', '/setup']) {
        const body = { name, password: PASSWORD, code: 'guessed' }
        const hashes = await countingHashes(() => fixture.createBrowser().ask('POST', path, { body }))
        expect([name, path, hashes]).toEqual([name, path, { made: 0, compared: [] }])
      }
  })
})

describe("guesses from elsewhere don't block the owner", () => {
  test('for the code that creates the first owner', async () => {
    const code = await fixture.setupCode.make(fixture.clock.ms)
    const stranger = fixture.createBrowser()
    for (let i = 0; i < 100; i++)
      await stranger.ask('POST', '/setup', { body: { ...owner, code: 'wrong' }, ...at(`198.51.100.${i}`) })
    expect((await fixture.createBrowser().ask('POST', '/setup', { body: { ...owner, code } })).status).toBe(200)
  })

  test('for their own code, or with names that look like other kinds of proof', async () => {
    await fixture.signIn('owner')
    const { code } = await resetAdmin(fixture.identity, 'owner', by())
    const stranger = fixture.createBrowser()
    for (let i = 0; i < 60; i++)
      for (const name of ['owner', '', 'code 203.0.113.7']) {
        const body = { name, password: PASSWORD, code: 'guessed' }
        await stranger.ask('POST', '/code', { body, ...at(`198.51.100.${i}`) })
      }
    const body = { name: 'owner', password: NEW, code }
    expect((await fixture.createBrowser().ask('POST', '/code', { body })).status).toBe(200)
  })

  test('at an address where they have signed in before; elsewhere, fifty in total block the account for a quarter of an hour', async () => {
    await fixture.signIn('owner')
    const stranger = fixture.createBrowser()
    for (let i = 0; i < 50; i++)
      await stranger.ask('POST', '/session', { body: { ...owner, password: 'guessed' }, ...at(`198.51.100.${i}`) })
    const signIn = (address: string) => fixture.createBrowser().ask('POST', '/session', { body: owner, ...at(address) })
    expect((await signIn('203.0.113.7')).status).toBe(200)
    expect((await signIn('192.0.2.1')).status).toBe(429)
    fixture.clock.ms += QUARTER
    expect((await signIn('192.0.2.1')).status).toBe(200)
  })
})

test('a password that is removed while it is checked signs no one in', async () => {
  await fixture.signIn('owner')
  const verify = Bun.password.verify
  const checking = spyOn(Bun.password, 'verify').mockImplementation(async (...given) => {
    await resetAdmin(fixture.identity, 'owner', by())
    return verify(...given)
  })
  const { status } = await fixture.createBrowser().ask('POST', '/session', { body: owner })
  expect(checking).toHaveBeenCalledTimes(1)
  checking.mockRestore()
  expect(status).toBe(401)
  expect(await fixture.identity.readSessions()).toEqual([])
})
