/** Signing in and out, and keyboard use. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import {
  type Browsing,
  expectAccessible,
  expectFocus,
  hasNoBrowser,
  PASSWORD,
  startBrowsing,
  type Visit,
} from '../../browser/browsing.ts'

/** The description of the focused field. */
const DESCRIBED = "document.getElementById(document.activeElement.getAttribute('aria-describedby')).textContent"

describe.skipIf(hasNoBrowser)('in a browser', () => {
  let browsing: Browsing
  let owner: Visit
  let state: Awaited<ReturnType<Visit['context']['storageState']>>
  beforeAll(async () => {
    browsing = await startBrowsing()
    owner = await browsing.visit()
    await browsing.setUp(owner, 'ann')
    state = await owner.context.storageState()
  })
  afterAll(async () => {
    await owner?.close()
    await browsing?.close()
  })

  test('the session is in a cookie that no script can read and no other site sends, and nothing else is stored', async () => {
    const [cookie] = await owner.context.cookies()
    expect(cookie).toMatchObject({
      name: `tollgate-${new URL(browsing.origin).port}`,
      httpOnly: true,
      sameSite: 'Strict',
    })
    expect(await owner.page.evaluate('document.cookie + JSON.stringify({ ...localStorage })')).toBe('{}')
  })

  test('a link to a page asks to sign in, then opens it; signing out hides everything', async () => {
    const visit = await browsing.visit()
    const { page } = visit
    await visit.open('/keys?state=all', 'Sign in')
    await expectAccessible(page)
    await page.getByLabel('Name').fill('ann')
    await page.getByLabel('Password').fill('not the password')
    await page.keyboard.press('Enter')
    await page.getByText('Wrong name or password.').waitFor()
    await page.getByLabel('Password').fill(PASSWORD)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'Keys' }).waitFor()
    expect(page.url()).toEndWith('/admin/keys?state=all')
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor()
    await page.reload()
    await page.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor()
    await visit.close()
  })

  test('an invited user sets a password with the code, and sees the pages of their role', async () => {
    const { stdout } = await browsing.place.run('admin', 'create', 'vic', '--role', 'viewer')
    const visit = await browsing.visit()
    const { page } = visit
    await visit.open('/', 'Sign in')
    await page.getByRole('link', { name: 'Use a code' }).click()
    await expectAccessible(page)
    await page.getByLabel('Name').fill('vic')
    await page.getByLabel('Code').fill(stdout.trim())
    await page.getByLabel('New password').fill('too short')
    await page.keyboard.press('Enter')
    // Not the hint: until the response, the form ignores Enter.
    await page.getByText('Use at least 12 characters').first().waitFor()
    await page.getByLabel('New password').fill('another way to the sea')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'Start' }).waitFor()
    await visit.open('/keys', 'Keys')
    expect(await page.getByRole('link', { name: 'New key' }).count()).toBe(0)
    await visit.open('/keys/new', 'No access')
    await visit.close()
  })

  test('a member creates their own keys, within their team, and sees no others', async () => {
    await browsing.place.run('keys', 'create', '--name', 'of somebody else')
    await browsing.place.run('teams', 'create', '--name', 'research')
    const { stdout } = await browsing.place.run('admin', 'create', 'mia', '--role', 'member', '--team', 'research')
    const visit = await browsing.visit()
    const { page } = visit
    await visit.open('/code', 'Use a code')
    await page.getByLabel('Name').fill('mia')
    await page.getByLabel('Code').fill(stdout.trim())
    await page.getByLabel('New password').fill('another way to the sea')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'Start' }).waitFor()
    await visit.open('/keys', 'Keys')
    await page.getByText('No keys yet').waitFor()
    await page.getByRole('link', { name: 'New key' }).click()
    await page.getByLabel('Name').fill('my own')
    await page.getByText('Pick from').click()
    await page.getByRole('checkbox', { name: 'tollgate/demo free' }).check()
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'Key my own' }).waitFor()
    await page.getByRole('link', { name: 'Done' }).click()
    await page.getByRole('dialog', { name: 'my own' }).getByText('research').waitFor()
    await expectAccessible(page)
    await page.keyboard.press('Escape')
    await page.getByText('1 total').waitFor()
    await visit.close()
  })

  test('five wrong passwords block the account for a while, and the page says so', async () => {
    await browsing.place.run('admin', 'create', 'eve', '--role', 'viewer')
    const visit = await browsing.visit()
    await visit.open('/', 'Sign in')
    await visit.page.getByLabel('Name').fill('eve')
    for (let attempt = 0; attempt < 6; attempt++) {
      await visit.page.getByLabel('Password').fill(`wrong password ${attempt}`)
      const answered = visit.page.waitForResponse('**/admin/api/session')
      await visit.page.keyboard.press('Enter')
      expect((await answered).status()).toBe(attempt < 5 ? 401 : 429)
    }
    await visit.page.getByText(/too many/i).waitFor()
    await visit.close()
  })

  test('everything works by keyboard, and the focus returns to its place', async () => {
    const visit = await browsing.visit({ state })
    const { page } = visit
    await visit.open('/', 'Start')
    await page.keyboard.press('g')
    await page.keyboard.press('k')
    await page.getByRole('heading', { level: 1, name: 'Keys' }).waitFor()
    await page.keyboard.press('?')
    await page.getByRole('dialog', { name: 'Help' }).waitFor()
    await expectAccessible(page)
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await expectFocus(page, 'document.activeElement.tagName', 'H1')
    await page.keyboard.press('n')
    await page.getByRole('heading', { level: 1, name: 'New key' }).waitFor()
    await page.locator('[name=name]:focus').waitFor()
    await page.keyboard.type('by hand')
    await page.getByLabel('Budget', { exact: true }).fill('lots')
    await page.keyboard.press('Enter')
    await page.getByRole('alert').getByText('Enter an amount in dollars, such as 20 or 0.50.').waitFor()
    await expectFocus(page, DESCRIBED, 'Enter an amount in dollars, such as 20 or 0.50.')
    await page.keyboard.press('Control+a')
    await page.keyboard.press('Delete')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'Key by hand' }).waitFor()
    await page.keyboard.press('g')
    await page.keyboard.press('k')
    await page.getByRole('searchbox', { name: 'Search keys' }).waitFor()
    await page.keyboard.press('/')
    await page.keyboard.type('hand')
    await page.getByText(/^1 (total|of \d+)$/).waitFor()
    expect(page.url()).toEndWith('/admin/keys?search=hand')
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    await page.getByRole('dialog', { name: 'by hand' }).getByText('Last used').waitFor()
    const address = page.url()
    const focused = page.locator(':focus').filter({ hasText: /^by hand$/ })
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await focused.waitFor()
    // On a page opened by a link, nothing had the focus before.
    await page.goto(address)
    await page.getByRole('dialog', { name: 'by hand' }).getByText('Last used').waitFor()
    await page.keyboard.press('Escape')
    await focused.waitFor()
    await page.goto(`${browsing.origin}/admin/keys`)
    await page.getByRole('link', { name: 'by hand' }).waitFor()
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').waitFor()
    await visit.close()
  })
})
