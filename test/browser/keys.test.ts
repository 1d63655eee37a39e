/** A first run, and the lifecycle of a key, in a browser. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import OpenAI, { APIError } from 'openai'
import type { Page } from 'playwright-core'
import {
  type Browsing,
  expectAccessible,
  expectFocus,
  expectWhole,
  hasNoBrowser,
  startBrowsing,
  type Visit,
} from './browsing.ts'

const ask = (baseURL: string, apiKey: string) =>
  new OpenAI({ baseURL, apiKey, maxRetries: 0 }).chat.completions.create({
    model: 'tollgate/demo',
    messages: [{ role: 'user', content: 'Hello' }],
  })

/** The error code of a refused request. */
const refusalOf = (baseURL: string, apiKey: string) =>
  ask(baseURL, apiKey).then(
    () => null,
    (error) => (error instanceof APIError ? error.code : String(error)),
  )

const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click()

describe.skipIf(hasNoBrowser)('in a browser', () => {
  let browsing: Browsing
  let visit: Visit
  let page: Page
  let secret = ''
  beforeAll(async () => {
    browsing = await startBrowsing()
    visit = await browsing.visit()
    page = visit.page
  })
  afterAll(async () => {
    await visit?.close()
    await browsing?.close()
  })

  test('a setup link opened in a tab that already shows the page fills in its code', async () => {
    await visit.open('/setup#old-code', 'Set up the dashboard')
    await visit.open('/setup#new-code', 'Set up the dashboard')
    const code = page.getByLabel('Code', { exact: true })
    await page.waitForURL((url) => url.hash === '')
    expect(await code.inputValue()).toBe('new-code')
  })

  test('a new user sets up the dashboard, and sees the three steps to a first request', async () => {
    await browsing.setUp(visit, 'ann')
    expect(page.url()).toBe(`${browsing.origin}/admin`)
    const done = page.locator('.step[data-done=true] h2')
    await page.getByRole('link', { name: 'Use the demo' }).waitFor()
    expect(await done.count()).toBe(0)
    await expectAccessible(page)
    await page.getByRole('link', { name: 'Use the demo' }).click()
    await page.getByText('You are using the demo').waitFor()
    expect(await done.allTextContents()).toEqual(['Provider: done'])
  })

  test('a key is created on one screen, shown once, and its first request appears on that page', async () => {
    await page.getByRole('link', { name: 'New key' }).click()
    await page.getByLabel('Name').fill('dev')
    await page.getByLabel('Budget', { exact: true }).fill('20')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'Key dev' }).waitFor()
    secret = (await page.locator('.secret code').textContent()) ?? ''
    expect(secret).toMatch(/^sk-tg-\w{38}$/)
    await press(page, 'Copy key')
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(secret)
    await page.getByText('"tollgate/demo"').waitFor()
    await expectAccessible(page)
    await page.getByText('Waiting for the first request…').waitFor()
    expect((await ask(browsing.server.baseUrl, secret)).choices[0]?.message.content).toContain('Hello')
    await page.getByText('First request received').first().waitFor()
    await page.goto(page.url())
    await page.getByRole('heading', { level: 1, name: 'New key' }).waitFor()
    expect(await page.content()).not.toContain(secret)
  })

  test('the shown snippets work unchanged', async () => {
    await visit.open('/keys/new', 'New key')
    await page.getByLabel('Name').fill('snippets')
    await press(page, 'Create key')
    await page.getByText('"tollgate/demo"').waitFor()
    const run = async (tab: string, command: string[], { before = '', after = '' } = {}) => {
      await page.getByRole('tab', { name: tab }).click()
      const text = `${before}\n${await page.locator('.code code').textContent()}\n${after}`
      const child = Bun.spawn(command, { stdin: Buffer.from(text), stdout: 'pipe', stderr: 'pipe' })
      const [output, trouble] = await Promise.all([child.stdout.text(), child.stderr.text()])
      return `${output} ${(await child.exited) === 0 ? '' : trouble}`
    }
    if (Bun.which('curl') !== null) expect(await run('curl', ['sh'])).toContain('data: [DONE]')
    expect(await run('TypeScript', [process.execPath, '-'])).toContain('You wrote: Hello')
    expect(await run('@google/genai', [process.execPath, '-'])).toContain('You wrote: Hello')
    if (process.env.PYTHON) expect(await run('google-genai', [process.env.PYTHON, '-'])).toContain('You wrote: Hello')
    // Clients configured only by the environment, and a substitute for Open WebUI, which requests its models.
    const client = "import OpenAI from 'openai'; console.log((await new OpenAI().models.list()).data[0].id)"
    expect(await run('Environment', ['sh'], { after: `'${process.execPath}' -e "${client}"` })).toContain(
      'tollgate/demo',
    )
    const webUi = `open_webui() { OPENAI_BASE_URL=$OPENAI_API_BASE_URL '${process.execPath}' -e "${client}"; }; alias open-webui=open_webui`
    expect(await run('Open WebUI', ['sh'], { before: webUi })).toContain('tollgate/demo')
  })

  test('a limit that is edited in its drawer applies to the next request', async () => {
    await visit.open('/keys', 'Keys')
    await page.getByRole('link', { name: 'dev' }).click()
    expect(page.url()).toContain('?key=')
    await page.getByRole('dialog', { name: 'dev' }).getByText('$20.00 per month').waitFor()
    await expectAccessible(page)
    await press(page, 'Edit')
    await page.getByLabel('Requests per minute').fill('many')
    await press(page, 'Save')
    await page.getByText('Enter a whole number').waitFor()
    await expectFocus(page, 'document.activeElement.name', 'rpm')
    await page.getByLabel('Requests per minute').fill('1')
    await press(page, 'Save')
    await page.getByText('1 request per minute').waitFor()
    await ask(browsing.server.baseUrl, secret).catch(() => {})
    expect(await refusalOf(browsing.server.baseUrl, secret)).toBe('rate_limit_exceeded')
  })

  test('a form that was opened before another user changed the key keeps typed values, and shows the conflict', async () => {
    const drawer = page.getByRole('dialog', { name: 'dev' })
    await press(page, 'Edit')
    await page.getByLabel('Tokens per minute').fill('900')
    const id = new URL(page.url()).searchParams.get('key')
    const other = { method: 'PATCH', headers: { 'content-type': 'application/json' }, body: '{"tpm":500}' }
    await page.evaluate(`fetch('/admin/api/keys/${id}', ${JSON.stringify(other)})`)
    await press(page, 'Save')
    await drawer.getByRole('radio', { name: 'Saved value 500' }).waitFor()
    expect(await page.getByLabel('Tokens per minute').inputValue()).toBe('900')
    await expectAccessible(page)
    await press(page, 'Cancel')
    await press(page, 'Discard')
    await page.reload()
    await drawer.getByText('1 request per minute; 500 tokens per minute').waitFor()
  })

  test('a rotated key has a new secret, and the old one works until it is ended', async () => {
    const before = secret
    await press(page, 'Rotate')
    await press(page, 'Create new secret')
    secret = (await page.locator('.secret code').textContent()) ?? ''
    expect(secret).not.toBe(before)
    for (const width of [390, 1_280]) {
      await page.setViewportSize({ width, height: 800 })
      await expectWhole(page)
    }
    await press(page, 'Done')
    for (const one of [before, secret])
      expect(await refusalOf(browsing.server.baseUrl, one)).toBe('rate_limit_exceeded')
    await page.getByText(`The old secret …${before.slice(-4)} works until`).waitFor()
    await press(page, 'End it now')
    await press(page, 'End it')
    await page.locator('.notices:popover-open').getByText('Ended.').waitFor()
    await page.getByRole('button', { name: 'End it now' }).waitFor({ state: 'detached' })
    expect(await refusalOf(browsing.server.baseUrl, before)).toBe('invalid_api_key')
    expect(await refusalOf(browsing.server.baseUrl, secret)).toBe('rate_limit_exceeded')
  })

  test('a revoked key is refused; revoking requires its name, and Escape cancels', async () => {
    await press(page, 'Revoke')
    const confirm = page.getByRole('button', { name: 'Revoke key' })
    expect(await confirm.isDisabled()).toBe(true)
    await page.keyboard.press('Escape')
    await confirm.waitFor({ state: 'detached' })
    await expectFocus(page, 'document.activeElement.textContent', 'Revoke')
    await press(page, 'Revoke')
    await page.getByLabel('Type dev to confirm').fill('dev')
    await expectAccessible(page)
    await confirm.click()
    await page.getByRole('dialog', { name: 'dev' }).getByText('revoked', { exact: true }).waitFor()
    expect(await refusalOf(browsing.server.baseUrl, secret)).toBe('invalid_api_key')
    await press(page, 'Close')
    await page.getByText('1 of 2').waitFor()
    await page.getByLabel('Status').selectOption('revoked')
    await page.getByRole('link', { name: 'dev' }).waitFor()
    await page.reload()
    await page.getByRole('link', { name: 'dev' }).waitFor()
  })

  test('keys of a team are created one after the other, and a link lists them', async () => {
    await browsing.place.run('teams', 'create', '--name', 'research')
    await visit.open('/teams', 'Teams')
    await page.getByRole('link', { name: 'research' }).click()
    await page.getByRole('dialog', { name: 'research' }).getByRole('link', { name: 'New key' }).click()
    await page.getByLabel('Name').fill('first')
    await page.getByLabel('Requests per minute').fill('7')
    await press(page, 'Create key')
    await press(page, 'Create another')
    await expectFocus(page, '[document.activeElement.name, document.activeElement.value]', ['name', ''])
    await page.keyboard.type('second')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'Key second' }).waitFor()
    await visit.open('/keys?team=research', 'Keys')
    await page.getByText('2 of 4').waitFor()
    expect(await page.getByText('7 rpm').count()).toBe(2)
  })
})
