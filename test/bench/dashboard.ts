/**
 * Page load time on a long history, and a chat request's cost while live pages are open. In Chromium, only the build
 * under test.
 */
import { type Browser, type BrowserContext, chromium, type Page, type Request } from 'playwright-core'
import { PASSWORD } from '../browser/browsing.ts'
import { CHROMIUM } from '../browser/engine.ts'
import type { History } from './history.ts'
import { type JsonResult, loadJson } from './json-load.ts'
import { CONNECTIONS, serve, writePast } from './past.ts'
import type { Subject } from './subjects.ts'
import { median, medians } from './table.ts'
import { BINARY, MODEL } from './tollgate.ts'

export interface DashboardShape extends History {
  visits: number
  rounds: number
  seconds: number
}

export interface DashboardResult {
  pages: { path: string; alone: PageResult; loaded: PageResult }[]
  beside: { pages: string; load: Record<keyof JsonResult, number> }[]
}

/** The slowest API call, and ms from the first byte until all have responded. */
export interface PageResult {
  slowest: string
  slowestMs: number
  allMs: number
}

/** Pages that read data; forms have nothing to wait for. */
const PAGES = [
  ...['/', '/?range=today', '/?range=30d', '/?range=30d&key=past%207', `/?range=30d&model=${MODEL}`],
  ...['key', 'team', 'owner', 'upstream', 'user'].map((by) => `/?range=30d&by=${by}`),
  ...['/start', '/keys', '/keys?state=all&key=past%207', '/keys/new'],
  ...['/requests', '/requests?status=failed', '/requests?key=past%207', `/requests?model=${MODEL}`],
  ...['/requests?error_code=upstream_error', '/requests?user=user%207', '/requests/ffffffff'],
  ...['/models', `/models?model=${MODEL}`, '/models/catalog', '/upstreams', '/upstreams?upstream=heavy'],
  ...['/teams', '/people', '/account', '/audit', '/playground', '/reference'],
  ...['/settings', '/settings/server', '/settings/backups', '/settings/tokens'],
]
/** Both refresh; the second gets an event per finished request. */
const LIVE = ['/', '/requests']

export async function measureDashboard(
  root: string,
  upstream: string,
  shape: DashboardShape,
): Promise<DashboardResult> {
  console.error(`dashboard: writing ${shape.requests} requests of ${shape.keys} keys`)
  const past = await writePast(shape, root, upstream)
  const server = await serve(past, upstream)
  const browser = await chromium.launch({ executablePath: String(CHROMIUM), args: ['--no-sandbox'] })
  try {
    const context = await enter(browser, server, past.data)
    const measure = async () => {
      const found: PageResult[] = []
      for (const path of PAGES) found.push(await measurePage(context, server, path, shape.visits))
      return found
    }
    const alone = await measure()
    const loaded = await whileLoaded(server, past.folder, shape.seconds, measure)
    const pages = PAGES.flatMap((path, at) => {
      const [one, other] = [alone[at], loaded[at]]
      return one && other ? [{ path, alone: one, loaded: other }] : []
    })
    return { pages, beside: await measureBeside(context, server, past.folder, shape) }
  } finally {
    await browser.close()
    await server.process.drain()
  }
}

async function enter(browser: Browser, { origin }: Subject, data: string): Promise<BrowserContext> {
  const child = Bun.spawn([BINARY, 'admin', 'code', '--data', data], { stdout: 'pipe' })
  const code = (await child.stdout.text()).trim()
  const context = await browser.newContext({ viewport: { width: 1_280, height: 800 } })
  const page = await context.newPage()
  await page.goto(`${origin}/admin/setup#${code}`)
  await page.getByLabel('Your name').fill('bench')
  await page.getByLabel('Password').fill(PASSWORD)
  await page.getByRole('button', { name: 'Create account' }).click()
  await page.waitForURL((url) => !url.pathname.endsWith('/setup'))
  await page.close()
  return context
}

async function whileLoaded<T>(server: Subject, folder: string, seconds: number, work: () => Promise<T>): Promise<T> {
  let isDone = false
  const load = async () => {
    while (!isDone) await loadJson(server, folder, CONNECTIONS, seconds)
  }
  const [result] = await Promise.all([
    work().finally(() => {
      isDone = true
    }),
    load(),
  ])
  return result
}

async function measurePage(
  context: BrowserContext,
  server: Subject,
  path: string,
  visits: number,
): Promise<PageResult> {
  console.error(`dashboard: ${path}`)
  const slowest: { name: string; ms: number }[] = []
  const all: number[] = []
  for (let visit = 0; visit < visits; visit++) {
    const page = await context.newPage()
    const { answers, ms } = await readPage(page, `${server.origin}/admin${path}`)
    await page.close()
    slowest.push(answers.reduce((slow, one) => (one.ms > slow.ms ? one : slow), { name: '-', ms: 0 }))
    all.push(ms)
  }
  const slowestMs = median(slowest.map(({ ms }) => ms))
  const name = slowest.toSorted((a, b) => Math.abs(a.ms - slowestMs) - Math.abs(b.ms - slowestMs))[0]?.name ?? '-'
  return { slowest: name, slowestMs, allMs: median(all) }
}

/** A page that is quiet this long is complete. */
const QUIET_MS = 400

/** Live events never end, so they don't count. */
async function readPage(page: Page, url: string) {
  const answers: { name: string; ms: number }[] = []
  const open = new Set<Request>()
  let lastMs = performance.now()
  const isOfApi = (request: Request) =>
    request.url().includes('/admin/api/') && request.resourceType() !== 'eventsource'
  page.on('request', (request) => {
    lastMs = performance.now()
    if (isOfApi(request)) open.add(request)
  })
  page.on('requestfinished', (request) => {
    if (!open.delete(request)) return
    lastMs = performance.now()
    const { requestStart, responseEnd } = request.timing()
    answers.push({ name: new URL(request.url()).pathname.slice('/admin/api'.length), ms: responseEnd - requestStart })
  })
  page.on('requestfailed', (request) => open.delete(request))
  const began = performance.now()
  await page.goto(url)
  while (open.size > 0 || performance.now() - lastMs < QUIET_MS) await Bun.sleep(5)
  return { answers, ms: lastMs - began }
}

async function measureBeside(
  context: BrowserContext,
  server: Subject,
  folder: string,
  { rounds, seconds }: DashboardShape,
): Promise<DashboardResult['beside']> {
  await loadJson(server, folder, CONNECTIONS, 4 * seconds)
  const openPages = async () => {
    const open: Page[] = []
    for (const path of LIVE) {
      const page = await context.newPage()
      await readPage(page, `${server.origin}/admin${path}`)
      open.push(page)
    }
    return () => Promise.all(open.map((page) => page.close()))
  }
  const beside = [
    { pages: 'none', open: async () => async () => {}, loads: [] as JsonResult[] },
    { pages: 'what they are told, drawn by nobody', open: () => follow(context, server), loads: [] as JsonResult[] },
    { pages: LIVE.join(' and '), open: openPages, loads: [] as JsonResult[] },
  ]
  for (let round = 0; round < rounds; round++)
    for (const { pages, open, loads } of beside) {
      console.error(`dashboard: requests beside open pages: ${pages}`)
      const close = await open()
      loads.push(await loadJson(server, folder, CONNECTIONS, seconds))
      await close()
    }
  return beside.map(({ pages, loads }) => ({ pages, load: medians(loads) }))
}

/** Requested on open, and then every 30 s. */
const ASKED = ['usage?by=day,model&since=7d', 'usage?by=day&since=7d', 'keys', 'status', 'requests?limit=50']

/** Without a browser: drawing uses most of a core, and slows processes on the same one. */
async function follow(context: BrowserContext, { origin }: Subject): Promise<() => Promise<void>> {
  const headers = { cookie: (await context.cookies()).map(({ name, value }) => `${name}=${value}`).join('; ') }
  const gone = new AbortController()
  const live = await fetch(`${origin}/admin/api/requests/live`, { headers, signal: gone.signal })
  const read = live.bytes().catch(() => {})
  for (const path of ASKED) await (await fetch(`${origin}/admin/api/${path}`, { headers })).bytes()
  return async () => {
    gone.abort()
    await read
  }
}
