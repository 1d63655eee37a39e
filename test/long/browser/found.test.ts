/**
 * Discovered providers on the page of upstreams: an owner adds one by a click; other roles can't see or start
 * discovery.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import {
  type Browsing,
  expectAccessible,
  hasNoBrowser,
  PASSWORD,
  startBrowsing,
  type Visit,
} from '../../browser/browsing.ts'
import { ENGINE_FACTS } from '../../fixtures/engines/facts.ts'

const ANSWERS = ENGINE_FACTS.find(({ engine }) => engine === 'LM Studio')?.answers ?? {}
const SECRET = 'gsk-never-shown-0123456789'

/** A model server at its usual port, and the requests it received. */
function startStudio() {
  const asked: string[] = []
  try {
    const server = Bun.serve({
      ...{ port: 1234, hostname: '127.0.0.1' },
      fetch({ method, url }) {
        const { pathname } = new URL(url)
        asked.push(`${method} ${pathname}`)
        const found = ANSWERS[`${method} ${pathname}`]
        return found ? Response.json(found) : new Response('', { status: 404 })
      },
    })
    return { asked, stop: () => server.stop(true) }
  } catch {
    console.warn('left out: something is at port 1234 of this machine')
    return null
  }
}

const studio = hasNoBrowser ? null : startStudio()

describe.skipIf(studio === null)('in a browser', () => {
  let browsing: Browsing
  let visit: Visit
  beforeAll(async () => {
    browsing = await startBrowsing([], { environment: { GROQ_API_KEY: SECRET } })
    visit = await browsing.visit()
    await browsing.setUp(visit, 'ann')
  })
  afterAll(async () => {
    await visit?.close()
    await browsing?.close()
    await studio?.stop()
  })

  test("only owners see discovered servers, and other users' visits start no discovery", async () => {
    const { stdout } = await browsing.place.run('admin', 'create', 'ed', '--role', 'editor')
    const { page, open, close } = await browsing.visit()
    await open('/', 'Sign in')
    await page.getByRole('link', { name: 'Use a code' }).click()
    await page.getByLabel('Name').fill('ed')
    await page.getByLabel('Code').fill(stdout.trim())
    await page.getByLabel('New password').fill(PASSWORD)
    await page.keyboard.press('Enter')
    await page.getByRole('navigation').waitFor()
    await open('/upstreams', 'Upstreams')
    await page.getByRole('table', { name: 'Upstreams' }).waitFor()
    expect(await page.getByRole('heading', { name: 'Found on this machine' }).count()).toBe(0)
    await close()
    expect(studio?.asked).toEqual([])
  })

  test('a model server is added with its models by one click, a provider only by its variable', async () => {
    const { page, open } = visit
    await open('/upstreams', 'Upstreams')
    await page.getByText('GROQ_API_KEY').waitFor()
    await page.getByRole('link', { name: 'Add groq' }).waitFor()
    await page.getByText('http://127.0.0.1:1234/v1').waitFor()
    await expectAccessible(page)
    expect(await page.content()).not.toContain(SECRET)
    await page.getByRole('button', { name: 'Add lmstudio' }).click()
    await page.getByRole('link', { name: 'lmstudio', exact: true }).waitFor()
    await page.getByRole('button', { name: 'Add lmstudio' }).waitFor({ state: 'detached' })
    const { models } = JSON.parse((await browsing.place.run('models', 'list', '--json')).stdout)
    expect(models.map(({ slug }: { slug: string }) => slug)).toContain('google/gemma-3-4b')
  })

  test('a removed one is found again', async () => {
    const { page, open } = visit
    await open('/upstreams?upstream=lmstudio', 'Upstreams')
    await page.getByRole('button', { name: 'Remove', exact: true }).click()
    await page.getByRole('button', { name: 'Preview changes' }).click()
    await page.getByRole('button', { name: 'Remove lmstudio' }).click()
    await page.getByRole('button', { name: 'Add lmstudio' }).waitFor()
  })
})
