/** Problems on a phone: the first screen shows them, and each action leads to the fix. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import type { Locator, Page } from 'playwright-core'
import { type Browsing, expectAccessible, hasNoBrowser, startBrowsing, type Visit } from '../../browser/browsing.ts'
import { writeMonth } from '../../pictures/month.ts'

describe.skipIf(hasNoBrowser)('on a phone', () => {
  let browsing: Browsing
  let visit: Visit
  let page: Page
  beforeAll(async () => {
    const environment = { OPENAI_API_KEY: 'none', ANTHROPIC_API_KEY: 'none' }
    // Upstreams at a port without a listener, and an old backup that fills the disk.
    browsing = await startBrowsing(['--disk-budget', '64M'], { environment }, async (data) => {
      await writeMonth(data, Date.now(), 'http://127.0.0.1:9/v1')
      await Bun.write(join(data, 'backups', 'old.db'), new Uint8Array(70 * 2 ** 20))
    })
    visit = await browsing.visit({ width: 390 })
    page = visit.page
    await browsing.setUp(visit, 'ann', 'Overview')
  })
  afterAll(async () => {
    await visit?.close()
    await browsing?.close()
  })

  const find = (text: RegExp) => page.locator('.attention li').filter({ hasText: text }).first()
  const isOnScreen = async (locator: Locator) => {
    const box = await locator.boundingBox()
    return (box?.y ?? 844) + (box?.height ?? 0) <= 844
  }
  /** On the first screen, without scrolling. */
  const act = async (text: RegExp, label: RegExp) => {
    await visit.open('/', 'Overview')
    const link = find(text).getByRole('link', { name: label })
    await link.waitFor()
    expect(await isOnScreen(link)).toBeTrue()
    await link.click()
  }

  test('unreachable upstreams lead to their check', async () => {
    await act(/Upstream \S+ is down/, /^Check upstream/)
    await page.getByRole('dialog').getByRole('button', { name: 'Test upstream' }).waitFor()
    await visit.open('/', 'Overview')
    await page.getByText(/^0 of \d$/).waitFor()
  })

  test('a full disk leads to the server', async () => {
    await act(/more than --disk-budget/, /^View server/)
    await page.getByRole('heading', { level: 1, name: 'Server' }).waitFor()
  })

  test('a spent budget leads to its field, and disappears once it is raised', async () => {
    const { stdout } = await browsing.place.run('keys', 'list', '--json')
    const [key] = (JSON.parse(stdout).keys as { id: string; name: string; spent_month_nano_usd: number }[]).toSorted(
      (a, b) => b.spent_month_nano_usd - a.spent_month_nano_usd,
    )
    await browsing.place.run('keys', 'edit', String(key?.id), '--budget', '0.01/month')
    await act(/has spent its budget/, /^Raise budget/)
    const budget = page.getByRole('dialog').getByRole('textbox', { name: /^Budget/i })
    // The old value is selected.
    await budget.and(page.locator(':focus')).waitFor()
    await page.keyboard.type('900000')
    const save = page.getByRole('dialog').getByRole('button', { name: 'Save' })
    expect(await isOnScreen(save)).toBeTrue()
    await save.click()
    await page.locator('#notices').getByText('Saved. Applies to new requests.').waitFor()
    await visit.open('/', 'Overview')
    await find(/./).waitFor()
    expect(await find(new RegExp(`Key ${key?.name} has spent`)).count()).toBe(0)
    await expectAccessible(page)
  })

  test("an alert target shows the receiver's response next to its test, and can be removed", async () => {
    let status = 404
    const receiver = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response(null, { status }) })
    await visit.open('/settings/alerts/new', 'New alert target')
    await page.getByLabel('URL').fill(`http://127.0.0.1:${receiver.port}/hook`)
    await page.getByLabel('Name').fill('chat')
    await page.keyboard.press('Enter')
    const send = page.getByRole('button', { name: 'Send test message' })
    await send.click()
    await page.getByText('Not delivered: status 404').waitFor()
    status = 200
    await send.click()
    await page.getByText('Delivered.', { exact: true }).last().waitFor()
    await page.getByRole('link', { name: 'Done' }).click()
    await page.getByRole('link', { name: 'chat' }).click()
    await page.getByRole('button', { name: 'Remove target' }).click()
    await page.getByText('No alert targets yet').waitFor()
    await receiver.stop(true)
  })
})
