/** Passkeys at a host name, with a virtual authenticator of the browser. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { CDPSession } from 'playwright-core'
import {
  type Browsing,
  expectAccessible,
  hasNoBrowser,
  isFirefox,
  PASSWORD,
  startBrowsing,
  type Visit,
} from '../../browser/browsing.ts'

/** CTAP 2 within the device, which verifies its owner. */
const AUTHENTICATOR = {
  protocol: 'ctap2' as const,
  transport: 'internal' as const,
  hasResidentKey: true,
  hasUserVerification: true,
  isUserVerified: true,
  automaticPresenceSimulation: true,
}

// Only Chromium has an authenticator that tests can add.
describe.skipIf(hasNoBrowser || isFirefox)('in a browser', () => {
  let browsing: Browsing
  let visit: Visit
  let devtools: CDPSession
  let authenticatorId: string
  beforeAll(async () => {
    browsing = await startBrowsing()
    visit = await browsing.visit({ host: 'localhost' })
    devtools = await visit.context.newCDPSession(visit.page)
    await devtools.send('WebAuthn.enable')
    const added = await devtools.send('WebAuthn.addVirtualAuthenticator', { options: AUTHENTICATOR })
    authenticatorId = added.authenticatorId
    await browsing.setUp(visit, 'ann')
  })
  afterAll(async () => {
    await visit?.close()
    await browsing?.close()
  })

  test('a user adds a passkey with their password, signs out, and signs in with it', async () => {
    const { page } = visit
    await visit.open('/account', 'Your account')
    await page.getByRole('button', { name: 'Add passkey' }).click()
    await page.getByLabel('Name', { exact: true }).fill('laptop')
    await expectAccessible(page)
    await page.getByRole('dialog').getByLabel('Current password').fill('not the password')
    await page.keyboard.press('Enter')
    await page.getByText('Wrong password.').waitFor()
    await page.getByRole('dialog').getByLabel('Current password').fill(PASSWORD)
    await page.keyboard.press('Enter')
    await page.getByText(/^laptop for localhost, added/).waitFor()
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await expectAccessible(page)
    await signOut()
    await expectAccessible(page)
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
    await page.getByRole('heading', { level: 1, name: 'Your account' }).waitFor()
    await page.getByText(/^laptop for localhost, added .* used/).waitFor()
  })

  test("the same device can't create a second one", async () => {
    const { page } = visit
    await visit.open('/account', 'Your account')
    await page.getByRole('button', { name: 'Add passkey' }).click()
    await page.getByRole('dialog').getByLabel('Current password').fill(PASSWORD)
    await page.keyboard.press('Enter')
    await page.getByText('This device already has a passkey for your account.').waitFor()
    await page.keyboard.press('Escape')
  })

  test("a user whom the device doesn't verify can't sign in, and sees why", async () => {
    const { page } = visit
    await devtools.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: false })
    await visit.open('/account', 'Your account')
    await signOut()
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
    await page.getByText('No passkey was selected').waitFor()
    await devtools.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: true })
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
    await page.getByRole('heading', { level: 1, name: 'Your account' }).waitFor()
  })

  test('a passkey is renamed, and removed: then it no longer signs in', async () => {
    const { page } = visit
    await visit.open('/account', 'Your account')
    await page.getByRole('button', { name: 'Rename passkey laptop' }).click()
    await page.getByLabel('Name', { exact: true }).fill('stolen laptop')
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Remove passkey stolen laptop' }).click()
    await page.getByRole('button', { name: 'Remove passkey', exact: true }).click()
    await page.getByText(/^stolen laptop at/).waitFor({ state: 'detached' })
    await signOut()
    await page.getByRole('button', { name: 'Sign in with a passkey' }).click()
    await page.getByText("This passkey can't sign you in").waitFor()
  })

  test('at an IP address, none is offered', async () => {
    const other = await browsing.visit()
    await other.open('/', 'Sign in')
    expect(await other.page.getByRole('button', { name: 'passkey' }).count()).toBe(0)
    await other.close()
  })

  async function signOut() {
    const { page } = visit
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor()
  }
})
