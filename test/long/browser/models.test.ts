/** Models, their upstreams, and the catalog, as an owner changes them and a viewer sees them. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import {
  type Browsing,
  expectAccessible,
  hasNoBrowser,
  PASSWORD,
  startBrowsing,
  type Visit,
} from '../../browser/browsing.ts'

const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).last().click()

const CREDENTIAL = 'sk-only-once-0123456789'

describe.skipIf(hasNoBrowser)('in a browser', () => {
  let browsing: Browsing
  let visit: Visit
  let page: Page
  const upstream = Bun.serve({
    ...{ port: 0, hostname: '127.0.0.1' },
    fetch: () => Response.json({ object: 'list', data: [{ id: 'their-model', object: 'model' }] }),
  })
  const plan = async () => {
    await press(page, 'Preview changes')
    await page.getByRole('heading', { name: 'Preview', exact: true }).waitFor()
    await expectAccessible(page)
  }
  beforeAll(async () => {
    browsing = await startBrowsing()
    visit = await browsing.visit()
    page = visit.page
    await browsing.setUp(visit, 'ann')
  })
  afterAll(async () => {
    await visit?.close()
    await browsing?.close()
    await upstream.stop(true)
  })

  test('an upstream is added with a credential that is never shown again', async () => {
    await visit.open('/upstreams', 'Upstreams')
    await page.getByRole('link', { name: 'Add provider' }).click()
    await page.getByRole('link', { name: /^Other/ }).click()
    // Key by key: nothing may take the focus meanwhile.
    await page.getByLabel('Base URL').pressSequentially(`http://127.0.0.1:${upstream.port}/v1`)
    await page.keyboard.press('Tab')
    await page.keyboard.type('mine')
    await page.getByLabel('API key').fill(CREDENTIAL)
    await press(page, 'Check and list models')
    await page.getByText('Mark the upstream as local.').waitFor()
    await page.getByRole('switch', { name: 'Local' }).check()
    await press(page, 'Check and list models')
    await press(page, 'Add mine without models')
    await page.getByRole('link', { name: 'View upstream' }).click()
    const drawer = page.getByRole('dialog', { name: 'mine' })
    await drawer.getByText('set, stored encrypted').waitFor()
    await press(page, 'Test upstream')
    await drawer.getByText(/^OK after [\d.]+ m?s\.$/).waitFor()
    await expectAccessible(page)
    expect(await page.content()).not.toContain(CREDENTIAL)
  })

  test('the form warns that a changed URL clears the credential', async () => {
    await press(page, 'Edit')
    const warning = page.getByText('Changing the provider or URL removes the credential')
    expect(await warning.count()).toBe(0)
    await page.getByLabel('Base URL').fill(`http://127.0.0.1:${upstream.port}/other/v1`)
    await warning.waitFor()
    await plan()
    await warning.waitFor()
    await press(page, 'Save changes')
    await page.getByRole('dialog', { name: 'mine' }).getByText('not set').first().waitFor()
  })

  test('a known provider has its URL filled in, unless each customer has their own', async () => {
    await visit.open('/upstreams?upstream=mine', 'Upstreams')
    await press(page, 'Edit')
    await page.getByLabel('Provider', { exact: true }).selectOption('azure')
    await page.getByText('Your URL at Azure OpenAI (v1 API).').waitFor()
    await press(page, 'Preview changes')
    await page.getByText('base_url is missing').waitFor()
    await page.getByLabel('Provider', { exact: true }).selectOption('ollama')
    await page.getByText('Leave empty to use the default.').waitFor()
  })

  test('a model gets a manual route and price, and is reset to the catalog', async () => {
    await visit.open('/models?search=demo', 'Models')
    await page.getByRole('link', { name: 'tollgate/demo', exact: true }).click()
    const drawer = page.getByRole('dialog', { name: 'tollgate/demo', exact: true })
    await press(page, 'Add route')
    await page.getByLabel('Upstream', { exact: true }).last().selectOption('mine')
    await page.getByLabel('Upstream model ID').fill('their-model')
    await page.getByText("Couldn't list its models: Upstream mine is unavailable").waitFor()
    await plan()
    await press(page, 'Add route')
    await drawer.getByRole('link', { name: 'mine' }).waitFor()
    await press(page, 'Edit')
    await page.getByLabel('Input', { exact: true }).fill('much')
    await press(page, 'Preview changes')
    await page.getByText('enter dollars per million tokens').waitFor()
    await page.getByLabel('Input', { exact: true }).fill('1.25')
    await page.getByText('$0.00000125 per token').waitFor()
    await plan()
    await press(page, 'Save changes')
    await drawer.getByText('$1.25').first().waitFor()
    await press(page, 'Reset')
    await plan()
    await press(page, 'Reset')
    await drawer.getByRole('link', { name: 'mine' }).waitFor({ state: 'detached' })
    await drawer.getByText('free').first().waitFor()
  })

  test('the catalog is rolled back to any version, exported, and applied', async () => {
    await visit.open('/models/catalog', 'Catalog')
    await page.getByRole('link', { name: 'Added the upstream: mine' }).click()
    await press(page, 'Restore version')
    await plan()
    await browsing.place.run('upstreams', 'edit', 'mine', '--rpm', '7')
    await press(page, 'Restore version 2')
    await page.getByText('Check this new preview, then confirm again.').waitFor()
    await page.getByText('rpm', { exact: true }).waitFor()
    await press(page, 'Back')
    await plan()
    expect(await page.getByText('Check this new preview').count()).toBe(0)
    await press(page, 'Back')
    await press(page, 'Cancel')
    await press(page, 'Close')
    await press(page, 'Export')
    await page.getByRole('link', { name: 'Download catalog.yaml' }).waitFor()
    const yaml = (await page.locator('.code code').textContent()) ?? ''
    expect(yaml).toContain('tollgate/demo')
    expect(yaml).not.toContain(CREDENTIAL)
    await press(page, 'Close')
    await press(page, 'Apply file')
    await page.getByLabel('Or paste its content').fill(`models: { a/${'b'.repeat(150)}: {}, c/d: {} }`)
    await press(page, 'Preview changes')
    // biome-ignore lint/performance/useDomNodeTextContent: a line per problem is what is drawn
    expect((await page.getByText('The catalog has').innerText()).split('\n').length).toBeGreaterThan(2)
    expect(await page.getByText('The catalog has').evaluate((p) => p.scrollWidth - p.clientWidth)).toBe(0)
    await page.getByLabel('Or paste its content').fill(`${yaml}\naliases: { quick: tollgate/demo }\n`)
    await page.getByText('None: the file has them all.').waitFor()
    await page.getByRole('switch', { name: 'Discard manual changes' }).check()
    await plan()
    await press(page, 'Apply')
    await page
      .getByRole('link', { name: /Applied/ })
      .first()
      .waitFor()
    await expectAccessible(page)
    await page
      .getByRole('link', { name: /Applied/ })
      .first()
      .click()
    await press(page, 'Undo this change')
    await plan()
    await page.getByText('Remove 1', { exact: false }).first().waitFor()
    await page.getByRole('button', { name: /^Undo version \d+: remove 1/ }).click()
    await page.getByRole('link', { name: /Undid the catalog change/ }).waitFor()
  })

  test('a viewer sees everything, but is offered no changes', async () => {
    const { stdout } = await browsing.place.run('admin', 'create', 'vic', '--role', 'viewer')
    const viewer = await browsing.visit({ width: 390 })
    await viewer.open('/', 'Sign in')
    await viewer.page.getByRole('link', { name: 'Use a code' }).click()
    await viewer.page.getByLabel('Name').fill('vic')
    await viewer.page.getByLabel('Code').fill(stdout.trim())
    await viewer.page.getByLabel('New password').fill(PASSWORD)
    await viewer.page.keyboard.press('Enter')
    await viewer.page.getByRole('navigation').waitFor()
    await viewer.open('/upstreams?upstream=mine', 'Upstreams')
    await viewer.page.getByRole('dialog', { name: 'mine' }).getByRole('heading', { name: 'Last error' }).waitFor()
    for (const name of ['Test upstream', 'Edit', 'Remove'])
      expect([name, await viewer.page.getByRole('button', { name, exact: true }).count()]).toEqual([name, 0])
    await viewer.open('/models?model=tollgate%2Fdemo', 'Models')
    await viewer.page.getByRole('heading', { name: 'Routes' }).waitFor()
    for (const name of ['Test upstream', 'Add route', 'Edit'])
      expect([name, await viewer.page.getByRole('button', { name, exact: true }).count()]).toEqual([name, 0])
    await viewer.open('/upstreams/new', 'No access')
    await viewer.close()
  })
})
