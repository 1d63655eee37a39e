/** Pages far from their server: which requests wait for others. A gate lets one round of requests pass at a time. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { BrowserContext, BrowserContextOptions, Page } from 'playwright-core'
import { type Browsing, hasNoBrowser, isFirefox, PASSWORD, startBrowsing, type Visit } from '../../browser/browsing.ts'
import { writeMonth } from '../../pictures/month.ts'

/** Over HTTP/1.1, to one host. */
const AT_ONCE = 6

interface Held {
  /** Below `/admin/`, without hashes. */
  name: string
  release(): void
}

/** Once closed, it holds the browser's requests until they are released. */
function createDoor(origin: string) {
  let held: Held[] = []
  let isClosed = false
  let look = () => {}
  const server = Bun.serve({
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      const { pathname, search } = new URL(request.url)
      const name = pathname.replace('/admin/', '').replace(/assets\/\w+/, 'asset')
      if (isClosed) {
        await new Promise<void>((release) => {
          held.push({ name, release })
          look()
        })
      }
      const { method, headers, body } = request
      return fetch(origin + pathname + search, { method, headers, body, decompress: false })
    },
  })
  return {
    origin: `http://127.0.0.1:${server.port}`,
    /** Waits until this many requests are held, and releases them together. */
    async release(count: number): Promise<string[]> {
      await new Promise<void>((resolve, reject) => {
        const giveUp = () => reject(new Error(`Only ${held.map(({ name }) => name)} came.`))
        const late = setTimeout(giveUp, 20_000)
        look = () => {
          if (held.length < count) return
          clearTimeout(late)
          resolve()
        }
        look()
      })
      const round = held
      held = []
      for (const { release } of round) release()
      return round.map(({ name }) => name).sort()
    },
    close() {
      held = []
      isClosed = true
    },
    end: () => server.stop(true),
  }
}

describe.skipIf(hasNoBrowser || isFirefox)('in a browser', () => {
  let browsing: Browsing
  let door: ReturnType<typeof createDoor>
  let visit: Visit
  let state: Awaited<ReturnType<BrowserContext['storageState']>>
  beforeAll(async () => {
    const environment = { OPENAI_API_KEY: 'none', ANTHROPIC_API_KEY: 'none' }
    browsing = await startBrowsing([], { environment }, (data) => writeMonth(data, Date.now(), 'http://127.0.0.1:9/v1'))
    visit = await browsing.visit()
    await browsing.setUp(visit, 'ann', 'Overview')
    // Cookies are named by port.
    door = createDoor(browsing.origin)
    const context = await newContext()
    const page = await context.newPage()
    await page.goto(`${door.origin}/admin`)
    await page.getByLabel('Name').fill('ann')
    await page.getByLabel('Password').fill(PASSWORD)
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    state = await context.storageState()
    await context.close()
  })
  afterAll(async () => {
    door?.end()
    await visit?.close()
    await browsing?.close()
  })

  /** With an empty cache. */
  async function newContext(options: BrowserContextOptions = {}): Promise<BrowserContext> {
    const browser = visit.context.browser()
    if (browser === null) throw new Error('there is no browser')
    const context = await browser.newContext(options)
    context.setDefaultTimeout(20_000)
    return context
  }

  /** @param data the requests that the page sends first. */
  async function walk(path: string, data: readonly string[], shows: (page: Page) => Promise<void>) {
    const context = await newContext({ storageState: state })
    const page = await context.newPage()
    door.close()
    try {
      const opening = page.goto(`${door.origin}/admin/${path}`, { waitUntil: 'commit' })
      const { headers } = await fetch(`${browsing.origin}/admin/${path}`)
      const links = (headers.get('link') ?? '').split(', ')
      expect(links.length).toBeWithin(3, AT_ONCE + 1)
      expect(await door.release(1)).toEqual([path])
      await opening
      const parts = links.map((link) => (link.includes('/api/') ? 'api/session' : /css|js/.exec(link)?.[0]))
      expect(await door.release(links.length)).toEqual(
        parts.map((part) => (part === 'api/session' ? part : `asset.${part}`)).sort(),
      )
      expect(data.length).toBeWithin(1, AT_ONCE + 1)
      expect(await door.release(data.length)).toEqual(data.map((name) => `api/${name}`).sort())
      // All further requests are held from here on.
      await shows(page)
    } finally {
      await context.close()
    }
  }

  test('Overview shows its figures after three round trips', () =>
    walk('', ['attention', 'failures', 'upstreams', 'usage', 'usage', 'usage'], (page) =>
      page.getByRole('definition').filter({ hasText: '$' }).first().waitFor(),
    ))

  test('Keys, Requests, and Models show their rows after three round trips', async () => {
    const showsRows = (page: Page) => page.getByRole('row').nth(1).waitFor()
    await walk('keys', ['keys'], showsRows)
    await walk('requests', ['requests', 'requests/live'], showsRows)
    await walk('models', ['models'], showsRows)
  })
})
