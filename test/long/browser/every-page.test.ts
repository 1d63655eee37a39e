/**
 * Every page and drawer for each role, empty and with two months of data, light and dark, desktop, phone, and zoomed to
 * 320 px: accessible, titled, no sideways scrolling, no browser errors.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Page } from 'playwright-core'
import type { Role } from '../../../src/domain/roles.ts'
import {
  type Browsing,
  expectAccessible,
  hasNoChromium,
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
  states: Readonly<Record<'owner' | 'viewer' | 'member', State>>
  ids: Readonly<Record<string, string>>
}

const ROLES = { 'an owner': 'owner', 'a viewer': 'viewer', 'a member': 'member' } as const

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
  viewer: ['/keys?key={key}', '/models?model={model}', '/upstreams?upstream={upstream}', '/people'],
  member: ['/keys?key={own_key}', '/settings'],
} as const

const IDS = `(async () => {
  const read = async (path) => (await fetch('/admin/api/' + path)).json()
  const [keys, models, upstreams, teams, admins, tokens, requests] = await Promise.all(
    ['keys', 'models', 'upstreams', 'teams', 'admins', 'tokens', 'requests?limit=1'].map(read),
  )
  return {
    key: keys.keys[0].id, model: models.models[0].slug, upstream: upstreams.upstreams[0].id, team: teams.teams[0].id,
    person: admins.admins[0].id, token: tokens.tokens[0].id, id: requests.requests[0]?.id ?? '${'0'.repeat(32)}',
  }
})()`

/** Makes one. */
const OWN_KEY = `(async () => {
  const headers = { 'content-type': 'application/json' }
  await fetch('/admin/api/own/keys', { method: 'POST', headers, body: '{"name":"my own"}' })
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

async function setScene(browsing: Browsing, firstTitle: string, team: string): Promise<Scene> {
  await browsing.place.run('keys', 'create', '--name', 'limited', '--budget', '20/month', '--rpm', '60')
  await browsing.place.run('admin', 'token', 'create', 'grafana')
  const owner = await browsing.visit()
  await browsing.setUp(owner, 'ann', firstTitle)
  const viewer = await signIn(browsing, 'vic')
  const member = await signIn(browsing, 'mia', '--role', 'member', '--team', team)
  const ids: Record<string, string> = {
    ...(await owner.page.evaluate<object>(IDS)),
    own_key: await member.page.evaluate<string>(OWN_KEY),
  }
  const stateOf = async ({ context, close }: Visit) => {
    const state = await context.storageState()
    await close()
    return state
  }
  const states = { owner: await stateOf(owner), viewer: await stateOf(viewer), member: await stateOf(member) }
  return { browsing, states, ids }
}

/** If only colors and widths differ, only the rules that depend on them. */
const RULES = { all: undefined, looks: ['color-contrast', 'target-size'], none: [] } as const

/** Dozens of pages. */
const TIMEOUT_MS = 180_000

const SIDEWAYS = 'Math.max(0, document.documentElement.scrollWidth - document.documentElement.clientWidth)'

async function expectFit(page: Page, path: string, rules?: readonly string[]): Promise<void> {
  await page.getByRole('heading', { level: 1 }).first().waitFor({ state: 'attached' })
  await page.locator('[aria-busy=true]').first().waitFor({ state: 'detached' })
  // Wait for whatever a page draws last; what stays wrong is reported below.
  await page.waitForFunction(`document.title.includes(' · ') && ${SIDEWAYS} === 0`).catch(() => {})
  const seen = {
    path,
    title: await page.title(),
    headings: await page.locator('h1').count(),
    sideways: await page.evaluate(SIDEWAYS),
  }
  expect(seen).toEqual({ path, title: expect.stringMatching(/^\S.* · Tollgate$/), headings: 1, sideways: 0 })
  await expectAccessible(page, rules)
}

describe.skipIf(hasNoChromium)('every page', () => {
  let empty: Scene
  let month: Scene
  beforeAll(async () => {
    const environment = { OPENAI_API_KEY: 'none', ANTHROPIC_API_KEY: 'none' }
    const [bare, full] = await Promise.all([
      startBrowsing(),
      startBrowsing([], { environment }, (data) => writeMonth(data, Date.now(), 'http://127.0.0.1:9/v1')),
    ])
    await bare.place.run('teams', 'create', '--name', 'support')
    empty = await setScene(bare, 'Start', 'support')
    month = await setScene(full, 'Overview', 'support')
  }, 60_000)
  afterAll(async () => {
    await empty?.browsing.close()
    await month?.browsing.close()
  })

  test.each([
    ['an owner', 'light', 1_280, 'two months', 'all'],
    ['an owner', 'dark', 390, 'two months', 'looks'],
    ['an owner', 'light', 320, 'two months', 'none'],
    ['a viewer', 'dark', 1_280, 'two months', 'looks'],
    ['a member', 'light', 390, 'two months', 'all'],
    ['an owner', 'dark', 1_280, 'nothing', 'looks'],
    ['a viewer', 'light', 390, 'nothing', 'all'],
    ['a member', 'dark', 320, 'nothing', 'looks'],
  ] as const)(
    'of %s is fit for everybody: %s, %d wide, with %s in it',
    async (who, colours, width, content, rules) => {
      const role = ROLES[who]
      const { browsing, states, ids } = content === 'nothing' ? empty : month
      const visit = await browsing.visit({ colours, width, state: states[role] })
      for (const pattern of [...pathsOf(role), ...DRAWERS[role]]) {
        const path = pattern.replace(/:(\w+)|\{(\w+)\}/g, (_, a, b) => encodeURIComponent(ids[a ?? b] ?? ''))
        await visit.page.goto(`${browsing.origin}/admin${path}`)
        await expectFit(visit.page, path, RULES[rules])
      }
      await visit.close()
    },
    TIMEOUT_MS,
  )
})
