/**
 * Chats in the playground, with the demo model, and with an upstream that waits, calls tools, fails, or breaks off on
 * request.
 */
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
import { type ScriptedUpstream, startUpstream } from '../../support/upstream.ts'
import { errorAnswer, type StreamEnd, type StreamStep } from '../../support/upstream-answers.ts'

const FACTS = `context_length: 128000, max_output_length: 4096, input_modalities: [text, image], output_modalities: [text],
      supported_features: [tools, reasoning, structured_outputs, json_mode]`

const toCatalog = (url: string) => `version: 1
upstreams:
  demo: { dialect: demo, local: true }
  theirs: { dialect: openai, base_url: "${url}", local: true }
models:
  tollgate/demo: { name: Demo, ${FACTS}, routes: [{ upstream: demo, model: demo }] }
  acme/large:
    { name: Large, ${FACTS}, pricing: [{ prompt: "0.000001", completion: "0.00001" }],
      routes: [{ upstream: theirs, model: m, pricing: [{ prompt: "0.000001", completion: "0.00001" }] }] }
`

/** Parts of its chat completions. */
const frame = (delta: object, finish: string | null = null): StreamStep => ({
  ...{ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm' },
  choices: [{ index: 0, delta, finish_reason: finish }],
})
const answer = (steps: StreamStep[], end: StreamEnd = 'done') => ({ kind: 'stream' as const, steps, end })
const USAGE: StreamStep = {
  ...{ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [] },
  usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
}

const PIXEL = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
)

describe.skipIf(hasNoBrowser)('in a browser', () => {
  let upstream: ScriptedUpstream
  let browsing: Browsing
  let visit: Visit
  let page: Page
  const message = () => page.getByLabel('Message', { exact: true })
  const say = async (text: string) => {
    await message().fill(text)
    await page.keyboard.press('Control+Enter')
  }
  const press = (name: string) => page.getByRole('button', { name, exact: true }).last().click()
  const last = (model: string) => page.getByRole('article', { name: `Response from ${model}` }).last()
  const recordOf = (model: string) => last(model).getByRole('link', { name: /^…/ })
  beforeAll(async () => {
    upstream = await startUpstream()
    browsing = await startBrowsing(['--retries', '0', '--disconnect-grace', 'off'])
    const file = await browsing.place.write('catalog.yaml', toCatalog(upstream.url))
    expect((await browsing.place.run('catalog', 'apply', file)).stderr).not.toContain('error')
    visit = await browsing.visit()
    page = visit.page
    await browsing.setUp(visit, 'ann')
  })
  afterAll(async () => {
    await visit?.close()
    await browsing?.close()
    await upstream?.stop()
  })

  test('an empty page says that nothing is stored, and the first answer comes from the demo', async () => {
    await page.keyboard.press('g')
    await page.keyboard.press('p')
    await page.getByRole('heading', { level: 1, name: 'Playground' }).waitFor()
    await page.getByText('Conversations are lost when you close or reload this tab.').waitFor()
    await page.getByLabel('Model', { exact: true }).selectOption('tollgate/demo')
    expect(page.url()).toContain('model=tollgate%2Fdemo')
    await expectAccessible(page)
    await say('Hello <b>you</b>')
    await recordOf('tollgate/demo').waitFor()
    const text = await last('tollgate/demo').textContent()
    expect(text).toContain('You wrote: Hello <b>you</b>')
    expect(text).toMatch(/Time to first token\d+ ms.*Tokens\d\d.*Cost\$0\.00/)
    await expectAccessible(page)
  })

  test('the request is recorded with the key of its user, and the thread is still there after a visit elsewhere', async () => {
    await recordOf('tollgate/demo').click()
    await page.getByRole('heading', { level: 1, name: /^Request/ }).waitFor()
    await page.getByRole('link', { name: 'playground of ann' }).waitFor()
    await page.goBack()
    await page.getByText('You wrote: Hello <b>you</b>').waitFor()
  })

  test('a streaming answer is shown and measured, its reasoning collapsed, until Escape stops it', async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    const before = [frame({ role: 'assistant', reasoning_content: 'Hm, the sea.' }), frame({ content: 'Blue it is' })]
    upstream.script(answer([...before, { until: promise }, frame({ content: 'never' }), frame({}, 'stop')]))
    await visit.open('/playground?model=acme%2Flarge', 'Playground')
    await say('The sea?')
    await page.getByText('Blue it is').waitFor()
    await last('acme/large').getByText('~$0.0000').waitFor()
    expect(await page.getByText('Hm, the sea.').isVisible()).toBe(false)
    await expectAccessible(page)
    await page.keyboard.press('Escape')
    await last('acme/large').getByText('Stopped.').waitFor()
    await upstream.waitFor((seen) => seen.at(-1)?.abortedAtMs !== null, 'the call to end')
    resolve()
    await last('acme/large').locator('summary').click()
    await page.getByText('Hm, the sea.').waitFor()
    expect(await page.getByText('never').count()).toBe(0)
  })

  test('failed and interrupted answers show why, and can be retried', async () => {
    upstream.script(answer([frame({ content: 'Half a' })], 'cut'))
    await say('Again')
    await last('acme/large').getByText('Response interrupted.').waitFor()
    expect(await last('acme/large').textContent()).toContain('Half a')
    upstream.script(errorAnswer(500))
    await press('Regenerate with acme/large')
    await last('acme/large').getByText('returned 500').waitFor()
    await expectAccessible(page)
    upstream.script(answer([frame({ content: 'Whole' }), frame({}, 'stop'), USAGE]))
    await press('Send to acme/large')
    await last('acme/large').getByText('Whole').waitFor()
    await last('acme/large').getByText('$0.00006', { exact: true }).waitFor()
    const sent = upstream.requests.at(-1)?.json?.messages
    expect(sent).toEqual([
      { role: 'user', content: 'The sea?' },
      { role: 'assistant', content: 'Blue it is' },
      { role: 'user', content: 'Again' },
    ])
  })

  test('streaming Markdown is formatted, runs and loads nothing, and can be copied and shown raw', async () => {
    const code = '```ts\nif (a) {\n  b()\n}\n```'
    const text = `# Plan\n\nSee [this](javascript:alert(1)) and [that](https://example.com/x).\n\n![cat](https://example.com/cat.png)\n\n${code}\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n<img src=x onerror=alert(1)>`
    upstream.script(answer([...(text.match(/.{1,9}/gs) ?? []).map((content) => frame({ content })), frame({}, 'stop')]))
    await say('Format it')
    const shown = last('acme/large')
    await shown.getByRole('heading', { name: 'Plan' }).waitFor()
    await shown.getByText('onerror=alert(1)').waitFor()
    expect(await shown.locator('pre').textContent()).toBe('if (a) {\n  b()\n}')
    expect(await shown.getByRole('cell').count()).toBe(2)
    expect(await shown.locator('img').count()).toBe(0)
    expect(await shown.locator('.markdown a').evaluateAll((all) => all.map((one) => one.getAttribute('href')))).toEqual(
      ['https://example.com/x', 'https://example.com/cat.png'],
    )
    await expectAccessible(page)
    await press('Show raw text of response from acme/large')
    await shown.getByText('![cat](https://example.com/cat.png)').waitFor()
    await press('Remove message 3 and its responses')
  })

  test('a thread that is cleared while streaming stops, and is restored stopped', async () => {
    upstream.script(answer([frame({ content: 'On and' })], 'hang'))
    await say('And on')
    await page.getByText('On and').waitFor()
    await press('Clear')
    await press('Undo clear')
    await last('acme/large').getByText('Stopped.').waitFor()
    expect(await page.getByRole('button', { name: 'Stop', exact: true }).count()).toBe(0)
    await press('Remove message 3 and its responses')
    upstream.script(answer([frame({ content: 'Whole' }), frame({}, 'stop'), USAGE]))
  })

  test('messages are edited, removed, and sent again', async () => {
    await press('Edit message 1')
    await page.getByLabel('Message 1', { exact: true }).last().fill('The wood?')
    await page.keyboard.press('Control+Enter')
    await page.getByText('The wood?').waitFor()
    await upstream.waitFor(
      (seen) => (seen.at(-1)?.json?.messages as unknown[] | undefined)?.length === 1,
      'the edited message',
    )
    await recordOf('acme/large').waitFor()
    expect(upstream.requests.at(-1)?.json?.messages).toEqual([{ role: 'user', content: 'The wood?' }])
    await press('Remove message 2 and its responses')
    expect(await page.getByRole('article', { name: /^Message/ }).count()).toBe(1)
    await press('Clear')
    await press('Undo clear')
    await page.getByText('The wood?').waitFor()
    await press('Clear')
  })

  test('invalid tools are reported with their line, and nothing is sent until they are fixed', async () => {
    const before = upstream.requests.length
    await page.locator('summary', { hasText: 'Tools' }).click()
    await page.getByLabel('Tools (JSON)').fill('[\n  {"name": "get_weather",}\n]')
    await page.getByText(/^Invalid JSON: .*line 2 column 26/).waitFor()
    await page.locator('summary', { hasText: 'Tools' }).click()
    await say('What does get_weather say?')
    await page
      .getByRole('alert')
      .getByText(/line 2 column 26/)
      .waitFor()
    await page.getByLabel('Tools (JSON)').and(page.locator(':focus')).waitFor()
    expect(upstream.requests.length).toBe(before)
    await page.getByLabel('Tools (JSON)').fill('')
    await press('Insert example')
    await page.locator('summary', { hasText: 'Parameters' }).click()
    await page.getByLabel('Temperature').fill('0.5')
    await expectAccessible(page)
  })

  test('two models answer side by side, and each continues once its tool has a result', async () => {
    await press('Compare models')
    await page.getByLabel('Second model').selectOption('tollgate/demo')
    upstream.script(answer([frame({ content: 'I do not know' }), frame({}, 'stop'), USAGE]))
    await message().focus()
    await page.keyboard.press('Control+Enter')
    await last('acme/large').getByText('I do not know').waitFor()
    await last('tollgate/demo').getByText('"city"').waitFor()
    expect(upstream.requests.at(-1)?.json).toMatchObject({ temperature: 0.5, tools: [{ type: 'function' }] })
    await expectAccessible(page)
    await say('And now?')
    await page.getByText('Enter the result of the tool call above first').waitFor()
    await message().fill('')
    await page.getByLabel('Result').fill('{"degrees": 21}')
    await page.keyboard.press('Control+Enter')
    await last('tollgate/demo').getByText('The tools answered: {"degrees": 21}').waitFor()
    expect(await page.getByRole('article', { name: 'Response from acme/large' }).count()).toBe(1)
  })

  test('a link to the page finds both models, and their answers', async () => {
    const playground = page.getByRole('link', { name: 'Playground', exact: true }).first()
    for (const link of [page.getByRole('link', { name: 'Models', exact: true }).first(), playground, playground]) {
      await link.click()
    }
    await last('acme/large').getByText('I do not know').waitFor()
    await last('tollgate/demo').getByText('The tools answered').waitFor()
    expect(new URL(page.url()).searchParams.get('beside')).toBe('tollgate/demo')
  })

  test('the request is shown as code, and the code does the same', async () => {
    await press('View code')
    await expectAccessible(page)
    const { stdout } = await browsing.place.run('keys', 'create', '--name', 'dev', '--json')
    const text = (await page.locator('.code code').textContent()) ?? ''
    if (Bun.which('curl') !== null) {
      const ran = await Bun.$`sh -c ${text.replace('YOUR_KEY', JSON.parse(stdout).key)}`.quiet().text()
      expect(ran).toContain('I do not know')
      expect(upstream.requests.at(-1)?.json).toMatchObject({ temperature: 0.5, stream: true })
    }
    for (const language of ['TypeScript', 'Python', 'JavaScript', 'Go']) {
      await page.getByRole('tab', { name: language, exact: true }).click()
      await page.locator('.code code', { hasText: 'get_weather' }).waitFor()
    }
    await page.keyboard.press('Escape')
  })

  test('an image is sent, and a file that is not an image is rejected', async () => {
    await press('Clear')
    await page.locator('input[type=file]').setInputFiles({ name: 'a.txt', mimeType: 'text/plain', buffer: PIXEL })
    await page.getByText('a.txt is not a PNG, JPEG, WebP, or GIF image.').waitFor()
    await page.locator('input[type=file]').setInputFiles({ name: 'a.png', mimeType: 'image/png', buffer: PIXEL })
    await page.getByRole('img', { name: 'a.png' }).waitFor()
    await expectAccessible(page)
    await say('What is it?')
    await last('acme/large').getByText('I do not know').waitFor()
    const url = `data:image/png;base64,${PIXEL.toString('base64')}`
    expect(upstream.requests.at(-1)?.json?.messages).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is it?' },
          { type: 'image_url', image_url: { url } },
        ],
      },
    ])
  })

  test('a removed model is reported, and the thread survives the end of a session', async () => {
    await press('Remove tollgate/demo')
    await page.getByText('What is it?').waitFor()
    await visit.open('/playground?model=acme%2Fgone', 'Playground')
    await page.getByText("Model not found, or you don't have access to it.").waitFor()
    await say('Hello?')
    await last('acme/gone').getByText('model not found: `acme/gone`').waitFor()
    await page.getByLabel('Model', { exact: true }).selectOption('tollgate/demo')
    await visit.context.clearCookies()
    await say('Still there?')
    const again = page.getByRole('dialog', { name: 'Sign in again' })
    await again.getByLabel('Password').fill(PASSWORD)
    await page.keyboard.press('Enter')
    await again.waitFor({ state: 'detached' })
    await page.getByText('Still there?').waitFor()
    await press('Send to tollgate/demo')
    await last('tollgate/demo').getByText('You wrote: Still there?').waitFor()
    await press('Sign out')
    await page.getByLabel('Name').fill('ann')
    await page.getByLabel('Password').fill(PASSWORD)
    await page.keyboard.press('Enter')
    await page.getByText('Send a message to start.').waitFor()
  })

  test('everything works on a phone in the dark theme', async () => {
    const phone = await browsing.visit({ width: 390, colours: 'dark', state: await visit.context.storageState() })
    await phone.open('/playground?model=tollgate%2Fdemo&beside=tollgate%2Fdemo', 'Playground')
    await phone.page.getByLabel('Message', { exact: true }).fill('Hello')
    await phone.page.getByRole('button', { name: 'Send', exact: true }).click()
    await phone.page.getByText('Request', { exact: true }).nth(1).waitFor()
    await expectAccessible(phone.page)
    expect(Number(await phone.page.evaluate('document.documentElement.scrollWidth'))).toBeLessThanOrEqual(390)
    await phone.close()
  })

  test('it requires signing in, and viewers are not offered it', async () => {
    const { stdout } = await browsing.place.run('admin', 'create', 'vic', '--role', 'viewer')
    const viewer = await browsing.visit()
    await viewer.open('/playground', 'Sign in')
    await viewer.page.getByRole('link', { name: 'Use a code' }).click()
    await viewer.page.getByLabel('Name').fill('vic')
    await viewer.page.getByLabel('Code').fill(stdout.trim())
    await viewer.page.getByLabel('New password').fill(PASSWORD)
    await viewer.page.keyboard.press('Enter')
    const pages = viewer.page.getByRole('navigation', { name: 'Pages' }).first()
    await pages.waitFor()
    expect(await pages.getByRole('link', { name: 'Models' }).count()).toBe(1)
    expect(await pages.getByRole('link', { name: 'Playground' }).count()).toBe(0)
    await viewer.open('/playground', 'No access')
    await viewer.close()
  })
})
