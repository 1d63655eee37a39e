/** The whole of it: somebody's pages, or the way in. */
import { useEffect, useState } from 'preact/hooks'
import { address, toHref } from '../address/address.ts'
import { matchPath } from '../address/match.ts'
import { toRefusal } from '../api/loaded.ts'
import type { Refusal } from '../api/refusal.ts'
import { session } from '../api/session.ts'
import { Doors } from '../doors/doors.tsx'
import { loadSession } from '../doors/enter.ts'
import { Mark } from '../ui/mark.tsx'
import { Empty, Notices, Problem } from '../ui/notice.tsx'
import { PageRoom, RowsRoom } from '../ui/unread.tsx'
import { Frame } from './frame.tsx'
import { Help } from './help.tsx'
import { NotForYou, Page } from './page.tsx'
import { maySee, PAGES, type PageEntry, type PageProps } from './pages.ts'

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
  const { path } = address.value
  let isThere = false
  for (const page of PAGES) {
    const params = matchPath(page.path, path)
    if (params === null) continue
    isThere = true
    if (maySee(page)) return <Loading key={page.path} page={page} params={params} />
  }
  if (isThere) return <NotForYou />
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
