/** Typed text is never lost: concurrent edits, sessions that end, and servers that restart. */
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

const STATES = [{ state: 'visible' }, { state: 'detached' }] as const

describe.skipIf(hasNoBrowser)('in a browser', () => {
  let browsing: Browsing
  let ann: Visit
  const outage = { isDown: false }
  beforeAll(async () => {
    browsing = await startBrowsing()
    ann = await browsing.visit({ outage })
    await browsing.setUp(ann, 'ann')
    await browsing.place.run('keys', 'create', '--name', 'dev')
  })
  afterAll(async () => {
    await ann?.close()
    await browsing?.close()
  })

  const press = ({ page }: Visit, name: string) => page.getByRole('button', { name, exact: true }).click()
  const openEdit = async (visit: Visit) => {
    await visit.open('/keys', 'Keys')
    await visit.page.getByRole('link', { name: 'dev', exact: true }).click()
    await press(visit, 'Edit')
  }
  const readKey = async (name: string) =>
    JSON.parse((await browsing.place.run('keys', 'show', name, '--json')).stdout) as Record<string, unknown>

  test('two tabs and a command edit one key: separate changes are merged, and conflicts are shown', async () => {
    const other = await browsing.visit({ width: 390, state: await ann.context.storageState() })
    const { page } = ann
    await openEdit(ann)
    await openEdit(other)
    await page.getByLabel('Requests per minute').fill('10')
    await page.getByLabel('Budget').first().fill('20')
    await other.page.getByLabel('Concurrency').fill('3')
    await browsing.place.run('keys', 'edit', 'dev', '--rpm', '30')
    // The tab and the command changed different fields.
    await press(other, 'Save')
    await other.page.getByText('The command line changed Requests per minute at the same time').first().waitFor()
    await other.close()
    await press(ann, 'Save')
    const conflict = page.locator('.conflict')
    await conflict.getByText('You changed this').waitFor()
    await conflict.getByText('Also changed, and kept: Concurrency').waitFor()
    expect(await conflict.getByRole('group').count()).toBe(1)
    expect(await conflict.getByRole('radio', { name: 'Your entry 10' }).isChecked()).toBe(true)
    await expectAccessible(page)
    await conflict.getByRole('radio', { name: 'Saved value 30' }).check()
    await press(ann, 'Save')
    await page.getByText('Saved. Applies to new requests.').first().waitFor()
    expect(await readKey('dev')).toMatchObject({ rpm: 30, concurrency: 3, budget_nano_usd: 20e9 })
  })

  test('after the session has ended, the same user signs in over the page and saves what they had typed', async () => {
    const { page, context } = ann
    await openEdit(ann)
    await page.getByLabel('Requests per minute').fill('60')
    await context.clearCookies()
    await press(ann, 'Save')
    const dialog = page.getByRole('dialog', { name: 'Sign in again' })
    await dialog.getByLabel('Password').fill(PASSWORD)
    await expectAccessible(page)
    await page.keyboard.press('Escape')
    await page.keyboard.press('Escape')
    await dialog.getByRole('button', { name: 'Sign in', exact: true }).click()
    await dialog.waitFor({ state: 'detached' })
    await page.getByText('Sign in, then send this again').waitFor({ state: 'detached' })
    expect(await page.getByLabel('Requests per minute').inputValue()).toBe('60')
    await press(ann, 'Save')
    await page.getByText('Saved. Applies to new requests.').first().waitFor()
    expect((await readKey('dev')).rpm).toBe(60)
  })

  test('another user who signs in instead finds nothing of the first user', async () => {
    const { stdout } = await browsing.place.run('admin', 'create', 'bob', '--role', 'viewer', '--json')
    const { code } = JSON.parse(stdout)
    const bob = await browsing.visit()
    await bob.page.goto(`${browsing.origin}/admin/code#${code}`)
    await bob.page.getByLabel('Name').fill('bob')
    await bob.page.getByLabel('New password').fill(PASSWORD)
    await press(bob, 'Set password')
    await bob.page.getByRole('heading', { level: 1 }).waitFor()
    await bob.close()
    const { page, context } = ann
    await openEdit(ann)
    await page.getByLabel('Name').fill('of ann')
    await context.clearCookies()
    await press(ann, 'Save')
    const dialog = page.getByRole('dialog', { name: 'Sign in again' })
    await dialog.getByLabel('Name').fill('bob')
    await dialog.getByLabel('Password').fill(PASSWORD)
    await page.keyboard.press('Enter')
    await page.getByRole('link', { name: 'bob', exact: true }).waitFor()
    expect(await page.getByLabel('Name').count()).toBe(0)
    await ann.open('/keys', 'Keys')
    await press(ann, 'Sign out')
    await page.getByLabel('Name').fill('ann')
    await page.getByLabel('Password').fill(PASSWORD)
    await page.keyboard.press('Enter')
    await page.getByRole('link', { name: 'ann', exact: true }).waitFor()
  })

  test('a key whose secret was lost with the response is rotated in its form, after a retry has failed', async () => {
    const { page } = ann
    outage.isDown = true
    await page.route(
      '**/admin/api/keys',
      async (route) => {
        // Sends what the lost request would have: Firefox's driver doesn't report its body.
        await browsing.place.run('keys', 'create', '--name', 'lost')
        await route.abort()
      },
      { times: 1 },
    )
    await ann.open('/keys/new', 'New key')
    await page.getByLabel('Name').fill('lost')
    await press(ann, 'Create key')
    await page.getByText('No response from the server').waitFor()
    outage.isDown = false
    await press(ann, 'Create key')
    await page.getByText('Key lost was created').waitFor()
    await expectAccessible(page)
    await press(ann, 'Rotate key')
    const secret = await page.locator('.made code').first().textContent()
    const { status } = await fetch(`${browsing.origin}/v1/models`, { headers: { authorization: `Bearer ${secret}` } })
    expect(status).toBe(200)
  })

  test('Escape, Close, Cancel, and a click outside a changed form ask before they discard it', async () => {
    const { page } = ann
    const drawer = page.getByRole('dialog', { name: 'dev' })
    const question = page.getByRole('dialog', { name: 'Discard your changes?' })
    await openEdit(ann)
    await page.keyboard.press('Escape')
    await drawer.waitFor({ state: 'detached' })
    await openEdit(ann)
    await page.getByLabel('Concurrency').fill('12')
    await page.keyboard.press('Escape')
    await question.waitFor()
    await expectAccessible(page)
    await page.keyboard.press('Escape')
    await question.waitFor({ state: 'detached' })
    await page.mouse.click(5, 5)
    await press(ann, 'Keep editing')
    await press(ann, 'Cancel')
    await press(ann, 'Keep editing')
    expect(await page.getByLabel('Concurrency').inputValue()).toBe('12')
    await drawer.getByRole('button', { name: 'Close' }).click()
    await press(ann, 'Discard')
    await drawer.waitFor({ state: 'detached' })
    expect((await readKey('dev')).concurrency).not.toBe(12)
  })

  test('by keyboard only, the focus returns to the opener of a form, however the form is closed', async () => {
    const { page } = ann
    const { keyboard } = page
    const at = (name: string) => page.locator(':focus').getByText(name, { exact: true }).waitFor()
    const start = async (name: string) => {
      await page.getByRole('button', { name, exact: true }).focus()
      await keyboard.press('Enter')
    }
    await openEdit(ann)
    await start('Cancel')
    await at('Edit')
    await start('Revoke')
    const field = page.getByLabel('Type dev to confirm')
    await field.fill('d')
    // The third closes every dialog at once, in some browsers.
    for (let escapes = 0; escapes < 3; escapes++) {
      await keyboard.press('Escape')
      await page.getByRole('dialog', { name: 'Discard your changes?' }).waitFor(STATES[escapes % 2])
    }
    await press(ann, 'Keep editing')
    await field.press('Escape')
    await start('Discard')
    await at('Revoke')
    await keyboard.press('Escape')
    await at('dev')
    await ann.open('/keys/new', 'New key')
    const name = page.getByLabel('Name', { exact: true })
    await name.fill('dev')
    await page.getByLabel('Concurrency').press('Enter')
    await page.getByText("A key named 'dev' already exists").waitFor()
    await name.and(page.locator(':focus')).fill('dev 2')
    await keyboard.press('Enter')
    await at('Copy key')
  })

  test('links, shortcuts, Sign out, Back, and a reload ask before they discard a changed form', async () => {
    const { page } = ann
    const question = page.getByRole('dialog', { name: 'Discard your changes?' })
    const name = page.getByLabel('Name', { exact: true })
    await ann.open('/keys', 'Keys')
    await page.getByRole('link', { name: 'New key' }).click()
    await page.getByRole('link', { name: 'Teams' }).first().click()
    await page.getByRole('heading', { level: 1, name: 'Teams' }).waitFor()
    await page.goBack()
    await name.fill('half')
    await page.getByRole('link', { name: 'Cancel' }).click()
    await question.waitFor()
    await press(ann, 'Keep editing')
    await press(ann, 'Sign out')
    await question.waitFor()
    await press(ann, 'Keep editing')
    await page.getByRole('link', { name: 'Skip to content' }).press('Enter')
    await expectFocus(page, 'document.activeElement.id', 'page')
    await page.goBack()
    await question.waitFor()
    await press(ann, 'Keep editing')
    await question.waitFor({ state: 'detached' })
    await page.waitForURL('**/admin/keys/new')
    expect(await name.inputValue()).toBe('half')
    const asked = new Promise<string>((resolve) =>
      page.once('dialog', (dialog) => {
        resolve(dialog.type())
        void dialog.dismiss()
      }),
    )
    void page.evaluate('location.reload()').catch(() => {})
    expect(await asked).toBe('beforeunload')
    expect(await name.inputValue()).toBe('half')
    // Going back and staying has kept the forward entries.
    await page.goForward()
    await press(ann, 'Discard')
    await page.getByRole('heading', { level: 1, name: 'Teams' }).waitFor()
    expect(page.url()).toEndWith('/admin/teams')
    await page.goBack()
    await name.fill('half')
    await page.goBack()
    await press(ann, 'Discard')
    await page.getByRole('heading', { level: 1, name: 'Keys' }).waitFor()
    expect(page.url()).toEndWith('/admin/keys')
  })

  test('when the server restarts, the page reconnects with its form, and then shows no notice', async () => {
    const { page } = ann
    await openEdit(ann)
    await page.getByLabel('Tokens per minute').fill('5000')
    outage.isDown = true
    browsing.server.signal('SIGTERM')
    await browsing.server.exited
    await press(ann, 'Save')
    await page.getByText('No response from the server').waitFor()
    await page.getByText('Reconnecting…').first().waitFor()
    await browsing.place.serve(['--port', new URL(browsing.origin).port])
    await page.locator('.connection').waitFor({ state: 'detached' })
    outage.isDown = false
    expect(await page.getByText("Can't reach the server").count()).toBe(0)
    await press(ann, 'Save')
    await page.getByText('Saved. Applies to new requests.').first().waitFor()
    expect((await readKey('dev')).tpm).toBe(5_000)
  })
})
