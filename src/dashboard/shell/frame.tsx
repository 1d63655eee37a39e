/** What stands around every page: the pages that there are, at the side or, on a phone, in a bar at the foot; who has signed in. */
import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { address, toHref } from '../address/address.ts'
import { session } from '../api/session.ts'
import { signOut } from '../doors/enter.ts'
import { Button, IconButton } from '../ui/button.tsx'
import { Icon, type IconName } from '../ui/icon.tsx'
import { Mark } from '../ui/mark.tsx'
import { tell } from '../ui/notice.tsx'
import { Overlay } from '../ui/overlay.tsx'
import { isHelpOpen } from './keyboard.ts'
import { maySee, PAGES, type PageEntry } from './pages.ts'
import { switchTheme, theme } from './theme.ts'

type Offered = PageEntry & { offered: NonNullable<PageEntry['offered']> }

const offered = () => PAGES.filter((page): page is Offered => page.offered !== null && maySee(page))

/** Those that a phone has room for. */
const inBar = () =>
  offered()
    .filter(({ offered: { isInBar } }) => isInBar)
    .slice(0, 4)

/** A page is also that of the addresses below it. */
const isOpen = (path: string) =>
  path === '/' ? address.value.path === '/' : `${address.value.path}/`.startsWith(`${path}/`)

const isMoreOpen = signal(false)
const closeMore = () => {
  isMoreOpen.value = false
}

export const Frame = ({ children }: { children: ComponentChildren }) => (
  <div class="frame">
    <a class="skip" href="#page">
      Skip to the page
    </a>
    <header class="side">
      <a class="brand" href={toHref('/')}>
        <Mark />
        Tollgate
      </a>
      <nav aria-label="Pages">
        <ul>
          {offered().map((page) => (
            <li key={page.path}>
              <PageLink page={page} />
            </li>
          ))}
        </ul>
      </nav>
      <Account />
    </header>
    <main id="page" tabIndex={-1}>
      {children}
    </main>
    <nav class="bar-nav" aria-label="Pages">
      {inBar().map((page) => (
        <PageLink key={page.path} page={page} />
      ))}
      <button
        type="button"
        class="page-link"
        aria-haspopup="dialog"
        onClick={() => {
          isMoreOpen.value = true
        }}
      >
        <Icon name="more" />
        More
      </button>
    </nav>
    {isMoreOpen.value && <More />}
  </div>
)

const PageLink = ({ page: { path, offered }, onClick }: { page: Offered; onClick?: () => void }) => (
  <a class="page-link" href={toHref(path)} aria-current={isOpen(path) ? 'page' : undefined} onClick={onClick}>
    <Icon name={offered.icon} />
    {offered.label}
  </a>
)

/** What the bar has no room for. */
const More = () => (
  <Overlay title="More" onClose={closeMore}>
    <ul>
      {offered()
        .filter((page) => !inBar().includes(page))
        .map((page) => (
          <li key={page.path}>
            <PageLink page={page} onClick={closeMore} />
          </li>
        ))}
    </ul>
    <Account />
  </Overlay>
)

const THEME_ICONS: Readonly<Record<typeof theme.value, IconName>> = { auto: 'auto', light: 'light', dark: 'dark' }
const THEME_WORDS: Readonly<Record<typeof theme.value, string>> = {
  auto: 'as the system',
  light: 'light',
  dark: 'dark',
}

function Account() {
  const { value } = session
  if (value.state !== 'in') return null
  const leave = () => {
    closeMore()
    signOut().catch((error: Error) => tell(error.message, 'bad'))
  }
  return (
    <div class="account">
      <p>
        <a class="account-name" href={toHref('/account')} title="Your sessions and your password" onClick={closeMore}>
          {value.name}
        </a>
        <span class="dim">{value.role}</span>
      </p>
      <div class="account-tools">
        <IconButton
          icon={THEME_ICONS[theme.value]}
          label={`Colours: ${THEME_WORDS[theme.value]}. Change`}
          onClick={switchTheme}
        />
        <IconButton
          icon="help"
          label="Help: what the keyboard does, and the API"
          onClick={() => {
            closeMore()
            isHelpOpen.value = true
          }}
        />
        <Button kind="quiet" icon="leave" onClick={leave}>
          Sign out
        </Button>
      </div>
    </div>
  )
}
