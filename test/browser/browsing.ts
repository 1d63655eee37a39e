/**
 * Users of the built binary's dashboard, in Chromium or Firefox. Any browser error fails the test: a console error, a
 * failed request, a violation of the page's policy. Without a browser, the tests are skipped with a message.
 */
import { expect } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { BrowserContext, Page, Request } from 'playwright-core'
import { createWorkplace, type RunningBinary, type RunOptions, type Workplace } from '../support/binary.ts'
import { until } from '../support/until.ts'
import { type Colors, createEngine, type TextSize } from './engine.ts'

export { hasNoBrowser, isFirefox } from './engine.ts'

export const PASSWORD = 'a long way to the sea'

/** Errors of upstreams are logged there. */
const PASSED_ON = /^\/admin\/api\/(playground|upstreams\/check|upstreams\/[^/]+\/models)$/

export interface Visit {
  page: Page
  context: BrowserContext
  /** Opens a URL below `/admin` and waits for its title. */
  open(path: string, title: string): Promise<void>
  /** Closes the visit. Throws the browser's errors. */
  close(): Promise<void>
}

interface VisitOptions {
  /** A host name of this machine, if its address can't be used. */
  host?: 'localhost'
  colours?: Colors
  text?: TextSize
  /** CSS pixels; a phone has 390. */
  width?: number
  /** The origin of another site that is visited, too; browser errors there are ignored. */
  elsewhere?: string
  /** Set while its server is down: failed connections are no error then. */
  outage?: { isDown: boolean }
  /** Another visit's `context.storageState()`: the session of its user. */
  state?: Awaited<ReturnType<BrowserContext['storageState']>>
}

export interface Browsing {
  place: Workplace
  server: RunningBinary
  /** Such as `http://127.0.0.1:4000`. */
  origin: string
  visit(options?: VisitOptions): Promise<Visit>
  /** Creates the first owner, with the code that `tollgate admin code` prints. @param title of the next page. */
  setUp(visit: Visit, name: string, title?: string): Promise<void>
  close(): Promise<void>
}

/**
 * Starts a browser, and a server in an empty folder.
 *
 * @param prepare writes files to the data folder before the server starts.
 */
export async function startBrowsing(
  args: string[] = [],
  options: RunOptions = {},
  prepare?: (dataFolder: string) => Promise<void>,
): Promise<Browsing> {
  const place = createWorkplace()
  const engine = createEngine()
  try {
    await prepare?.(join(place.folder, 'data'))
    const server = await place.serve(args, options)
    const { origin } = new URL(server.baseUrl)
    return {
      ...{ place, server, origin },
      visit: ({ host = '127.0.0.1', ...options } = {}) => visit(engine, origin.replace('127.0.0.1', host), options),
      async setUp({ page, open }, name, title = 'Start') {
        const { stdout } = await place.run('admin', 'code')
        await open(`/setup#${stdout.trim()}`, 'Set up the dashboard')
        await page.getByLabel('Your name').fill(name)
        await page.getByLabel('Password').fill(PASSWORD)
        await page.getByRole('button', { name: 'Create account' }).click()
        await page.getByRole('heading', { level: 1, name: title }).waitFor()
      },
      async close() {
        await engine.close()
        await place.close()
      },
    }
  } catch (error) {
    await engine.close()
    await place.close()
    throw error
  }
}

const toReferrer = (request: Request) => request.headers().referer

async function visit(
  engine: ReturnType<typeof createEngine>,
  origin: string,
  { colours = 'light', text, width = 1_280, elsewhere, outage, state }: VisitOptions = {},
) {
  const viewport = { width, height: width < 500 ? 844 : 800 }
  const context = await engine.newContext(colours, { viewport, ...(state && { storageState: state }) }, text)
  context.setDefaultTimeout(10_000)
  const page = await context.newPage()
  const complaints: string[] = []
  /** @param cause has the URL of the request, since the page may have changed. */
  const complain = (complaint: string, cause = '') => {
    if (outage?.isDown && /net::ERR_|NS_ERROR_/.test(complaint)) return
    if (elsewhere === undefined || !`${page.url()} ${cause}`.includes(elsewhere)) complaints.push(complaint)
  }
  page.on('console', (message) => {
    const { url, lineNumber, columnNumber } = message.location()
    const isRefusal =
      (/status of 4\d\d/.test(message.text()) && url.startsWith(`${origin}/admin/api/`)) ||
      (/status of 5\d\d/.test(message.text()) && url.startsWith(origin) && PASSED_ON.test(new URL(url).pathname))
    // The browser also logs refusals by the API and errors of upstreams, which some tests expect.
    if (['error', 'warning'].includes(message.type()) && !isRefusal)
      complain(`${message.text()} (${url}:${lineNumber}:${columnNumber})`, url)
  })
  page.on('pageerror', (error) => complain(String(error), error.stack))
  page.on('requestfailed', (request) => {
    // A page that is left cancels its requests.
    const reason = request.failure()?.errorText
    if (reason !== 'net::ERR_ABORTED' && reason !== 'NS_BINDING_ABORTED')
      complain(`${request.url()}: ${reason}`, toReferrer(request))
  })
  page.on('request', (request) => {
    const isOpening = elsewhere !== undefined && request.isNavigationRequest() && request.url().startsWith(elsewhere)
    if (!request.url().startsWith(origin) && !isOpening && !/^(data|blob):/.test(request.url()))
      complain(`asked ${request.url()}`, toReferrer(request))
  })
  return {
    ...{ page, context },
    async open(path: string, title: string) {
      await page.goto(`${origin}/admin${path}`)
      await page.getByRole('heading', { level: 1, name: title }).waitFor()
    },
    async close() {
      await context.close()
      expect(complaints).toEqual([])
    },
  }
}

/** In hidden content, such as a closed `<details>`, a transition never finishes. */
const FADED = `Promise.race([
  Promise.allSettled(document.getAnimations().filter((one) => one instanceof CSSTransition).map((one) => one.finished)),
  new Promise((resolve) => setTimeout(resolve, 1_000)),
])`
const AXE = readFileSync(new URL(import.meta.resolve('axe-core/axe.min.js')), 'utf8')

interface Finding {
  id: string
  impact: string
  nodes: { target: string[]; failureSummary: string }[]
}

/**
 * Throws axe-core's findings that keep people from using the page: serious or critical ones, and targets that are too
 * small.
 */
export async function expectAccessible(page: Pick<Page, 'evaluate'>): Promise<void> {
  // During a fade, text has less contrast than at its end.
  await page.evaluate(FADED)
  await page.evaluate(AXE)
  const options = { resultTypes: ['violations'], rules: { 'target-size': { enabled: true } } }
  const findings: Finding[] = await page.evaluate(`axe.run(${JSON.stringify(options)}).then((run) => run.violations)`)
  const grave = findings.filter(({ impact }) => impact === 'serious' || impact === 'critical')
  expect(
    grave.map(({ id, nodes }) => ({ id, where: nodes.map(({ target, failureSummary }) => [target, failureSummary]) })),
  ).toEqual([])
}

const MISFITS = readFileSync(new URL('misfits.js', import.meta.url), 'utf8')
const SIDEWAYS = 'document.documentElement.scrollWidth - document.documentElement.clientWidth'

/** Waits, since the focus moves in a frame after the change. @param read expression about the focused element. */
export async function expectFocus(page: Page, read: string, expected: unknown): Promise<void> {
  await until('the focus', async () => Bun.deepEquals(await page.evaluate(read), expected)).catch(() => {})
  expect(await page.evaluate(read)).toEqual(expected)
}

/** Throws if content is cut off, overlaps other content, or is off the screen, once the page has settled. */
export async function expectWhole(page: Page): Promise<void> {
  const look = `(${MISFITS.slice(MISFITS.indexOf('() =>'))})().concat(${SIDEWAYS} > 0 ? ['the page scrolls sideways: ' + location.pathname + location.search] : [])`
  // A chart is redrawn after the page has become wider.
  await page.waitForFunction(`${look}.length === 0`, null, { timeout: SETTLED_MS }).catch(() => {})
  expect(await page.evaluate<string[]>(look)).toEqual([])
}

const SETTLED_MS = 3_000
