/** Who and what costs most: how each went, what share of all it is, and the requests behind it. A press on one narrows the page to it. */
import { query, setQuery, toHref, toHrefWith } from '../address/address.ts'
import { withQuery } from '../address/match.ts'
import { useNewest } from '../api/loaded.ts'
import { toPercent } from '../figures/counts.ts'
import { Button } from '../ui/button.tsx'
import { Bar, Count, Money } from '../ui/figure.tsx'
import { Problem } from '../ui/notice.tsx'
import { Sparkline } from '../ui/spark.tsx'
import { type Overview, useLines, useTops, useUsers } from './data.ts'
import { toSpan } from './range.ts'
import type { List, Share } from './shares.ts'

const TITLES = { key: 'Keys', model: 'Models', team: 'Teams', upstream: 'Upstreams', user: 'Users' } as const

export function Tops({ of }: { of: Overview }) {
  const { data, problem, reload } = useTops(of)
  const tops = useNewest(data)
  if (tops === null && problem) return <Problem of={problem} retry={reload} />
  return (
    <div class="tops" aria-busy={data === null}>
      {tops === null
        ? (['key', 'model', 'upstream'] as const).map((by) => <TopRoom key={by} by={by} />)
        : (['key', 'model', 'team', 'upstream'] as const)
            // Where nobody has a team, their list says nothing.
            .filter((by) => tops[by].some(({ id }) => id !== null))
            .map((by) => <Top key={by} by={by} of={of} shares={tops[by]} />)}
      {query.value.has('users') ? <Users of={of} /> : <NoUsers />}
    </div>
  )
}

const TopRoom = ({ by }: { by: List }) => (
  <section class="panel top" aria-busy="true">
    <h2>{TITLES[by]}</h2>
  </section>
)

const NoUsers = () => (
  <section class="panel top">
    <h2>Users</h2>
    <p class="dim">As clients name theirs. All requests of the time are gone through for them.</p>
    <p>
      <Button onClick={() => setQuery({ users: '1' })}>Show users</Button>
    </p>
  </section>
)

function Users({ of }: { of: Overview }) {
  const { data, problem, reload } = useUsers(of)
  if (problem)
    return (
      <section class="panel top">
        <h2>Users</h2>
        <Problem of={problem} retry={reload} />
      </section>
    )
  return data === null ? <TopRoom by="user" /> : <Top by="user" of={of} shares={data} />
}

function Top({ by, of, shares }: TopProps) {
  return (
    <section class="panel top">
      <h2>{TITLES[by]}</h2>
      <table>
        <caption class="unseen">{TITLES[by]} that cost most</caption>
        <colgroup>
          <col />
          <col class="top-figure" />
          <col class="top-figure" />
        </colgroup>
        <thead class="unseen">
          <tr>
            <th scope="col">Name and share</th>
            <th scope="col">Requests, and how it went</th>
            <th scope="col">Cost</th>
          </tr>
        </thead>
        {by === 'user' ? <Rows by={by} of={of} shares={shares} /> : <RowsWithLines by={by} of={of} shares={shares} />}
      </table>
    </section>
  )
}

interface TopProps {
  by: List
  of: Overview
  shares: readonly Share[]
}

function RowsWithLines(props: TopProps) {
  const ids = props.shares.flatMap(({ id }) => id ?? [])
  return <Rows {...props} lines={useLines(props.by, props.of, ids).data ?? new Map()} />
}

function Rows({ by, of, shares, lines }: TopProps & { lines?: ReadonlyMap<string, readonly number[]> }) {
  return (
    <tbody>
      {shares.map((share) => (
        <tr key={share.id}>
          <th scope="row" title={share.name}>
            <Name by={by} of={share} />
            <Bar share={share.share} kind="good" label={`${toPercent(share.share)} of all`} />
          </th>
          <td class="figure dim">
            <Behind by={by} of={of} share={share} />
            {lines && <Line of={share} line={lines.get(String(share.id)) ?? []} />}
          </td>
          <td class="figure">
            <Money nanoUsd={share.costNanoUsd} isEstimated={share.isEstimated} />
            <span class="top-share">{toPercent(share.share)}</span>
          </td>
        </tr>
      ))}
    </tbody>
  )
}

/** A line has two points at least. */
const Line = ({ of, line }: { of: Share; line: readonly number[] }) =>
  line.length > 1 ? <Sparkline values={line} label={`${of.name} over time`} /> : null

function Name({ by, of: { id, name } }: { by: List; of: Share }) {
  if (id === null || by === 'user') return <>{name}</>
  const href = by === 'upstream' ? toHref(`/upstreams?upstream=${encodeURIComponent(id)}`) : toHrefWith({ [by]: id })
  return <a href={href}>{name}</a>
}

/** The requests that a row is of. */
function Behind({
  by,
  of: { range, filters },
  share: { id, name, requests },
}: {
  by: List
  of: Overview
  share: Share
}) {
  if (id === null) return <Count count={requests} />
  const path = `/requests${withQuery('', { ...filters, ...toSpan(range), [by]: id })}`
  return (
    <a href={toHref(path)}>
      <Count count={requests} />
      <span class="unseen"> requests of {name}</span>
    </a>
  )
}
