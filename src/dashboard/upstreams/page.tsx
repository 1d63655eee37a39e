/** The list of upstreams, and those found on this machine. */

import { useState } from 'preact/hooks'
import type { ShownFoundServer, ShownUpstream } from '../../documents/upstream.ts'
import { named, query, setQuery, toHref, toHrefWith } from '../address/address.ts'
import { toRefusal } from '../api/loaded.ts'
import type { Refusal } from '../api/refusal.ts'
import { may } from '../api/session.ts'
import { Page } from '../shell/page.tsx'
import { Button, ButtonLink, Code } from '../ui/controls.tsx'
import { Count, None, State, When } from '../ui/figure.tsx'
import { Empty, Problem, tell, Unread } from '../ui/notice.tsx'
import { List } from '../ui/resource.tsx'
import { Choice, type Column, searched } from '../ui/table.tsx'
import { addFound, useFound, useUpstreams } from './data.ts'
import { UpstreamDrawer } from './drawer.tsx'
import { filterUpstreams, toAddedText, toBreakers, toCredential, toNewServers, toUpstreamState } from './words.ts'

const addProvider = () =>
  may('owner') && (
    <ButtonLink kind="main" icon="plus" href={toHref('/upstreams/new')} data-new>
      Add provider
    </ButtonLink>
  )

export function UpstreamsPage() {
  const { data: upstreams, problem, reload } = useUpstreams()
  const open = named('upstream')
  return (
    <Page title="Upstreams" actions={upstreams !== null && upstreams.length > 0 && addProvider()}>
      <Unread of={upstreams} problem={problem} retry={reload} />
      {upstreams !== null && (upstreams.length === 0 ? <NoUpstreams /> : <Upstreams upstreams={upstreams} />)}
      {upstreams !== null && may('owner') && <FoundHere />}
      {open !== null && (
        <UpstreamDrawer key={open} id={open} onClose={() => setQuery({ upstream: null, edit: null })} />
      )}
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
    <p>An upstream is a provider or model server that Tollgate sends requests to. Its health is shown here.</p>
    {addProvider()}
    <p class="dim">
      Or in <code>catalog.yaml</code> in the data folder, with the provider's key in the server's environment:
    </p>
    <Code label="Catalog with an upstream" text={EXAMPLE} />
  </Empty>
)

const STATES = [
  ['', 'All statuses'],
  ['unwell', 'Needs attention'],
  ['healthy', 'Healthy'],
  ['disabled', 'Disabled'],
] as const

function Upstreams({ upstreams }: { upstreams: readonly ShownUpstream[] }) {
  const state = query.value.get('state') ?? ''
  return (
    <List
      what="upstreams"
      columns={COLUMNS}
      rows={filterUpstreams(upstreams, { search: searched(), state })}
      all={upstreams.length}
      idOf={({ id }) => id}
      filters={<Choice name="state" label="Status" value={state} options={STATES} />}
      none={['No matching upstreams.', '/upstreams', 'Show all upstreams']}
    />
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
    title: 'Status',
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
    title: 'Circuit breakers',
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
    title: 'Last response',
    isFigure: true,
    sortBy: ({ last_ok_ms }) => last_ok_ms ?? 0,
    cell: ({ last_ok_ms: ms }) => (ms === null ? <span class="dim">none yet</span> : <When ms={ms} />),
  },
]

function FoundHere() {
  const { data: found, problem, reload } = useFound()
  const servers = toNewServers(found?.servers ?? [])
  const providers = found?.providers ?? []
  return (
    <section class="part found">
      <h2>Found on this machine</h2>
      <Unread of={found} problem={problem} retry={reload}>
        <span class="room-of-words" />
      </Unread>
      {found !== null && servers.length + providers.length === 0 && (
        <p class="dim">No other local model servers or provider keys found.</p>
      )}
      <ul class="lines">
        {servers.map((server) => (
          <Server key={server.base_url} of={server} />
        ))}
        {providers.map(({ preset, name, variable }) => (
          <li key={preset}>
            <span>
              {name} <code class="dim">{variable}</code>
            </span>
            <State kind="off">found</State>
            <ButtonLink icon="plus" href={toHref(`/upstreams/new?provider=${preset}`)}>
              Add {preset}
            </ButtonLink>
          </li>
        ))}
      </ul>
      {found !== null && (
        <div>
          <Button onClick={reload}>Search again</Button>
        </div>
      )}
    </section>
  )
}

function Server({ of: server }: { of: ShownFoundServer }) {
  const [isBusy, setBusy] = useState(false)
  const [refusal, setRefusal] = useState<Refusal | null>(null)
  const add = async () => {
    if (isBusy) return
    setBusy(true)
    setRefusal(null)
    try {
      tell(toAddedText(server.id, await addFound(server)))
    } catch (error) {
      setRefusal(toRefusal(error))
    }
    setBusy(false)
  }
  return (
    <li>
      <span>
        {server.name} <code class="dim">{server.base_url}</code>
      </span>
      <State kind="off">found</State>
      <Button icon="plus" onClick={add} aria-disabled={isBusy}>
        Add {server.id}
      </Button>
      {refusal && <Problem of={refusal} />}
    </li>
  )
}
