/** The signed-in frame with the open page, or the sign-in screens. */

import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { matchPath } from '../../domain/path-pattern.ts'
import { address, leave, leaving, toHref } from '../address/address.ts'
import { isConnected, isOutdated, lookForUpdate, returns } from '../api/connection.ts'
import { toRefusal } from '../api/loaded.ts'
import { NOT_LOADED, type Refusal } from '../api/refusal.ts'
import { mayTry, session } from '../api/session.ts'
import { Auth, loadSession, SignInAgain, signOut } from '../auth/auth.tsx'
import { Button, Icon, IconButton, Mark } from '../ui/controls.tsx'
import { AskToDiscard, announce, Empty, Notices, Overlay, PageRoom, Problem, RowsRoom, tell } from '../ui/notice.tsx'
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
  useEffect(() => {
    if (problem !== null) start()
  }, [returns.value])
  const { state } = session.value
  if (state === 'unknown' && problem === null) return <Waiting />
  return (
    <>
      {state === 'in' ? (
        <Frame>
          <OpenPage />
        </Frame>
      ) : (
        <Auth problem={problem} retry={start} />
      )}
      <Help />
      <Leaving />
      <SignInAgain />
      <Connection />
      <Notices />
    </>
  )
}

function Leaving() {
  const go = leaving.value
  if (go === null) return null
  const keep = () => {
    leaving.value = null
  }
  const discard = () => {
    keep()
    go()
  }
  return <AskToDiscard discard={discard} keep={keep} />
}

/** Above open drawers, too. */
function Connection() {
  const at = useRef<HTMLParagraphElement>(null)
  const text = !isConnected.value ? 'Reconnecting…' : isOutdated.value ? 'A new version is running.' : ''
  useEffect(() => {
    if (text === '') return
    at.current?.showPopover()
    announce(text)
  }, [text])
  if (text === '') return null
  return (
    <p ref={at} key={text} class="connection" popover="manual">
      {!isConnected.value ? (
        <>
          <span class="pulse" aria-hidden="true" />
          {text}
        </>
      ) : (
        <>
          {text}{' '}
          <Button kind="quiet" onClick={() => location.reload()}>
            Reload
          </Button>
        </>
      )}
    </p>
  )
}

/** Same as in `index.html`, so that nothing moves until the session is known. */
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
    <Page title="Page not found">
      <Empty title="Nothing at this URL">
        <p>
          The link may be from another version of Tollgate. <a href={toHref('/')}>Go to the home page</a>
        </p>
      </Empty>
    </Page>
  )
}

const loaded = new Map<PageEntry, Awaited<ReturnType<PageEntry['load']>>>()

async function load(page: PageEntry): Promise<void> {
  if (!loaded.has(page)) loaded.set(page, await page.load())
}

/** Loads the page's code while the session is being checked. */
export function loadFirst(): void {
  const page = PAGES.findLast(({ path }) => matchPath(path, address.value.path))
  // `Loading` shows the error.
  if (page) load(page).catch(() => {})
}

function Loading({ page, params }: PageProps & { page: PageEntry }) {
  const [problem, setProblem] = useState<Refusal | null>(null)
  const [, draw] = useState(0)
  const Content = loaded.get(page)
  useEffect(() => {
    // Also redraws if it loaded after this render.
    load(page).then(
      () => draw(1),
      () => {
        setProblem(NOT_LOADED)
        void lookForUpdate()
      },
    )
  }, [page])
  const isBack = useRef(returns.value).current !== returns.value
  useEffect(() => {
    if (problem && isBack) location.reload()
  }, [problem, isBack])
  if (Content) return <Content params={params} />
  if (problem === null)
    return (
      <PageRoom>
        <RowsRoom />
      </PageRoom>
    )
  return <Problem of={problem} retry={() => location.reload()} />
}

type Offered = NonNullable<PageEntry['offered']> & { path: string }

const toOffered = (): Offered[] =>
  PAGES.flatMap((page) => (page.offered && page.isFor() ? [{ ...page.offered, path: page.path }] : []))

/** Splits pages into those in a phone's bottom bar and the rest. */
function toBar(): [inBar: Offered[], others: Offered[]] {
  const offered = toOffered()
  const inBar = offered.filter(({ isInBar }) => isInBar).slice(0, 4)
  return [inBar, offered.filter((page) => !inBar.includes(page))]
}

/** Includes subpages. */
const isOpen = (path: string) =>
  path === '/' ? address.value.path === '/' : `${address.value.path}/`.startsWith(`${path}/`)

const isMoreOpen = signal(false)
const closeMore = () => {
  isMoreOpen.value = false
}

const Frame = ({ children }: { children: ComponentChildren }) => (
  <div class="frame">
    <a class="skip" href="#page">
      Skip to content
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

const THEME_WORDS = { auto: 'system', light: 'light', dark: 'dark' } satisfies Record<typeof theme.value, string>

function Account() {
  const { value } = session
  if (value.state !== 'in') return null
  const end = () => {
    closeMore()
    leave(() => void signOut().catch((error: Error) => tell(error.message, 'bad')))
  }
  return (
    <div class="account">
      <p>
        <a class="account-name" href={toHref('/account')} title="Your account" onClick={closeMore}>
          {value.name}
        </a>
        <span class="dim">{value.role}</span>
      </p>
      <div class="account-tools">
        <IconButton icon={theme.value} label={`Change theme (now ${THEME_WORDS[theme.value]})`} onClick={switchTheme} />
        <IconButton
          icon="help"
          label="Help: keyboard shortcuts and API"
          onClick={() => {
            closeMore()
            isHelpOpen.value = true
          }}
        />
        <Button kind="quiet" icon="leave" onClick={end}>
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
  const chat: [string[], string][] = mayTry() ? [[[MODIFIER, '↵'], 'Send the message (playground)']] : []
  const lines: [keys: string[], what: string][] = [
    [['/'], 'Search this page'],
    [['n'], 'Create new'],
    ...toOffered().map(({ letter, label }): [string[], string] => [['g', letter], `Go to ${label}`]),
    [['↑', '↓'], 'Move through a list'],
    [['Esc'], 'Close a dialog or stop a response'],
    ...chat,
    [['?'], 'Show this help'],
  ]
  return (
    <Overlay title="Help" onClose={close}>
      <h3>Keyboard shortcuts</h3>
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
        <a href={toHref('/reference')} onClick={close}>
          API reference
        </a>
      </p>
    </Overlay>
  )
}
