/** The dashboard in WebKit: each page, and a user's first steps. Other files cover the other browsers. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type Browsing, expectAccessible, isFirefox, PASSWORD, startBrowsing } from '../../browser/browsing.ts'
import { hasNoWebKit, startWebKit, type WebKit } from '../../browser/webkit.ts'

const LISTEN = `
  window.complaints = []
  for (const name of ['error', 'unhandledrejection', 'securitypolicyviolation'])
    addEventListener(name, (event) => complaints.push(name + ': ' + (event.message ?? event.reason ?? event.blockedURI)))
  const { error } = console
  console.error = (...words) => { complaints.push(words.join(' ')); error(...words) }
`
const PATHS = [
  ...['/start', '/keys', '/keys/new', '/requests', '/models', '/models/catalog', '/upstreams', '/teams', '/people'],
  ...[
    '/audit',
    '/playground',
    '/reference',
    '/settings',
    '/settings/server',
    '/settings/alerts',
    '/settings/backups',
    '/settings/tokens',
  ],
  ...['/account', '/?range=today'],
]
/** Follows a link within the page, so that its errors are still recorded. */
const follow = (path: string) => `
  const link = Object.assign(document.createElement('a'), { href: '/admin${path}' })
  document.body.append(link)
  link.click()
  link.remove()
`
/** Waits until the data have loaded. */
const READ = `new Promise((resolve) => {
  const look = () => (document.querySelector('[aria-busy=true]') ? setTimeout(look, 50) : resolve())
  look()
})`
const SIDEWAYS = 'document.documentElement.scrollWidth - innerWidth'
const ENTER = '\uE007'
const button = (name: string) => `//button[normalize-space()="${name}"]`
const titled = (title: string) => `//h1[normalize-space()="${title}"]`

describe.skipIf(hasNoWebKit || isFirefox)('in WebKit', () => {
  let browsing: Browsing
  let webkit: WebKit
  beforeAll(async () => {
    browsing = await startBrowsing()
    webkit = await startWebKit()
    await webkit.setWidth(1_280)
  })
  afterAll(async () => {
    await webkit?.close()
    await browsing?.close()
  })

  test('an owner sets up, creates a key, and sees its first request arrive', async () => {
    const { stdout } = await browsing.place.run('admin', 'code')
    await webkit.open(`${browsing.origin}/admin/setup#${stdout.trim()}`)
    await webkit.fill('Your name', 'ann')
    await webkit.fill('Password', PASSWORD)
    await webkit.click(button('Create account'))
    await webkit.see(titled('Start'))
    await webkit.evaluate(LISTEN)
    await webkit.evaluate(follow('/keys/new'))
    await webkit.see(titled('New key'))
    await webkit.fill('Name', 'dev')
    await webkit.press(ENTER)
    await webkit.see(titled('Key dev'))
    const secret = await webkit.evaluate<string>(`document.querySelector('.secret code').textContent`)
    const response = await fetch(`${browsing.server.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'tollgate/demo', messages: [{ role: 'user', content: 'Hello' }] }),
    })
    expect(response.status).toBe(200)
    await webkit.see('//span[contains(.,"First request received")]')
  })

  test('the playground streams an answer', async () => {
    await webkit.evaluate(follow('/playground'))
    await webkit.see(titled('Playground'))
    await webkit.fill('Message', 'Hello')
    await webkit.click(button('Send'))
    await webkit.see('//article[contains(.,"Hello")]')
  })

  test.each([
    ['a screen', 1_280],
    // As narrow as its window gets, about 450 px.
    ['a phone', 390],
  ])(
    'on %s, each page is accessible and makes the browser complain of nothing',
    async (_, width) => {
      await webkit.setWidth(width)
      await webkit.open(`${browsing.origin}/admin/start`)
      await webkit.see(titled('Start'))
      await webkit.evaluate(LISTEN)
      for (const path of PATHS) {
        await webkit.evaluate(follow(path))
        await webkit.see('//h1')
        await webkit.evaluate(READ)
        await expectAccessible(webkit)
        expect([path, await webkit.evaluate(SIDEWAYS)]).toEqual([path, 0])
      }
      expect(await webkit.evaluate<string[]>('complaints')).toEqual([])
    },
    180_000,
  )
})
