/**
 * Every page and drawer for each role, empty and with two months of data with long names, in light and dark. Each has a
 * title, is accessible, and has no browser errors. Nothing is cut off, from 1,600 px to a phone, zoomed in to 200% and
 * 400%, and at double text size.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import type { Role } from '../../../src/domain/roles.ts'
import {
  type Browsing,
  expectAccessible,
  expectWhole,
  hasNoBrowser,
  PASSWORD,
  startBrowsing,
  type Visit,
} from '../../browser/browsing.ts'
import { writeMonth } from '../../pictures/month.ts'

interface PagesModule {
  PAGES: readonly { path: string; isFor(): boolean }[]
}

interface SessionModule {
  session: { value: { state: 'in'; name: string; role: Role } }
}

// Not literals: the dashboard is type-checked separately.
const DASHBOARD = '../../../src/dashboard'
const { PAGES }: PagesModule = await import(`${DASHBOARD}/shell/pages.ts`)
const { session }: SessionModule = await import(`${DASHBOARD}/api/session.ts`)

function pathsOf(role: Role): string[] {
  session.value = { state: 'in', name: 'somebody', role }
  return [...new Set(PAGES.filter((page) => page.isFor()).map(({ path }) => path))]
}

type State = Awaited<ReturnType<Visit['context']['storageState']>>

interface Scene {
  browsing: Browsing
  states: Readonly<Record<Role, State>>
  ids: Readonly<Record<string, string>>
}

const DRAWERS = {
  owner: [
    ...['/keys?key={key}', '/models?model={model}', '/models/catalog?version=1', '/upstreams?upstream={upstream}'],
    ...[
      '/teams?team={team}',
      '/people?person={person}',
      '/settings?setting=retention',
      '/settings/tokens?token={token}',
    ],
    ...['/?range=30d&users=1&table=cost', '/nothing'],
  ],
  editor: ['/keys?key={key}', '/models?model={model}', '/teams?team={team}'],
  viewer: ['/keys?key={key}', '/models?model={model}', '/upstreams?upstream={upstream}', '/people'],
  member: ['/keys?key={own_key}', '/settings'],
} as const

const IDS = `(async () => {
  const read = async (path) => (await fetch('/admin/api/' + path)).json()
  const [keys, models, upstreams, teams, admins, tokens, requests] = await Promise.all(
    ['keys', 'models', 'upstreams', 'teams', 'admins', 'tokens', 'requests?limit=1'].map(read),
  )
  const longest = (rows, name) => rows.toSorted((a, b) => b[name].length - a[name].length)[0]
  return {
    key: longest(keys.keys, 'name').id, model: longest(models.models, 'slug').slug, upstream: upstreams.upstreams[0].id,
    team: longest(teams.teams, 'name').id, person: longest(admins.admins, 'name').id, token: tokens.tokens[0].id,
    id: requests.requests[0]?.id ?? '${'0'.repeat(32)}',
  }
})()`

/** Creates one. */
const OWN_KEY = `(async () => {
  const headers = { 'content-type': 'application/json' }
  await fetch('/admin/api/own/keys', { method: 'POST', headers, body: '{"name":"evaluation of new models, for the quarterly report to the board"}' })
  return (await (await fetch('/admin/api/own/keys')).json()).keys[0].id
})()`

async function signIn(browsing: Browsing, name: string, ...options: string[]): Promise<Visit> {
  const { stdout } = await browsing.place.run('admin', 'create', name, ...options)
  const visit = await browsing.visit()
  await visit.open('/code', 'Use a code')
  await visit.page.getByLabel('Name').fill(name)
  await visit.page.getByLabel('Code').fill(stdout.trim())
  await visit.page.getByLabel('New password').fill(PASSWORD)
  await visit.page.keyboard.press('Enter')
  await visit.page.locator('.account-name').first().waitFor({ state: 'attached' })
  return visit
}

const NAMES = {
  ...{ support: 'Customer Experience and Support, Europe, Middle East and Africa' },
  ...{
    ann: 'anna-maria.schwarzenberger@research.example.com',
    ben: 'benjamin.okonkwo-fitzgerald@engineering.example.com',
  },
  'support-bot': 'production-customer-support-assistant-for-enterprise-account',
  'meta/llama-3.3-70b': 'openrouter-meta-llama/llama-4-maverick-17b-128e-instruct',
}

async function setScene(browsing: Browsing, firstTitle: string): Promise<Scene> {
  await browsing.place.run('keys', 'create', '--name', 'limited', '--budget', '20/month', '--rpm', '60')
  await browsing.place.run('admin', 'token', 'create', 'grafana')
  const owner = await browsing.visit()
  await browsing.setUp(owner, 'wilhelmina.featherstonehaugh@example.com', firstTitle)
  const editor = await signIn(browsing, 'editor-of-many-things@engineering.example.com', '--role', 'editor')
  const viewer = await signIn(browsing, 'vic')
  const member = await signIn(browsing, 'maximiliane.oberlindhammer', '--role', 'member', '--team', NAMES.support)
  const ids: Record<string, string> = {
    ...(await owner.page.evaluate<object>(IDS)),
    own_key: await member.page.evaluate<string>(OWN_KEY),
  }
  const stateOf = async ({ context, close }: Visit) => {
    const state = await context.storageState()
    await close()
    return state
  }
  const states = {
    ...{ owner: await stateOf(owner), editor: await stateOf(editor) },
    ...{ viewer: await stateOf(viewer), member: await stateOf(member) },
  }
  return { browsing, states, ids }
}

/** Dozens of pages. */
const TIMEOUT_MS = 600_000

/** The last three are 1,600 and 1,280 px zoomed in to 200%, and 1,280 px to 400%. */
const WIDTHS = [1_600, 1_024, 390, 800, 640, 320]

const toPath = (pattern: string, ids: Scene['ids']) =>
  pattern.replace(/:(\w+)|\{(\w+)\}/g, (_, a, b) => encodeURIComponent(ids[a ?? b] ?? ''))

async function openRead(page: Page, url: string): Promise<void> {
  await page.goto(url)
  await page.getByRole('heading', { level: 1 }).first().waitFor({ state: 'attached' })
  await page.locator('[aria-busy=true]').first().waitFor({ state: 'detached' })
}

async function expectFit(page: Page, path: string): Promise<void> {
  await page.waitForFunction(`document.title.includes(' · ')`).catch(() => {})
  const seen = { path, title: await page.title(), headings: await page.locator('h1').count() }
  expect(seen).toEqual({ path, title: expect.stringMatching(/^\S.* · Tollgate$/), headings: 1 })
  await expectWhole(page)
  await expectAccessible(page)
}

describe.skipIf(hasNoBrowser)('every page', () => {
  let empty: Scene
  let month: Scene
  beforeAll(async () => {
    const environment = { OPENAI_API_KEY: 'none', ANTHROPIC_API_KEY: 'none' }
    const [bare, full] = await Promise.all([
      startBrowsing(),
      startBrowsing([], { environment }, (data) => writeMonth(data, Date.now(), 'http://127.0.0.1:9/v1', NAMES)),
    ])
    await bare.place.run('teams', 'create', '--name', NAMES.support)
    empty = await setScene(bare, 'Start')
    month = await setScene(full, 'Overview')
  }, TIMEOUT_MS)
  afterAll(async () => {
    await empty?.browsing.close()
    await month?.browsing.close()
  })

  test(
    'is whole where the browser shows text at double size',
    async () => {
      const { browsing, states, ids } = month
      const visit = await browsing.visit({ state: states.owner, text: 'double' })
      const { page } = visit
      for (const pattern of [...pathsOf('owner'), ...DRAWERS.owner]) {
        await page.setViewportSize({ width: 1_280, height: 800 })
        await openRead(page, `${browsing.origin}/admin${toPath(pattern, ids)}`)
        await expectWhole(page)
        await page.setViewportSize({ width: 390, height: 844 })
        await expectWhole(page)
      }
      await visit.close()
    },
    TIMEOUT_MS,
  )

  test.each([
    ['owner', 'two months'],
    ['editor', 'two months'],
    ['viewer', 'two months'],
    ['member', 'two months'],
    ['owner', 'nothing'],
    ['member', 'nothing'],
  ] as const)(
    'is fit for a person of the role %s, with %s in it',
    async (role, content) => {
      const { browsing, states, ids } = content === 'nothing' ? empty : month
      const visit = await browsing.visit({ state: states[role] })
      const { page } = visit
      for (const pattern of [...pathsOf(role), ...DRAWERS[role]]) {
        const path = toPath(pattern, ids)
        await page.setViewportSize({ width: 1_280, height: 800 })
        await page.emulateMedia({ colorScheme: 'light' })
        await openRead(page, `${browsing.origin}/admin${path}`)
        await expectFit(page, path)
        await page.emulateMedia({ colorScheme: 'dark' })
        await expectAccessible(page)
        for (const width of WIDTHS) {
          await page.setViewportSize({ width, height: 844 })
          await expectWhole(page)
          if (width === 1_600 || width === 390) await expectAccessible(page)
        }
      }
      await visit.close()
    },
    TIMEOUT_MS,
  )
})
