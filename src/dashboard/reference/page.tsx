/** What the APIs of this server take and answer, route by route, as their descriptions say: for whoever writes a program that asks them. */
import { useLayoutEffect, useRef } from 'preact/hooks'
import { query, setQuery, toHref, toHrefWith } from '../address/address.ts'
import { Page } from '../shell/page.tsx'
import { Button } from '../ui/button.tsx'
import { SearchFilter } from '../ui/filters.tsx'
import { Icon } from '../ui/icon.tsx'
import { Empty, Problem } from '../ui/notice.tsx'
import { moveBetween } from '../ui/table.tsx'
import { type Described, type Description, toDescribed, useDescription } from './data.ts'
import { Inline, Prose } from './prose.tsx'
import { RoutePart } from './route.tsx'
import { findRoutes, type Group, type Route } from './routes.ts'

export function ReferencePage() {
  const all = toDescribed()
  const open = all.find(({ name }) => name === query.value.get('document')) ?? all[0]
  return (
    <Page
      title="API reference"
      actions={
        open && (
          <a class="button plain" href={open.url} download={open.file} title="OpenAPI 3.1: tools make clients of it">
            <Icon name="down" />
            Download as JSON
          </a>
        )
      }
    >
      {all.length > 1 && (
        <nav class="sub-pages" aria-label="APIs">
          {all.map(({ name, title }) => (
            <a
              key={name}
              href={toHref(`/reference?document=${name}`)}
              aria-current={name === open?.name ? 'page' : undefined}
            >
              {title}
            </a>
          ))}
        </nav>
      )}
      {open && <Reading key={open.name} of={open} />}
    </Page>
  )
}

function Reading({ of: described }: { of: Described }) {
  const { data: description, problem, reload } = useDescription(described)
  const first = useRef(query.value.get('route'))
  if (description === null) return problem && <Problem of={problem} retry={reload} />
  const search = query.value.get('search') ?? ''
  const id = query.value.get('route')
  const { groups, components } = description
  const route = groups.flatMap((group) => group.routes).find((one) => one.id === id)
  // What somebody has come to by a link is read from the top of the page.
  const isChosen = first.current !== id
  if (isChosen) first.current = null
  return (
    <div class="reference" data-open={route ? 'route' : 'list'}>
      {!route && <Introduction of={description} isAdmin={described.name === 'admin'} />}
      <div class="reference-list">
        <div class="filters">
          <SearchFilter what="routes" />
        </div>
        <Routes of={findRoutes(groups, search, components.schemas)} openId={id} />
      </div>
      {route && <RoutePart of={route} description={description} isChosen={isChosen} />}
    </div>
  )
}

const Introduction = ({ of: { info, components }, isAdmin }: { of: Description; isAdmin: boolean }) => (
  <div class="drawer-part">
    <Prose text={info.description} />
    <dl class="facts">
      {Object.entries(components.securitySchemes).map(([name, { description }]) => [
        <dt key={name}>With a {name}</dt>,
        <dd key={`${name} is`}>
          <Prose text={description} />
        </dd>,
      ])}
    </dl>
    {isAdmin && (
      <p>
        All paths below begin with <code>/admin/api</code>. Beside each is the least role that it is for.
      </p>
    )}
  </div>
)

/** What still stands above the route that is open. */
const ABOVE_PX = 120

function Routes({ of: groups, openId }: { of: readonly Group[]; openId: string | null }) {
  const at = useRef<HTMLElement>(null)
  useLayoutEffect(() => {
    const list = at.current?.parentElement
    const link = list?.querySelector('[aria-current]')
    // Where the list has a scroll of its own.
    if (list && link) list.scrollTop += link.getBoundingClientRect().top - list.getBoundingClientRect().top - ABOVE_PX
  }, [openId])
  if (groups.length === 0) {
    return (
      <Empty title="No route has these words">
        <Button onClick={() => setQuery({ search: null })}>Show all routes</Button>
      </Empty>
    )
  }
  return (
    <nav ref={at} aria-label="Routes" onKeyDown={moveBetween('li')}>
      {groups.map(({ name, routes }) => (
        <section key={name}>
          <h2>{name}</h2>
          <ul>
            {routes.map((route) => (
              <Line key={route.id} of={route} isOpen={route.id === openId} />
            ))}
          </ul>
        </section>
      ))}
    </nav>
  )
}

const Line = ({ of: { id, method, path, role, summary }, isOpen }: { of: Route; isOpen: boolean }) => (
  <li>
    <a href={toHrefWith({ route: id })} aria-current={isOpen ? 'true' : undefined}>
      <span class="method">{method}</span>
      <code>{path.replace('/admin/api', '')}</code>
      <span class="what dim">
        <Inline text={summary} />
      </span>
      <span class="role dim">{role ?? ''}</span>
    </a>
  </li>
)
