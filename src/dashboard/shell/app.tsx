/** The whole of it: somebody's pages, or the way in. */

import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { address, toHref } from '../address/address.ts'
import { matchPath } from '../address/match.ts'
import { toRefusal } from '../api/loaded.ts'
import type { Refusal } from '../api/refusal.ts'
import { mayTry, session } from '../api/session.ts'
import { Doors, loadSession, signOut } from '../doors/doors.tsx'
import { Button, Icon, IconButton, Mark } from '../ui/controls.tsx'
import { Empty, Notices, Overlay, PageRoom, Problem, RowsRoom, tell } from '../ui/notice.tsx'
import { isHelpOpen, MODIFIER } from './keyboard.ts'
import { NotForYou, Page } from './page.tsx'
import { PAGES, type PageEntry, type PageProps } from './pages.ts'
import { switchTheme, theme } from './theme.ts'

export function App() {
  const [problem, setProblem] = useState<Refusal | null>(null)
  const start = () => {
    setProblem(null)
    loadSession().catch((error) => setProblem(toRefusal(error)))
  }
  useEffect(start, [])
  const { state } = session.value
  if (state === 'unknown' && problem === null) return <Waiting />
  return (
    <>
      {state === 'in' ? (
        <Frame>
          <OpenPage />
        </Frame>
      ) : (
        <Doors problem={problem} retry={start} />
      )}
      <Help />
      <Notices />
    </>
  )
}

/** What `index.html` shows before there is a script: nothing moves until it is known who has come. */
const Waiting = () => (
  <div class="frame">
    <div class="side">
      <p class="brand">
        <Mark />
        Tollgate
      </p>
    </div>
  </div>
)

function OpenPage() {
  const found = PAGES.flatMap((page) => {
    const params = matchPath(page.path, address.value.path)
    return params === null ? [] : [{ page, params }]
  })
  const seen = found.find(({ page }) => page.isFor())
  if (seen) return <Loading key={seen.page.path} {...seen} />
  if (found.length > 0) return <NotForYou />
  return (
    <Page title="No such page">
      <Empty title="There is nothing at this address">
        <p>
          It may be of another version of Tollgate. <a href={toHref('/')}>To the first page</a>
        </p>
      </Empty>
    </Page>
  )
}

/** Pages that were open before are there at once. */
const loaded = new Map<PageEntry, Awaited<ReturnType<PageEntry['load']>>>()

async function load(page: PageEntry): Promise<void> {
  if (!loaded.has(page)) loaded.set(page, await page.load())
}

/** The page of the address comes while it is found out who wants to see it. */
export function loadFirst(): void {
  const page = PAGES.find(({ path }) => matchPath(path, address.value.path))
  // What goes wrong is told of where it is to be shown.
  if (page) load(page).catch(() => {})
}

function Loading({ page, params }: PageProps & { page: PageEntry }) {
  const [problem, setProblem] = useState<Error | null>(null)
  const [, draw] = useState(0)
  const Content = loaded.get(page)
  useEffect(() => {
    // Also where it has come since this was drawn.
    load(page).then(() => draw(1), setProblem)
  }, [page])
  if (Content) return <Content params={params} />
  if (problem === null)
    return (
      <PageRoom>
        <RowsRoom />
      </PageRoom>
    )
  // After an upgrade of the server, the page that is open asks for pieces that are gone.
  return <Problem of={toRefusal(problem)} retry={() => location.reload()} />
}

type Offered = NonNullable<PageEntry['offered']> & { path: string }

const toOffered = (): Offered[] =>
  PAGES.flatMap((page) => (page.offered && page.isFor() ? [{ ...page.offered, path: page.path }] : []))

/** Those that a phone has room for come first. */
function toBar(): [inBar: Offered[], others: Offered[]] {
  const offered = toOffered()
  const inBar = offered.filter(({ isInBar }) => isInBar).slice(0, 4)
  return [inBar, offered.filter((page) => !inBar.includes(page))]
}

/** A page is also that of the addresses below it. */
const isOpen = (path: string) =>
  path === '/' ? address.value.path === '/' : `${address.value.path}/`.startsWith(`${path}/`)

const isMoreOpen = signal(false)
const closeMore = () => {
  isMoreOpen.value = false
}

const Frame = ({ children }: { children: ComponentChildren }) => (
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
          {toOffered().map((page) => (
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
      {toBar()[0].map((page) => (
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

const PageLink = ({ page: { path, icon, label }, onClick }: { page: Offered; onClick?: () => void }) => (
  <a class="page-link" href={toHref(path)} aria-current={isOpen(path) ? 'page' : undefined} onClick={onClick}>
    <Icon name={icon} />
    {label}
  </a>
)

/** What the bar has no room for. */
const More = () => (
  <Overlay title="More" onClose={closeMore}>
    <ul>
      {toBar()[1].map((page) => (
        <li key={page.path}>
          <PageLink page={page} onClick={closeMore} />
        </li>
      ))}
    </ul>
    <Account />
  </Overlay>
)

const THEME_WORDS = { auto: 'as the system', light: 'light', dark: 'dark' } satisfies Record<typeof theme.value, string>

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
        <IconButton icon={theme.value} label={`Colours: ${THEME_WORDS[theme.value]}. Change`} onClick={switchTheme} />
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

const close = () => {
  isHelpOpen.value = false
}

function Help() {
  if (!isHelpOpen.value) return null
  const chat: [string[], string][] = mayTry() ? [[[MODIFIER, '↵'], 'Send what is written, in the playground']] : []
  const lines: [keys: string[], what: string][] = [
    [['/'], 'Search on this page'],
    [['n'], 'Make something new'],
    ...toOffered().map(({ letter, label }): [string[], string] => [['g', letter], `Go to ${label}`]),
    [['↑', '↓'], 'Go through a list'],
    [['Esc'], 'Close what is open, stop an answer'],
    ...chat,
    [['?'], 'This list'],
  ]
  return (
    <Overlay title="Help" onClose={close}>
      <h3>Keyboard</h3>
      <dl class="shortcuts">
        {lines.map(([keys, what]) => (
          <div key={what}>
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <p>
        For programs:{' '}
        <a href={toHref('/reference')} onClick={close}>
          the API reference
        </a>
      </p>
    </Overlay>
  )
}
