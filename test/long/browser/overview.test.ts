/**
 * The overview over two months of an invented company: selecting periods by dragging and typing, and figures as tables
 * and files.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Locator, Page } from 'playwright-core'
import {
  type Browsing,
  expectAccessible,
  hasNoBrowser,
  isFirefox,
  startBrowsing,
  type Visit,
} from '../../browser/browsing.ts'
import { writeMonth } from '../../pictures/month.ts'

const DAY_MS = 86_400_000
const dayAgo = (days: number) => new Date(Date.now() - days * DAY_MS).toISOString().slice(0, 10)

describe.skipIf(hasNoBrowser)('in a browser', () => {
  let browsing: Browsing
  let visit: Visit
  let page: Page
  beforeAll(async () => {
    const environment = { OPENAI_API_KEY: 'none', ANTHROPIC_API_KEY: 'none' }
    browsing = await startBrowsing([], { environment }, (data) => writeMonth(data, Date.now(), 'http://127.0.0.1:9/v1'))
    visit = await browsing.visit()
    page = visit.page
    await browsing.setUp(visit, 'ann', 'Overview')
  })
  afterAll(async () => {
    await visit?.close()
    await browsing?.close()
  })

  const rangeOf = () => new URL(page.url()).searchParams
  const cost = () => page.getByRole('slider', { name: /^Cost by/ })
  /** The title names the shown period. */
  const shows = async (text: RegExp) => {
    await page.locator('.overview[aria-busy=false]').waitFor()
    await page.getByRole('heading', { level: 2, name: text }).first().waitFor()
  }

  test('dragging over a chart selects the period for the whole page, and Back undoes it', async () => {
    await visit.open('/?range=30d', 'Overview')
    await cost().locator('canvas').waitFor()
    await page.getByRole('row', { name: /^Mon/ }).waitFor()
    // Figures and findings are above it.
    await cost().scrollIntoViewIfNeeded()
    const box = await cost().locator('.u-over').boundingBox()
    if (box === null) throw new Error('there is no plot')
    const at = (share: number) => box.x + box.width * share
    await page.mouse.move(at(0.21), box.y + 40)
    await page.mouse.down()
    await page.mouse.move(at(0.42), box.y + 60, { steps: 4 })
    await page.mouse.up()
    await shows(/ from .* to /)
    expect([rangeOf().get('from'), rangeOf().get('to'), rangeOf().get('range')]).toEqual([dayAgo(23), dayAgo(17), null])
    expect(await page.getByLabel('From', { exact: true }).inputValue()).toBe(dayAgo(23))
    // A colleague who opens the link sees the same.
    await page.reload()
    await shows(/ from .* to /)
    await page.goBack()
    await shows(/ in the last 30 days/)
    expect(rangeOf().get('range')).toBe('30d')
  })

  test('the arrow keys move one crosshair through all charts, and select the period that Enter shows', async () => {
    await visit.open('/?range=7d', 'Overview')
    await cost().locator('canvas').waitFor()
    await cost().focus()
    await page.keyboard.press('Home')
    await page.keyboard.press('ArrowRight')
    await page.locator('[role=slider][aria-valuenow="2"]').nth(2).waitFor()
    await page.keyboard.press('Shift+ArrowRight')
    await page.keyboard.press('Enter')
    await page.getByRole('slider', { name: /^Cost by hour/ }).waitFor()
    expect([rangeOf().get('from'), rangeOf().get('to')]).toEqual([dayAgo(5), dayAgo(4)])
  })

  test('other days are typed, in either order, and are in the URL', async () => {
    await page.getByRole('button', { name: 'Today' }).click()
    await page.getByRole('button', { name: 'Custom' }).click()
    await page.getByLabel('From', { exact: true }).fill(dayAgo(3))
    await page.getByLabel('To', { exact: true }).fill(dayAgo(10))
    await page.getByRole('button', { name: 'Apply', exact: true }).click()
    await shows(/ from .* to /)
    expect([rangeOf().get('from'), rangeOf().get('to')]).toEqual([dayAgo(10), dayAgo(3)])
    await expectAccessible(page)
  })

  test('errors are grouped by code, and lead to their requests', async () => {
    await page.getByRole('link', { name: 'upstream_failed' }).click()
    await page.getByRole('heading', { level: 1, name: 'Requests' }).waitFor()
    await page.locator('tbody tr').first().waitFor()
    expect([rangeOf().get('error_code'), rangeOf().has('until')]).toEqual(['upstream_failed', true])
    await page.goBack()
    await page.getByRole('link', { name: 'upstream_failed' }).waitFor()
  })

  test('the chart shows total durations in place of times to first token', async () => {
    await page.getByRole('button', { name: /^Duration/ }).click()
    await shows(/^Median duration/)
    expect(rangeOf().get('latency')).toBe('whole')
  })

  // Firefox doesn't report downloads of blobs to its driver.
  test.skipIf(isFirefox)('a chart is also a table, and a file in either format', async () => {
    const save = async (name: RegExp) => {
      const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name }).click()])
      return [download.suggestedFilename(), Bun.file(await download.path())] as const
    }
    const [picture, png] = await save(/^PNG.*Cost/)
    expect([picture, Buffer.from(await png.slice(1, 4).bytes()).toString()]).toEqual(['tollgate-cost.png', 'PNG'])
    await page.getByRole('button', { name: /^Table.*Cost/ }).click()
    await page.getByRole('columnheader', { name: 'openai/gpt-5', exact: true }).waitFor()
    const [name, csv] = await save(/^CSV.*Cost/)
    expect([name, (await csv.text()).split('\r\n').length]).toEqual(['tollgate-cost.csv', 10])
    expect(await csv.text()).toStartWith('Day (UTC),')
    await page.getByRole('button', { name: /^Chart.*Cost/ }).click()
  })

  test('a change of the catalog is a mark that leads to its row of the audit log', async () => {
    await visit.open(`/?from=${dayAgo(7)}&to=${dayAgo(4)}`, 'Overview')
    await cost().focus()
    const link = page.getByRole('listitem').filter({ hasText: 'changed the model openai/gpt-5-mini' }).getByRole('link')
    // Repeatedly from day to day: the marks load after the chart.
    for (let at = 0; (await link.count()) === 0; at = (at + 1) % 4)
      await page.keyboard.press(at === 0 ? 'Home' : 'ArrowRight')
    const href = await link.first().getAttribute('href')
    await visit.open(String(href).replace('/admin', ''), 'Audit log')
    await page.locator('.audit li').first().getByText('openai/gpt-5-mini').first().waitFor()
  })

  const expectFile = async (table: Locator) => {
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'CSV of rows shown' }).click(),
    ])
    const [head = '', first = ''] = (await Bun.file(await download.path()).text()).split('\r\n')
    expect(head).toBe(
      'Model,Cost (USD),Requests,Input tokens,Output tokens,Cost per request (USD),Cached input,Error rate,Cost change (USD)',
    )
    expect(first.split(',')[0]).toBe(
      String(await table.getByRole('row').nth(1).getByRole('link').first().textContent()),
    )
  }

  test('the breakdown is sorted, filters the page, and is exported as shown', async () => {
    await visit.open('/?range=30d', 'Overview')
    const table = page.getByRole('table', { name: 'Usage by model' })
    await table.getByRole('link', { name: 'openai/gpt-5', exact: true }).waitFor()
    await table.getByRole('button', { name: 'Cost per request' }).click()
    expect(rangeOf().get('sort')).toBe('-cost_per_request_nano_usd')
    if (!isFirefox) await expectFile(table)
    await table.getByRole('link', { name: 'openai/gpt-5', exact: true }).click()
    await page.getByRole('table', { name: 'Usage by key' }).waitFor()
    expect([rangeOf().get('model'), rangeOf().get('by')]).toEqual(['openai/gpt-5', 'key'])
  })

  test('users lead to their requests', async () => {
    await visit.open('/?range=7d&by=user', 'Overview')
    await page.getByRole('link', { name: /requests: mobile/ }).click()
    await page.locator('tbody tr').first().waitFor()
    expect(rangeOf().get('user')).toBe('mobile')
  })

  test.each([
    ['light', 1_280],
    ['dark', 1_280],
    ['dark', 390],
  ] as const)('%s and %i px wide nothing keeps anybody from using it', async (colours, width) => {
    const state = await visit.context.storageState()
    const other = await browsing.visit({ colours, width, state })
    for (const range of [
      'range=today',
      `from=${dayAgo(60)}&to=${dayAgo(0)}`,
      `from=${dayAgo(1)}T10&to=${dayAgo(1)}T11`,
    ]) {
      await other.open(`/?${range}`, 'Overview')
      await other.page.getByRole('row', { name: /^Mon/ }).waitFor()
      await expectAccessible(other.page)
      expect(await other.page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBeTrue()
    }
    await other.close()
  })
})
