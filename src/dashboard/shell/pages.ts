/** All pages in navigation order, at one path members' first; each one's code is loaded when it is first opened. */
import type { ComponentType } from 'preact'
import { isMember, may, mayTry } from '../api/session.ts'
import type { IconName } from '../ui/controls.tsx'

export interface PageProps {
  /** Values of the path's `:names`. */
  params: Readonly<Record<string, string>>
}

export interface PageEntry {
  /** Below `/admin`, such as `/requests/:id`. */
  path: string
  /** True if the current user has this page; other roles may have another one at the same path. */
  isFor(): boolean
  /** Navigation entry; absent for pages reached only by links. */
  offered?: {
    label: string
    icon: IconName
    /** Pressed after `g`. */
    letter: string
    /** True if it is in a phone's bar, which has room for four. */
    isInBar?: boolean
  }
  load(): Promise<ComponentType<PageProps>>
}

const isOwner = () => may('owner')
const isEditor = () => may('editor')
const isViewer = () => may('viewer')
const isAnybody = () => may('member')

export const PAGES: readonly PageEntry[] = [
  {
    ...{ path: '/', isFor: isMember },
    offered: { label: 'Start', icon: 'start', letter: 'o', isInBar: true },
    load: async () => (await import('../start/page.tsx')).StartPage,
  },
  {
    ...{ path: '/', isFor: isViewer },
    offered: { label: 'Overview', icon: 'overview', letter: 'o', isInBar: true },
    load: async () => (await import('../overview/page.tsx')).OverviewPage,
  },
  { path: '/start', isFor: isViewer, load: async () => (await import('../start/page.tsx')).StartPage },
  {
    ...{ path: '/keys', isFor: isAnybody },
    offered: { label: 'Keys', icon: 'keys', letter: 'k', isInBar: true },
    load: async () => (await import('../keys/page.tsx')).KeysPage,
  },
  { path: '/keys/new', isFor: isAnybody, load: async () => (await import('../keys/page.tsx')).NewKeyPage },
  {
    ...{ path: '/requests', isFor: isAnybody },
    offered: { label: 'Requests', icon: 'requests', letter: 'r', isInBar: true },
    load: async () => (await import('../requests/page.tsx')).RequestsPage,
  },
  {
    path: '/requests/:id',
    isFor: isAnybody,
    load: async () => (await import('../requests/explained.tsx')).RequestPage,
  },
  {
    ...{ path: '/models', isFor: isMember },
    offered: { label: 'Models', icon: 'models', letter: 'm', isInBar: true },
    load: async () => (await import('../own/pages.tsx')).OwnModelsPage,
  },
  {
    ...{ path: '/usage', isFor: isMember },
    offered: { label: 'Usage', icon: 'overview', letter: 'u' },
    load: async () => (await import('../own/pages.tsx')).OwnUsagePage,
  },
  {
    ...{ path: '/team', isFor: isMember },
    offered: { label: 'Team', icon: 'teams', letter: 't', isInBar: true },
    load: async () => (await import('../own/pages.tsx')).OwnTeamPage,
  },
  {
    ...{ path: '/playground', isFor: mayTry },
    offered: { label: 'Playground', icon: 'playground', letter: 'p', isInBar: true },
    load: async () => (await import('../playground/page.tsx')).PlaygroundPage,
  },
  {
    ...{ path: '/models', isFor: isViewer },
    offered: { label: 'Models', icon: 'models', letter: 'm' },
    load: async () => (await import('../models/page.tsx')).ModelsPage,
  },
  { path: '/models/new', isFor: isEditor, load: async () => (await import('../models/new.tsx')).NewModelPage },
  { path: '/models/catalog', isFor: isViewer, load: async () => (await import('../catalog/page.tsx')).CatalogPage },
  {
    ...{ path: '/upstreams', isFor: isViewer },
    offered: { label: 'Upstreams', icon: 'upstreams', letter: 'u' },
    load: async () => (await import('../upstreams/page.tsx')).UpstreamsPage,
  },
  {
    path: '/upstreams/new',
    isFor: isOwner,
    load: async () => (await import('../provider/page.tsx')).ProviderPage,
  },
  {
    ...{ path: '/teams', isFor: isViewer },
    offered: { label: 'Teams', icon: 'teams', letter: 't' },
    load: async () => (await import('../teams/page.tsx')).TeamsPage,
  },
  { path: '/teams/new', isFor: isEditor, load: async () => (await import('../teams/page.tsx')).NewTeamPage },
  {
    ...{ path: '/people', isFor: isOwner },
    offered: { label: 'People', icon: 'people', letter: 'e' },
    load: async () => (await import('../people/page.tsx')).PeoplePage,
  },
  { path: '/people/new', isFor: isOwner, load: async () => (await import('../people/page.tsx')).InvitePage },
  { path: '/account', isFor: isAnybody, load: async () => (await import('../account/page.tsx')).AccountPage },
  {
    ...{ path: '/audit', isFor: isViewer },
    offered: { label: 'Audit log', icon: 'audit', letter: 'c' },
    load: async () => (await import('../audit/page.tsx')).AuditPage,
  },
  {
    ...{ path: '/settings', isFor: isViewer },
    offered: { label: 'Settings', icon: 'settings', letter: 's' },
    load: async () => (await import('../settings/page.tsx')).SettingsPage,
  },
  {
    path: '/settings/server',
    isFor: isViewer,
    load: async () => (await import('../settings/server-page.tsx')).ServerPage,
  },
  {
    path: '/settings/alerts',
    isFor: isViewer,
    load: async () => (await import('../settings/alerts-page.tsx')).AlertsPage,
  },
  {
    path: '/settings/alerts/new',
    isFor: isOwner,
    load: async () => (await import('../settings/alerts-page.tsx')).NewTargetPage,
  },
  {
    path: '/settings/backups',
    isFor: isOwner,
    load: async () => (await import('../settings/server-page.tsx')).BackupsPage,
  },
  {
    path: '/settings/tokens',
    isFor: isOwner,
    load: async () => (await import('../settings/tokens-page.tsx')).TokensPage,
  },
  {
    path: '/settings/tokens/new',
    isFor: isOwner,
    load: async () => (await import('../settings/tokens-page.tsx')).NewTokenPage,
  },
  { path: '/reference', isFor: isAnybody, load: async () => (await import('../reference/page.tsx')).ReferencePage },
]
