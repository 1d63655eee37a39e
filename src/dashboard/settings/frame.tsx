/** What the pages of the server's settings have in common: the way from one to the other. */
import type { ComponentChildren } from 'preact'
import { may } from '../api/session.ts'
import { Page } from '../shell/page.tsx'
import { SubPages } from '../ui/sub-pages.tsx'

interface SettingsFrameProps {
  title: string
  actions?: ComponentChildren
  children: ComponentChildren
}

const ALL = [
  ['/settings', 'Settings', 'viewer'],
  ['/settings/server', 'Server', 'viewer'],
  ['/settings/backups', 'Backups', 'owner'],
  ['/settings/tokens', 'Tokens', 'owner'],
] as const

export const SettingsFrame = ({ children, ...page }: SettingsFrameProps) => (
  <Page {...page}>
    <SubPages
      label="Settings"
      pages={ALL.flatMap(([path, title, least]) => (may(least) ? [[path, title] as const] : []))}
    />
    {children}
  </Page>
)
