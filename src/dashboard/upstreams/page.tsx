/** Upstreams: all of them with how they are, and the drawer of one. */
import type { ShownUpstream } from '../../documents/upstream.ts'
import { named, query, setQuery, toHref, toHrefWith } from '../address/address.ts'
import { may } from '../api/session.ts'
import { Page } from '../shell/page.tsx'
import { ButtonLink } from '../ui/button.tsx'
import { Code } from '../ui/copy.tsx'
import { Count, None, State, When } from '../ui/figure.tsx'
import { Choice, ListFoot, SearchFilter } from '../ui/filters.tsx'
import { Empty } from '../ui/notice.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { Unread } from '../ui/unread.tsx'
import { useUpstreams } from './data.ts'
import { UpstreamDrawer } from './drawer.tsx'
import { FoundHere } from './found.tsx'
import { filterUpstreams, toBreakers, toCredential, toUpstreamState } from './words.ts'

const newUpstream = () =>
  may('owner') && (
    <ButtonLink kind="main" icon="plus" href={toHref('/upstreams/new')} data-new>
      New upstream
    </ButtonLink>
  )

export function UpstreamsPage() {
  const { data: upstreams, problem, reload } = useUpstreams()
  const open = named('upstream')
  return (
    <Page title="Upstreams" actions={upstreams !== null && upstreams.length > 0 && newUpstream()}>
      <Unread of={upstreams} problem={problem} retry={reload} />
      {upstreams !== null && (upstreams.length === 0 ? <NoUpstreams /> : <List upstreams={upstreams} />)}
      {upstreams !== null && may('owner') && <FoundHere />}
      {open !== null && <UpstreamDrawer key={open} id={open} onClose={() => setQuery({ upstream: null })} />}
    </Page>
  )
}

const EXAMPLE = `version: 1
upstreams:
  openai: { preset: openai, api_key: \${OPENAI_API_KEY} }
models:
  openai/*: { routes: [{ upstream: openai, model: "*" }] }`

const NoUpstreams = () => (
  <Empty title="No upstreams yet">
    <p>
      An upstream is who answers: a provider, or a server of your own. Each is watched here, and tried before it is
      needed.
    </p>
    {newUpstream()}
    <p class="dim">
      Or in <code>catalog.yaml</code> of the data folder, with the provider's key in the environment of the server:
    </p>
    <Code label="A catalogue with an upstream" text={EXAMPLE} />
  </Empty>
)

const STATES = [
  ['', 'In any state'],
  ['unwell', 'To be looked at'],
  ['healthy', 'Healthy'],
  ['disabled', 'Disabled'],
] as const

function List({ upstreams }: { upstreams: readonly ShownUpstream[] }) {
  const state = query.value.get('state') ?? ''
  const shown = filterUpstreams(upstreams, { search: query.value.get('search') ?? '', state })
  return (
    <>
      <search class="filters">
        <SearchFilter what="upstreams" />
        <Choice name="state" label="State" value={state} options={STATES} />
      </search>
      {shown.length > 0 ? (
        <Table caption="Upstreams" columns={COLUMNS} rows={shown} idOf={({ id }) => id} />
      ) : (
        <p class="dim">
          No upstream is like that. <a href={toHref('/upstreams')}>Show all of them</a>
        </p>
      )}
      <ListFoot shown={shown.length} all={upstreams.length} />
    </>
  )
}

const COLUMNS: readonly Column<ShownUpstream>[] = [
  {
    name: 'name',
    title: 'Name',
    sortBy: ({ id }) => id,
    cell: ({ id, base_url, dialect }) => (
      <>
        <a class="row-link" href={toHrefWith({ upstream: id })}>
          {id}
        </a>
        <span class="under">{base_url ?? dialect}</span>
      </>
    ),
  },
  {
    name: 'state',
    title: 'State',
    sortBy: (upstream) => toUpstreamState(upstream).word,
    cell: (upstream) => {
      const { kind, word } = toUpstreamState(upstream)
      return (
        <div class="state-cell">
          <State kind={kind}>{word}</State>
          {upstream.reason && <span class="under">{upstream.reason}</span>}
        </div>
      )
    },
  },
  {
    name: 'breakers',
    title: 'Breakers',
    isOnPhone: false,
    cell: ({ targets }) => {
      const told = toBreakers(targets)
      return told === null ? <None /> : <State kind={told.kind}>{told.word}</State>
    },
  },
  {
    name: 'credential',
    title: 'Credential',
    isOnPhone: false,
    cell: ({ credential }) => {
      const { kind, word } = toCredential(credential)
      return credential === null ? <span class="dim">{word}</span> : <State kind={kind}>{word}</State>
    },
  },
  {
    name: 'models',
    title: 'Models',
    isFigure: true,
    isOnPhone: false,
    sortBy: ({ targets }) => targets.length,
    cell: ({ id, targets }) => (
      <a class="cell-link" href={toHref(`/models?upstream=${encodeURIComponent(id)}`)}>
        <Count count={targets.length} />
      </a>
    ),
  },
  {
    name: 'answered',
    title: 'Last answer',
    isFigure: true,
    sortBy: ({ last_ok_ms }) => last_ok_ms ?? 0,
    cell: ({ last_ok_ms: ms }) => (ms === null ? <span class="dim">none yet</span> : <When ms={ms} />),
  },
]
