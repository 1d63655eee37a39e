/** The API reference, as authors of scripts use it. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  type Browsing,
  expectAccessible,
  expectFocus,
  hasNoBrowser,
  PASSWORD,
  startBrowsing,
  type Visit,
} from '../../browser/browsing.ts'

const OWNERS_ROUTE = '/reference?document=admin&route=getAdminApiAdmins'

describe.skipIf(hasNoBrowser)('in a browser', () => {
  let browsing: Browsing
  let visit: Visit
  beforeAll(async () => {
    browsing = await startBrowsing()
    visit = await browsing.visit()
    await browsing.setUp(visit, 'ann')
  })
  afterAll(async () => {
    await visit?.close()
    await browsing?.close()
  })

  test('it is linked from the settings and the help', async () => {
    const { page } = visit
    await visit.open('/settings', 'Settings')
    await page.getByRole('link', { name: 'API reference' }).click()
    await page.getByRole('heading', { level: 1, name: 'API reference' }).waitFor()
    await page.keyboard.press('?')
    await page.getByRole('dialog').getByRole('link', { name: 'API reference' }).click()
    await page.getByRole('dialog').waitFor({ state: 'detached' })
  })

  test('a route is searched and opened by keyboard, and its URL opens it again', async () => {
    const { page } = visit
    await visit.open('/reference?document=admin', 'API reference')
    await page.getByRole('link', { name: 'GET /usage Get usage report' }).waitFor()
    await page.keyboard.press('/')
    await page.keyboard.type('expires_ms editor')
    await page.getByRole('link', { name: 'GET /usage Get usage report' }).waitFor({ state: 'detached' })
    await page.keyboard.press('Tab')
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 2, name: 'PATCH /admin/api/keys/{id}' }).waitFor()
    await expectFocus(page, 'document.activeElement.textContent', 'PATCH /admin/api/keys/{id}')
    expect(page.url()).toContain('route=patchAdminApiKeysById')
    await page.getByText('Fields of secrets').click()
    await page.getByText('Error format').click()
    await expectAccessible(page)
    await page.reload()
    await page.getByRole('heading', { level: 2, name: 'PATCH /admin/api/keys/{id}' }).waitFor()
    await page.goBack()
    await page.getByRole('link', { name: 'POST /keys Create a key' }).waitFor()
  })

  test('both descriptions are downloaded unchanged', async () => {
    const { page } = visit
    for (const [document, title] of [
      ['v1', 'Tollgate'],
      ['admin', 'Tollgate admin API'],
    ]) {
      await visit.open(`/reference?document=${document}`, 'API reference')
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('link', { name: 'Download JSON' }).click(),
      ])
      expect(download.suggestedFilename()).toBe(`tollgate-${document}.json`)
      expect((await Bun.file(await download.path()).json()).info.title).toBe(title)
    }
  })

  test('the examples work as copied: with a session, and with a key', async () => {
    const { page } = visit
    const cwd = mkdtempSync(join(tmpdir(), 'tollgate-'))
    const run = async (path: string, change = (text: string) => text) => {
      await visit.open(path, 'API reference')
      await page.getByRole('heading', { level: 3, name: 'Example' }).waitFor()
      await page.getByRole('button', { name: 'Copy' }).click()
      const text = change((await page.evaluate('navigator.clipboard.readText()')) as string)
      return Bun.spawnSync(['sh', '-c', text], { cwd, env: { ...process.env, TOLLGATE_KEY: 'sk-tg-none' } }).stdout
    }
    const signedIn = await run('/reference?document=admin&route=postAdminApiSession', (text) =>
      text.replace('"NAME"', '"ann"').replace('"PASSWORD"', JSON.stringify(PASSWORD)),
    )
    expect(signedIn.toString()).toContain('"ann"')
    expect((await run(OWNERS_ROUTE)).toString()).toStartWith('{"admins":[')
    expect((await run('/reference?route=createChatCompletion')).toString()).toContain('invalid_api_key')
  })

  for (const [colours, width] of [
    ['dark', 1_280],
    ['light', 390],
  ] as const) {
    test(`everyone can read it: ${colours}, ${width} wide`, async () => {
      const state = await visit.context.storageState()
      const other = await browsing.visit({ colours, width, state })
      await other.open('/reference?document=admin', 'API reference')
      await other.page.getByRole('link', { name: 'GET /admins' }).waitFor()
      await expectAccessible(other.page)
      await other.page.getByRole('link', { name: 'GET /admins' }).click()
      await other.page.getByRole('heading', { level: 2, name: 'GET /admin/api/admins' }).waitFor()
      await expectAccessible(other.page)
      expect(await other.page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true)
      await other.page.getByRole('link', { name: 'All routes' }).click()
      await other.page.getByRole('link', { name: 'GET /admins' }).waitFor()
      await other.close()
    })
  }
})
