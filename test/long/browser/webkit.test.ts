/** The dashboard in WebKit: each page, and what a person does first. The other browsers are in the other files. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type Browsing, expectAccessible, PASSWORD, startBrowsing } from '../../browser/browsing.ts'
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
  ...['/audit', '/playground', '/reference', '/settings', '/settings/server', '/settings/backups', '/settings/tokens'],
  ...['/account', '/?range=today'],
]
/** Follows a link within the page, so that its complaints go on being heard. */
const follow = (path: string) => `
  const link = Object.assign(document.createElement('a'), { href: '/admin${path}' })
  document.body.append(link)
  link.click()
  link.remove()
`
const ENTER = '\uE007'
const button = (name: string) => `//button[normalize-space()="${name}"]`
const titled = (title: string) => `//h1[normalize-space()="${title}"]`

describe.skipIf(hasNoWebKit)('in WebKit', () => {
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
    await fetch(`${browsing.server.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${secret}` },
      body: JSON.stringify({ model: 'tollgate/demo', messages: [{ role: 'user', content: 'Hello' }] }),
    })
    await webkit.see('//span[contains(.,"First request received")]')
  })

  test('the playground streams an answer', async () => {
    await webkit.evaluate(follow('/playground'))
    await webkit.see(titled('Playground'))
    await webkit.fill('Message', 'Hello')
    await webkit.click(button('Send'))
    await webkit.see('//article[contains(.,"Hello")]')
  })

  test('each page is accessible and makes the browser complain of nothing, on a screen and on a phone', async () => {
    for (const path of PATHS) {
      await webkit.evaluate(follow(path))
      await webkit.see('//h1')
      await webkit.evaluate(`new Promise((resolve) => {
        const look = () => (document.querySelector('[aria-busy=true]') ? setTimeout(look, 50) : resolve())
        look()
      })`)
      await expectAccessible(webkit)
      // As narrow as its window gets.
      await webkit.setWidth(390)
      await expectAccessible(webkit, ['target-size'])
      expect({
        path,
        sideways: await webkit.evaluate<number>('document.documentElement.scrollWidth - innerWidth'),
      }).toEqual({
        ...{ path, sideways: 0 },
      })
      await webkit.setWidth(1_280)
    }
    expect(await webkit.evaluate<string[]>('complaints')).toEqual([])
  }, 180_000)
})
