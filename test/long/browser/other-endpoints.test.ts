/** The playground for models that don't chat: each kind can be tried, shows its cost, and has its code. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import {
  type Browsing,
  expectAccessible,
  expectWhole,
  hasNoBrowser,
  startBrowsing,
  type Visit,
} from '../../browser/browsing.ts'
import { loadAudio } from '../../support/audio-forms.ts'
import { type MediaUpstream, PICTURE, startMediaUpstream, toMediaCatalog } from '../../support/media-upstream.ts'

describe.skipIf(hasNoBrowser)('in a browser', () => {
  let browsing: Browsing
  let upstream: MediaUpstream
  let visit: Visit
  let page: Page
  beforeAll(async () => {
    upstream = startMediaUpstream()
    browsing = await startBrowsing(['--retries', '0'], { environment: { MEDIA_KEY: 'none' } })
    const file = await browsing.place.write('catalog.yaml', toMediaCatalog(upstream.url))
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

  const open = (model: string) => visit.open(`/playground?model=acme%2F${model}`, 'Playground')
  const press = (name: string) => page.getByRole('button', { name, exact: true }).click()
  /** The newest result. */
  const made = () => page.getByRole('article').first()
  const ranked = async () => {
    await made().locator('.ranked li').first().waitFor()
    return made().locator('.ranked li').allTextContents()
  }
  const field = (name: string) => page.getByLabel(name, { exact: true })

  test('text becomes speech, and the audio plays', async () => {
    await open('speech')
    await field('Text').fill('Hello there!')
    await field('Voice').fill('nova')
    await field('Format').fill('wav')
    await press('Speak')
    const audio = made().locator('audio')
    await audio.waitFor()
    expect(upstream.asked.at(-1)).toMatchObject({ input: 'Hello there!', voice: 'nova', response_format: 'wav' })
    const played = "((audio) => audio.play().then(() => audio.duration))(document.querySelector('audio'))"
    expect(await page.evaluate<number>(played)).toBe(1)
    // 12 characters.
    await made().getByText('$0.00018', { exact: true }).waitFor()
    await expectAccessible(page)
  })

  test('an audio file is transcribed by keyboard only, and translated', async () => {
    await open('whisper')
    await press('Transcribe')
    await page.getByText('Audio file: choose one.').waitFor()
    await field('Audio file').setInputFiles({ name: 'a.mp3', mimeType: 'audio/mpeg', buffer: loadAudio('lame.mp3') })
    await field('Language').fill('en')
    await page.keyboard.press('Enter')
    await made().getByText('The quick brown fox.').waitFor()
    expect(upstream.asked.at(-1)).toMatchObject({ model: 'whisper', language: 'en' })
    await made().getByText('$0.0001', { exact: true }).waitFor()
    await expectAccessible(page)
    await field('Use for').selectOption('translations')
    await press('Translate')
    await made().getByText('Good morning.').waitFor()
    await field('Model').selectOption('acme/images')
    await field('Use for').selectOption('image_edits')
    await press('Edit')
    await page.getByText('Prompt: enter something.').waitFor()
    await field('Prompt').fill('Make it night')
    await press('Edit')
    await page.getByText('Image: choose one.').waitFor()
    await field('Prompt').fill('')
    await field('Model').selectOption('acme/whisper')
    await page.getByRole('button', { name: 'Transcribe', exact: true }).waitFor()
    expect(await field('Audio file').inputValue()).toEndWith('a.mp3')
  })

  test("images are generated and shown; the form shows a provider's refusal", async () => {
    await open('images')
    await field('Prompt').fill('A green square')
    await field('Count').fill('2')
    upstream.fail('Your prompt is not allowed.')
    await press('Generate')
    await page.getByText('Your prompt is not allowed.').waitFor()
    await expectAccessible(page)
    await field('Count').fill('two')
    await press('Generate')
    await page.getByText('Enter a number.').waitFor()
    await field('Count').fill('2')
    await field('Prompt').press('Control+Enter')
    await made().getByRole('img', { name: 'A green square' }).nth(1).waitFor()
    expect(await made().locator('img').count()).toBe(2)
    await made().getByText('$0.08', { exact: true }).waitFor()
    await field('Use for').selectOption('image_edits')
    await field('Image').setInputFiles({ name: 'a.png', mimeType: 'image/png', buffer: Buffer.from(PICTURE, 'base64') })
    await field('Prompt').fill('Make it blue')
    await press('Edit')
    await made().getByRole('img', { name: 'Make it blue' }).waitFor()
    await made().getByText('a.png: Make it blue').waitFor()
    expect(upstream.asked.at(-1)).toMatchObject({ prompt: 'Make it blue', image: { type: 'image/png' } })
  })

  test('documents are ranked; texts are classified and compared', async () => {
    await open('rerank')
    await field('Query').fill('fox')
    await field('Documents').fill('a fox\n\na dog')
    await press('Rank')
    expect(await ranked()).toEqual(['0.500 a fox', '0.333 a dog'])
    await made().getByText('$0.002', { exact: true }).waitFor()
    await field('Model').selectOption('acme/unpriced')
    await press('Rank')
    await made().getByText('unpriced', { exact: true }).waitFor()
    await open('moderation')
    await field('Text').fill('fight')
    await field('Text').press('Control+Enter')
    await made().getByText('Flagged', { exact: true }).waitFor()
    await made().getByText('$0.00', { exact: true }).waitFor()
    await open('embeddings')
    await press('Embed')
    await page.getByText('Texts: enter something.').waitFor()
    await field('Texts').fill('one\ntwo')
    await press('Embed')
    expect(await ranked()).toEqual(['1.000 one', '0.707 two'])
  })

  test('the request is recorded, its code is for its endpoint, and Clear removes everything', async () => {
    await press('View code')
    await page.getByText('/v1/embeddings').first().waitFor()
    await page.getByRole('tab', { name: 'Python' }).click()
    await page.getByText('client.embeddings.create(').waitFor()
    await expectAccessible(page)
    await page.keyboard.press('Escape')
    await made().getByRole('link', { name: '…' }).click()
    await page.getByRole('heading', { level: 1, name: /^Request/ }).waitFor()
    await page.getByText('playground of ann').waitFor()
    await page.goBack()
    await made().waitFor()
    await press('Clear')
    expect(await page.getByRole('article').count()).toBe(0)
  })

  test('on a phone nothing is cut off', async () => {
    const phone = await browsing.visit({ width: 390, state: await visit.context.storageState() })
    for (const model of ['speech', 'whisper', 'images', 'rerank', 'moderation', 'embeddings']) {
      await phone.open(`/playground?model=acme%2F${model}`, 'Playground')
      await expectWhole(phone.page)
    }
    await phone.close()
  })
})
