/** A provider with its models, added by keyboard and by click; a new model; and the test that requests one token. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import { type Browsing, expectAccessible, hasNoBrowser, startBrowsing, type Visit } from '../../browser/browsing.ts'

const KEY = 'sk-right-0123456789'
const URL_OF_IT = 'http://llm.example.com/v1'
const MODELS = ['gpt-4o', 'gpt-4o-mini', 'o3', 'own-9', 'whisper-1']

/** A provider at a public host name, served by a proxy: models at private addresses are always free. */
const startProvider = () =>
  Bun.serve({
    ...{ port: 0, hostname: '127.0.0.1' },
    async fetch(request) {
      if (request.headers.get('authorization') !== `Bearer ${KEY}`)
        return Response.json({ error: { message: 'Incorrect API key provided' } }, { status: 401 })
      if (request.url.endsWith('/models'))
        return Response.json({ object: 'list', data: MODELS.map((id) => ({ id, object: 'model' })) })
      const { model } = (await request.json()) as { model: string }
      if (model === 'o3') return Response.json({ error: { message: 'Busy' } }, { status: 503 })
      const message = { role: 'assistant', content: 'H' }
      return Response.json({
        ...{ id: 'x', object: 'chat.completion', created: 1, model },
        choices: [{ index: 0, message, finish_reason: 'length' }],
        usage: { prompt_tokens: 8, completion_tokens: 1, total_tokens: 9 },
      })
    },
  })

const press = (page: Page, name: string | RegExp) => page.getByRole('button', { name }).last().click()
const isChecked = (page: Page, name: string) =>
  page.locator('.offer', { hasText: name }).getByRole('checkbox').isChecked()

describe.skipIf(hasNoBrowser)('in a browser', () => {
  let browsing: Browsing
  let visit: Visit
  let page: Page
  let provider: ReturnType<typeof startProvider>
  beforeAll(async () => {
    provider = startProvider()
    const proxy = `http://127.0.0.1:${provider.port}`
    browsing = await startBrowsing([], { environment: { HTTP_PROXY: proxy, http_proxy: proxy } })
    visit = await browsing.visit()
    page = visit.page
    await browsing.setUp(visit, 'ann')
  })
  afterAll(async () => {
    await visit?.close()
    await browsing?.close()
    await provider?.stop(true)
  })

  test('a provider with three models is added by keyboard only; a wrong key loses no typed values', async () => {
    await page.getByRole('link', { name: 'Add provider' }).press('Enter')
    const { keyboard } = page
    await page.getByLabel('Search providers').waitFor()
    await expectAccessible(page)
    await keyboard.type('openai')
    await keyboard.press('Enter')
    await page.getByLabel('API key').waitFor()
    expect(await page.getByLabel('Base URL').inputValue()).toBe('https://api.openai.com/v1')
    await page.getByLabel('Base URL').fill(URL_OF_IT)
    await page.getByLabel('API key').focus()
    await keyboard.type('sk-wrong')
    await keyboard.press('Enter')
    await page.getByText('rejected the credential (401)').waitFor()
    await expectAccessible(page)
    expect(page.url()).not.toContain('sk-wrong')
    expect(await page.getByLabel('Base URL').inputValue()).toBe(URL_OF_IT)
    await page.getByLabel('API key').fill(KEY)
    await keyboard.press('Enter')
    await page.getByLabel('Search models').waitFor()
    for (const name of ['4o-mini', 'o3', 'own-9']) {
      await keyboard.type(name)
      await keyboard.press('Enter')
    }
    await page.getByText('Price unknown: the model stays disabled').waitFor()
    await expectAccessible(page)
    await page.getByLabel('Input, $ per million').fill('1')
    await press(page, 'Add openai with 3 models')
    await page.getByText('Enter both prices').waitFor()
    await page.getByLabel('Output, $ per million').fill('2')
    await keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Added openai with 3 models' }).waitFor()
    await expectAccessible(page)
    const { models } = JSON.parse((await browsing.place.run('models', 'list', '--json')).stdout)
    expect(models.map(({ slug }: { slug: string }) => slug)).toEqual(
      expect.arrayContaining(['openai/gpt-4o-mini', 'openai/o3', 'openai/own-9']),
    )
  })

  test("a test shows its cost before, then that a model works, or the provider's error", async () => {
    const row = page.locator('.lines li', { hasText: 'openai/gpt-4o-mini' })
    await row.getByText(/^Sends a request for one token; costs about \$0\.0000\d+\.$/).waitFor()
    await press(page, 'Test openai/gpt-4o-mini')
    await row.getByText(/^Works: [\d.]+ m?s, \$0\.0000\d+, by openai\.$/).waitFor()
    await press(page, 'Test openai/o3')
    await page.getByText('Upstream `openai` is overloaded (it returned 503).', { exact: true }).waitFor()
    await row.getByRole('link', { name: 'View request' }).click()
    await page.getByText('playground').first().waitFor()
  })

  test("a provider's key is not sent to another one, and a reload that would lose it asks first", async () => {
    await visit.open('/upstreams/new', 'Add provider')
    await page.getByRole('link', { name: /^OpenAI/ }).click()
    const unloads = () => page.evaluate<boolean>("dispatchEvent(new Event('beforeunload', { cancelable: true }))")
    expect(await unloads()).toBe(true)
    await page.getByLabel('API key').fill(KEY)
    expect(await unloads()).toBe(false)
    await page.getByRole('link', { name: 'Back' }).click()
    await page.getByRole('link', { name: /^Groq/ }).click()
    expect(await page.getByLabel('API key').inputValue()).toBe('')
  })

  test('a key that was typed for one URL is not sent to a discovered server', async () => {
    const server = { preset: 'ollama', name: 'Ollama', base_url: 'http://127.0.0.1:9/v1', upstream: null, id: 'ollama' }
    await page.route('**/admin/api/upstreams/discover', (route) =>
      route.fulfill({ json: { servers: [server], providers: [] } }),
    )
    await visit.open('/upstreams/new', 'Add provider')
    await page.getByRole('link', { name: /^Other/ }).click()
    await page.getByLabel('Base URL').fill(URL_OF_IT)
    await page.getByLabel('API key').fill(KEY)
    await page.getByRole('link', { name: 'Back' }).click()
    await page.getByRole('link', { name: /^Ollama.*found$/ }).click()
    expect(await page.getByLabel('Base URL').inputValue()).toBe(server.base_url)
    expect(await page.getByLabel('API key').inputValue()).toBe('')
    await page.unroute('**/admin/api/upstreams/discover')
  })

  test('Back keeps typed and selected values, another preset keeps a typed URL, and existing models are marked', async () => {
    await visit.open('/upstreams/new', 'Add provider')
    await page.getByRole('link', { name: /^OpenAI/ }).click()
    expect(await page.getByLabel('Name').inputValue()).toBe('openai-2')
    await page.getByLabel('Base URL').fill(URL_OF_IT)
    await page.getByLabel('API key').fill(KEY)
    await page.getByRole('link', { name: 'Back' }).click()
    await page.getByRole('link', { name: /^Groq/ }).click()
    expect(await page.getByLabel('Base URL').inputValue()).toBe(URL_OF_IT)
    expect(await page.getByLabel('Name').inputValue()).toBe('groq')
    await press(page, 'Check and list models')
    await page.locator('.offer', { hasText: 'gpt-4o-mini' }).click()
    await page.getByLabel('Offered as').fill('openai/gpt-4o-mini')
    await page.getByText('This model exists: adds a fallback route to it.').waitFor()
    for (const isChosen of [true, false]) {
      await page.locator('.offer', { hasText: 'own-9' }).getByRole('checkbox').press('Enter')
      expect(await isChecked(page, 'own-9')).toBe(isChosen)
    }
    await page.goBack()
    await page.getByLabel('API key').waitFor()
    await page.goForward()
    await page.getByLabel('Search models').waitFor()
    expect(await isChecked(page, 'gpt-4o-mini')).toBe(true)
    await page.getByText('Add a model by name').click()
    await page.getByLabel('Model name at the provider').fill('hidden-1')
    await page.keyboard.press('Enter')
    await page.getByLabel('Offered as').last().fill('openai/gpt-4o-mini')
    expect(await page.getByText('Another chosen model has this name.').count()).toBe(2)
    await page.getByLabel('Offered as').last().fill('lab/hidden')
    for (const label of ['Input', 'Output']) await page.getByLabel(`${label}, $ per million`).first().fill('0')
    await press(page, 'Add groq with 2 models')
    await page.getByRole('heading', { name: 'Added groq with 2 models' }).waitFor()
    await page.getByText('Already exist, and get a fallback route to groq').waitFor()
  })

  test("a new model takes an upstream's model name from its list, with its known price", async () => {
    await visit.open('/models', 'Models')
    await page.getByRole('link', { name: 'New model' }).click()
    await page.getByLabel('Upstream', { exact: true }).selectOption('openai')
    await page.getByLabel('Upstream model ID').fill('gpt-4o')
    await page.getByText(/^\$[\d.]+ in, \$[\d.]+ out per million, 128,000 tokens$/).waitFor()
    await page.getByLabel('Model ID', { exact: true }).fill('openai/o3')
    await expectAccessible(page)
    await press(page, 'Create model')
    await page.getByText('openai/o3 already exists. Choose another name, or add a route to it.').waitFor()
    await page.getByLabel('Model ID', { exact: true }).fill('')
    await press(page, 'Create model')
    const drawer = page.getByRole('dialog', { name: 'openai/gpt-4o', exact: true })
    await drawer.getByRole('button', { name: 'Test openai/gpt-4o' }).click()
    await drawer.getByText(/^Works: /).waitFor()
  })
})
