/** The figures that answer first, and how each compares with the period before. */
import type { ComponentChildren } from 'preact'
import { DAY_MS } from '../../domain/time.ts'
import { query, setQuery, toHref, toHrefWith } from '../address/address.ts'
import { withQuery } from '../address/match.ts'
import { useNewest } from '../api/loaded.ts'
import { may } from '../api/session.ts'
import { type AuditEntry, toActor, toDeed, toObject, toPlace } from '../audit/words.ts'
import { toDay, toExactCount, toMoment, toMoney, toPercent } from '../figures/figures.ts'
import { BudgetCell } from '../keys/facts.tsx'
import { Button, Icon, Id } from '../ui/controls.tsx'
import { Bar, Count, Latency, Money, None, nowMs, Percent, Sparkline, State, When } from '../ui/figure.tsx'
import { Problem } from '../ui/notice.tsx'
import { type Overview, useHeat, useLines, useTops, useUsers } from './data.ts'
import {
  byUse,
  type Delta,
  type Forecast,
  HEAT_DAYS,
  isReady,
  type List,
  type Share,
  toAmountDelta,
  toBusiest,
  toForecast,
  toPointsDelta,
  toShade,
  toStateText,
  toTimeDelta,
} from './figures.ts'
import { toQuery, toSpan } from './range.ts'

const FEW = 20

export function Headline({ of: { now, before, range, filters, upstreams } }: { of: Overview }) {
  const than = range.before.text
  const toRequests = (changes: Record<string, string> = {}) =>
    toHref(`/requests${withQuery('', { ...filters, ...toSpan(range), ...changes })}`)
  // A handful says nothing of how fast and how well it went.
  const isComparable = before.requests >= FEW
  const out = upstreams.filter((one) => !isReady(one))
  return (
    <dl class="headline overview-figures">
      <Figure title="Cost" delta={toAmountDelta(now.costNanoUsd, before.costNanoUsd)} than={than}>
        <Money nanoUsd={now.costNanoUsd} isEstimated={now.isEstimated} />
      </Figure>
      <Figure title="Requests" delta={toAmountDelta(now.requests, before.requests)} than={than}>
        <a href={toRequests()}>
          <Count count={now.requests} />
        </a>
      </Figure>
      <Figure title="Failed" delta={isComparable ? toPointsDelta(now.badShare, before.badShare) : null} than={than}>
        {now.badShare === null ? (
          <None />
        ) : (
          <a
            href={toRequests({ state: 'errors' })}
            title={`${toExactCount(now.failed)} failed, ${toExactCount(now.cut)} broke off`}
          >
            <Percent share={now.badShare} />
          </a>
        )}
      </Figure>
      <Figure
        title="First token, p50"
        delta={isComparable ? toTimeDelta(now.firstTokenP50Ms, before.firstTokenP50Ms) : null}
        than={than}
        more={
          now.firstTokenP95Ms !== null && (
            <>
              p95 <Latency ms={now.firstTokenP95Ms} />
            </>
          )
        }
      >
        {now.firstTokenP50Ms === null ? <None /> : <Latency ms={now.firstTokenP50Ms} />}
      </Figure>
      <Figure title="Upstreams ready" more={out.length === 0 ? 'all of them' : out.map(({ id }) => id).join(', ')}>
        <a href={toHref('/upstreams')}>
          {upstreams.length - out.length} of {upstreams.length}
        </a>
      </Figure>
    </dl>
  )
}

interface FigureProps {
  title: string
  delta?: Delta | null
  /** What it is compared with. */
  than?: string
  more?: ComponentChildren
  children: ComponentChildren
}

const Figure = ({ title, delta, than, more, children }: FigureProps) => (
  <div>
    <dt>{title}</dt>
    <dd>{children}</dd>
    <dd class="figure-note">
      {delta && (
        <span class="delta" title={delta.direction === 'same' ? undefined : `${delta.text} ${than}`}>
          {delta.direction !== 'same' && <Icon name={delta.direction} />}
          {delta.text}
          <span class="unseen">{delta.direction !== 'same' && ` ${than}`}</span>
        </span>
      )}
      {more && <span>{more}</span>}
    </dd>
  </div>
)

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

const HOURS = Array.from({ length: 24 }, (_, hour) => hour)
const toClock = (hour: number) => `${String(hour).padStart(2, '0')}:00`

const toDayName = (ms: number) =>
  new Intl.DateTimeFormat('en-US', { weekday: 'short', month: 'short', day: 'numeric', timeZone: 'UTC' }).format(ms)

export function HeatStrip({ of }: { of: Overview }) {
  const { data: days } = useHeat(of)
  const busiest = days && toBusiest(days)
  const toText = (requests: number) => `${toExactCount(requests)} ${requests === 1 ? 'request' : 'requests'}`
  return (
    <section class="panel heat-panel" aria-label="When it is used">
      <h2>
        {busiest
          ? `Busiest: ${toMoment(busiest.ms, nowMs.value, 'UTC')}, ${toText(busiest.requests)}`
          : 'When it is used'}
      </h2>
      <table class="heat">
        <caption class="unseen">Requests by hour, UTC, of {HEAT_DAYS} days</caption>
        <thead>
          <tr>
            <th scope="col">
              <span class="unseen">Day</span>
            </th>
            {HOURS.map((hour) => (
              <th key={hour} scope="col">
                {hour % 6 === 0 ? toClock(hour) : <span class="unseen">{toClock(hour)}</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {(days ?? []).map(({ ms, hours }) => (
            <tr key={ms}>
              <th scope="row">
                <a href={toHrefWith({ ...toQuery(ms, ms + DAY_MS), table: null })}>{toDayName(ms)}</a>
              </th>
              {hours.map((requests, hour) => (
                <td
                  key={hour}
                  class={requests === null ? 'heat-none' : `heat-${toShade(requests, busiest?.requests ?? 1)}`}
                  title={requests === null ? undefined : `${toDayName(ms)}, ${toClock(hour)}: ${toText(requests)}`}
                >
                  <span class="unseen">{requests ?? 'not yet'}</span>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}

/** Of each list. */
const MOST = 6

/** What has no name is told of by its id. */
const ID = /^[0-9a-f]{32}$/

const Panel = ({ title, children }: { title: string; children: ComponentChildren }) => (
  <section class="panel beside-panel">
    <h2>{title}</h2>
    {children}
  </section>
)

export function NotReady({ of: { upstreams, reasons } }: { of: Overview }) {
  const out = upstreams.filter((one) => !isReady(one))
  // What is said of an upstream above needs not be said again.
  const others = reasons.filter((reason) => !out.some(({ id }) => reason.split(' ').includes(id)))
  if (out.length === 0 && others.length === 0) return null
  return (
    <Panel title="Not ready">
      <ul class="lines">
        {out.map(({ id, state, reason, last_error }) => (
          <li key={id}>
            <strong>{id}</strong>
            <State kind="bad">{toStateText(state)}</State>
            {(reason !== null || last_error !== null) && <p class="beside-note">{reason ?? last_error?.message}</p>}
          </li>
        ))}
        {others.map((reason) => (
          <li key={reason}>
            <p class="beside-note">{reason}</p>
          </li>
        ))}
      </ul>
    </Panel>
  )
}

export function Budgets({ of: { keys, teams } }: { of: Overview }) {
  const ofKeys = keys
    .filter(({ status }) => status === 'active')
    .map((key) => ({ ...key, href: toHref(`/keys?key=${key.id}`), kind: 'key' }))
  const ofTeams = teams.map((team) => ({ ...team, href: toHref(`/teams?team=${team.id}`), kind: 'team' }))
  const all = byUse([...ofTeams, ...ofKeys])
  return (
    <Panel title="Budgets">
      {all.length === 0 && <p class="dim">No key and no team has one. A budget ends what costs too much by itself.</p>}
      <ul class="lines">
        {all.slice(0, MOST).map((one) => (
          <li key={`${one.kind} ${one.id}`}>
            <a href={one.href}>
              {one.name}
              {one.kind === 'team' && <span class="dim"> (team)</span>}
            </a>
            <BudgetCell {...one} />
            <p class="beside-note">{toForecastText(toForecast(one, nowMs.value), nowMs.value)}</p>
          </li>
        ))}
      </ul>
      {all.length > MOST && <p class="dim">And {all.length - MOST} that are used less.</p>}
    </Panel>
  )
}

function toForecastText(forecast: Forecast | null, now: number): string | null {
  if (forecast === null) return null
  const { atEndNanoUsd, emptyMs } = forecast
  return emptyMs === null
    ? `On course for ${toMoney(atEndNanoUsd)}`
    : `At this pace spent on ${toDay(emptyMs, now, 'UTC')}`
}

export const Changed = ({ of: { audit } }: { of: Overview }) => (
  <Panel title="What changed">
    {audit.length === 0 && <p class="dim">Nothing yet. Every change of keys, catalogue and settings is told here.</p>}
    <ul class="lines">
      {audit.slice(0, MOST).map((entry) => (
        <li key={entry.id}>
          <span>
            {toActor(entry)} {toDeed(entry)} <ChangedThing of={entry} />
          </span>
          <span class="dim">
            <When ms={entry.at_ms} />
          </span>
        </li>
      ))}
    </ul>
    {audit.length > 0 && <a href={toHref('/audit')}>All changes</a>}
  </Panel>
)

function ChangedThing({ of: entry }: { of: AuditEntry }) {
  const [object, place] = [toObject(entry), toPlace(entry)]
  if (ID.test(object)) return <Id id={object} />
  return place !== null && may(place.least) ? <a href={toHref(place.path)}>{object}</a> : <strong>{object}</strong>
}
