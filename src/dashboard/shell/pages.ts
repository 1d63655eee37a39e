/**
 * All pages, in the order in which they are offered. A page is loaded when it is opened: what it needs alone is not in the way of the
 * first one.
 */
import type { ComponentType } from 'preact'
import type { Role } from '../../domain/roles.ts'
import { isMember, may, roleOf } from '../api/session.ts'
import type { IconName } from '../ui/controls.tsx'

export interface PageProps {
  /** What the `:names` of its path stand for. */
  params: Readonly<Record<string, string>>
}

export interface PageEntry {
  /** Below `/admin`, such as `/requests/:id`. */
  path: string
  /** The least role that it is for. */
  least: Role
  /** For members and nobody else: what they have of their own. The same address may be another page to others. */
  isOfMembers?: boolean
  /** For whom it is not, though their role has more than that of `least`. */
  except?: Role
  /** How it stands among the others; null for one that only links lead to. */
  offered: {
    label: string
    icon: IconName
    /** Pressed after `g`. */
    letter: string
    /** Whether a phone shows it in its bar; the others are behind `More`. Four have room. */
    isInBar: boolean
  } | null
  load(): Promise<ComponentType<PageProps>>
}

/** Whether whoever has signed in has it. */
export const maySee = ({ least, isOfMembers = false, except }: PageEntry): boolean =>
  may(least) && (!isOfMembers || isMember()) && (except === undefined || roleOf() !== except)

export const PAGES: readonly PageEntry[] = [
  {
    path: '/',
    least: 'viewer',
    offered: { label: 'Overview', icon: 'overview', letter: 'o', isInBar: true },
    load: async () => (await import('../overview/page.tsx')).OverviewPage,
  },
  {
    path: '/',
    least: 'member',
    isOfMembers: true,
    offered: { label: 'Start', icon: 'start', letter: 'o', isInBar: true },
    load: async () => (await import('../start/page.tsx')).StartPage,
  },
  {
    path: '/start',
    least: 'viewer',
    offered: null,
    load: async () => (await import('../start/page.tsx')).StartPage,
  },
  {
    path: '/keys',
    least: 'member',
    offered: { label: 'Keys', icon: 'keys', letter: 'k', isInBar: true },
    load: async () => (await import('../keys/page.tsx')).KeysPage,
  },
  {
    path: '/keys/new',
    least: 'member',
    offered: null,
    load: async () => (await import('../keys/page.tsx')).NewKeyPage,
  },
  {
    path: '/requests',
    least: 'member',
    offered: { label: 'Requests', icon: 'requests', letter: 'r', isInBar: true },
    load: async () => (await import('../requests/page.tsx')).RequestsPage,
  },
  {
    path: '/requests/:id',
    least: 'member',
    offered: null,
    load: async () => (await import('../requests/explained.tsx')).RequestPage,
  },
  {
    path: '/models',
    least: 'member',
    isOfMembers: true,
    offered: { label: 'Models', icon: 'models', letter: 'm', isInBar: true },
    load: async () => (await import('../own/pages.tsx')).OwnModelsPage,
  },
  {
    path: '/usage',
    least: 'member',
    isOfMembers: true,
    offered: { label: 'Usage', icon: 'overview', letter: 'u', isInBar: false },
    load: async () => (await import('../own/pages.tsx')).OwnUsagePage,
  },
  {
    path: '/team',
    least: 'member',
    isOfMembers: true,
    offered: { label: 'Team', icon: 'teams', letter: 't', isInBar: true },
    load: async () => (await import('../own/pages.tsx')).OwnTeamPage,
  },
  {
    path: '/playground',
    least: 'member',
    except: 'viewer',
    offered: { label: 'Playground', icon: 'playground', letter: 'p', isInBar: true },
    load: async () => (await import('../playground/page.tsx')).PlaygroundPage,
  },
  {
    path: '/models',
    least: 'viewer',
    offered: { label: 'Models', icon: 'models', letter: 'm', isInBar: false },
    load: async () => (await import('../models/page.tsx')).ModelsPage,
  },
  {
    path: '/models/catalog',
    least: 'viewer',
    offered: null,
    load: async () => (await import('../catalog/page.tsx')).CatalogPage,
  },
  {
    path: '/upstreams',
    least: 'viewer',
    offered: { label: 'Upstreams', icon: 'upstreams', letter: 'u', isInBar: false },
    load: async () => (await import('../upstreams/page.tsx')).UpstreamsPage,
  },
  {
    path: '/upstreams/new',
    least: 'owner',
    offered: null,
    load: async () => (await import('../upstreams/fields.tsx')).NewUpstreamPage,
  },
  {
    path: '/teams',
    least: 'viewer',
    offered: { label: 'Teams', icon: 'teams', letter: 't', isInBar: false },
    load: async () => (await import('../teams/page.tsx')).TeamsPage,
  },
  {
    path: '/teams/new',
    least: 'editor',
    offered: null,
    load: async () => (await import('../teams/page.tsx')).NewTeamPage,
  },
  {
    path: '/people',
    least: 'owner',
    offered: { label: 'People', icon: 'people', letter: 'e', isInBar: false },
    load: async () => (await import('../people/page.tsx')).PeoplePage,
  },
  {
    path: '/people/new',
    least: 'owner',
    offered: null,
    load: async () => (await import('../people/page.tsx')).InvitePage,
  },
  {
    path: '/account',
    least: 'member',
    offered: null,
    load: async () => (await import('../account/page.tsx')).AccountPage,
  },
  {
    path: '/audit',
    least: 'viewer',
    offered: { label: 'Changes', icon: 'audit', letter: 'c', isInBar: false },
    load: async () => (await import('../audit/page.tsx')).AuditPage,
  },
  {
    path: '/settings',
    least: 'viewer',
    offered: { label: 'Settings', icon: 'settings', letter: 's', isInBar: false },
    load: async () => (await import('../settings/page.tsx')).SettingsPage,
  },
  {
    path: '/settings/server',
    least: 'viewer',
    offered: null,
    load: async () => (await import('../settings/server-page.tsx')).ServerPage,
  },
  {
    path: '/settings/backups',
    least: 'owner',
    offered: null,
    load: async () => (await import('../settings/server-page.tsx')).BackupsPage,
  },
  {
    path: '/settings/tokens',
    least: 'owner',
    offered: null,
    load: async () => (await import('../settings/tokens-page.tsx')).TokensPage,
  },
  {
    path: '/settings/tokens/new',
    least: 'owner',
    offered: null,
    load: async () => (await import('../settings/tokens-page.tsx')).NewTokenPage,
  },
  {
    path: '/reference',
    least: 'member',
    offered: null,
    load: async () => (await import('../reference/page.tsx')).ReferencePage,
  },
]
