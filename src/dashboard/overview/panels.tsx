/** Headline figures, top lists, and the panels next to the charts. */

import type { ComponentChildren } from 'preact'
import { keysOf } from '../../domain/json.ts'
import { TOPS, WANTED_TOPS } from '../../domain/report-filters.ts'
import { DAY_MS } from '../../domain/time.ts'
import { isReady } from '../../domain/upstream-state.ts'
import { type Forecast, toForecast } from '../../keys/forecast.ts'
import { query, setQuery, toHref, toHrefWith } from '../address/address.ts'
import { nowMs } from '../api/clock.ts'
import { useNewest } from '../api/loaded.ts'
import { may } from '../api/session.ts'
import { type AuditEntry, toActor, toDeed, toObject, toPlace } from '../audit/words.ts'
import { type Delta, toDay, toDelta, toExactCount, toMoment, toMoney, toPercent } from '../figures/figures.ts'
import { BudgetCell } from '../keys/facts.tsx'
import { toTitle } from '../reports/filters.ts'
import { toRequests } from '../reports/narrow.tsx'
import { Button, Icon, Id } from '../ui/controls.tsx'
import { Bar, Count, Figure, Latency, Money, None, Percent, Sparkline, When } from '../ui/figure.tsx'
import { Problem } from '../ui/notice.tsx'
import { type List, type Overview, useHeat, useLines, useTop, useTops, type WantedList } from './data.ts'
import { byUse, HEAT_DAYS, type Share, toBusiest, toPointsDelta, toShade, toTimeDelta } from './figures.ts'
import { toQuery, toSpan } from './range.ts'

const FEW = 20

const toUnready = ({ upstreams }: Overview) => upstreams.filter((one) => !isReady(one))

export function Headline({ of }: { of: Overview }) {
  const { now, before, range, filters, upstreams } = of
  const shown = { ...filters, ...toSpan(range) }
  // Too few requests make error rates and latencies incomparable.
  const isComparable = before.requests >= FEW
  const compare = (delta: Delta | null) => <Compared of={delta} than={range.before.text} />
  const unready = toUnready(of)
  return (
    <dl class="headline overview-figures">
      <Figure name="Cost" note={compare(toDelta(now.costNanoUsd, before.costNanoUsd))}>
        <Money nanoUsd={now.costNanoUsd} isEstimated={now.isEstimated} />
      </Figure>
      <Figure name="Requests" note={compare(toDelta(now.requests, before.requests))}>
        <a href={toRequests(shown)}>
          <Count count={now.requests} />
        </a>
      </Figure>
      <Figure name="Error rate" note={compare(isComparable ? toPointsDelta(now.badShare, before.badShare) : null)}>
        {now.badShare === null ? (
          <None />
        ) : (
          <a
            href={toRequests({ ...shown, state: 'errors' })}
            title={`${toExactCount(now.failed)} failed, ${toExactCount(now.cut)} interrupted`}
          >
            <Percent share={now.badShare} />
          </a>
        )}
      </Figure>
      <Figure
        name="Time to first token (p50)"
        note={
          <>
            {compare(isComparable ? toTimeDelta(now.firstTokenP50Ms, before.firstTokenP50Ms) : null)}
            {now.firstTokenP95Ms !== null && (
              <span>
                p95 <Latency ms={now.firstTokenP95Ms} />
              </span>
            )}
          </>
        }
      >
        <Latency ms={now.firstTokenP50Ms} />
      </Figure>
      <Figure
        name="Upstreams ready"
        note={
          <span>{unready.length === 0 ? 'all ready' : `not ready: ${unready.map(({ id }) => id).join(', ')}`}</span>
        }
      >
        <a href={toHref('/upstreams')}>
          {upstreams.length - unready.length} of {upstreams.length}
        </a>
      </Figure>
    </dl>
  )
}

function Compared({ of: delta, than }: { of: Delta | null; than: string }) {
  if (delta === null) return null
  const { direction, text } = delta
  if (direction === 'same') return <span class="delta">{text}</span>
  return (
    <span class="delta" title={`${text} ${than}`}>
      <Icon name={direction} />
      {text}
      <span class="unseen"> {than}</span>
    </span>
  )
}

export function Tops({ of }: { of: Overview }) {
  const { data, problem, reload } = useTops(of)
  const tops = useNewest(data)
  if (tops === null && problem) return <Problem of={problem} retry={reload} />
  return (
    <div class="tops" aria-busy={data === null}>
      {tops === null
        ? TOPS.map((by) => by !== 'team' && <TopPanel key={by} by={by} isBusy />)
        : tops
            // Hides the list of teams if there are none.
            .filter(({ shares }) => shares.some(({ id }) => id !== null))
            .map((top) => <Top key={top.by} {...top} of={of} />)}
      {keysOf(WANTED_TOPS).map((by) =>
        query.value.has(`${by}s`) ? <WantedTop key={by} by={by} of={of} /> : <UnwantedTop key={by} by={by} />,
      )}
    </div>
  )
}

interface PanelProps {
  by: List
  isBusy?: boolean
  children?: ComponentChildren
}

const TopPanel = ({ by, isBusy, children }: PanelProps) => (
  <section class="panel top" aria-busy={isBusy}>
    <h2>{toTitle(by)}</h2>
    {children}
  </section>
)

const UnwantedTop = ({ by }: { by: WantedList }) => (
  <TopPanel by={by}>
    <p class="dim">{WANTED_TOPS[by]} This scans all requests in the period.</p>
    <p>
      <Button onClick={() => setQuery({ [`${by}s`]: '1' })}>Show {by}s</Button>
    </p>
  </TopPanel>
)

function WantedTop({ by, of }: { by: List; of: Overview }) {
  const { data, problem, reload } = useTop(by, of)
  if (data !== null && !problem) return <Top {...data} of={of} />
  return (
    <TopPanel by={by} isBusy={!problem}>
      {problem && <Problem of={problem} retry={reload} />}
    </TopPanel>
  )
}

interface TopProps {
  by: List
  of: Overview
  shares: readonly Share[]
}

const Top = ({ by, of, shares }: TopProps) => (
  <TopPanel by={by}>
    <table>
      <caption class="unseen">{toTitle(by)} by cost</caption>
      <colgroup>
        <col />
        <col class="top-figure" />
        <col class="top-figure" />
      </colgroup>
      <thead class="unseen">
        <tr>
          <th scope="col">Name and share</th>
          <th scope="col">Requests and trend</th>
          <th scope="col">Cost</th>
        </tr>
      </thead>
      {by in WANTED_TOPS ? <Rows {...{ by, of, shares }} /> : <RowsWithLines {...{ by, of, shares }} />}
    </table>
  </TopPanel>
)

function RowsWithLines(props: TopProps) {
  const ids = props.shares.flatMap(({ id }) => id ?? [])
  return <Rows {...props} lines={useLines(props.by, props.of, ids).data} />
}

function Rows({
  by,
  of: { range, filters },
  shares,
  lines,
}: TopProps & { lines?: ReturnType<typeof useLines>['data'] }) {
  return (
    <tbody>
      {shares.map(({ id, name, share, requests, costNanoUsd, isEstimated }) => {
        const count = <Count count={requests} />
        const line = (lines?.get(String(id)) ?? []).map(Number)
        return (
          <tr key={id}>
            <th scope="row" title={name}>
              <Name by={by} {...{ id, name }} />
              <Bar share={share} kind="good" label={`${toPercent(share)} of total`} />
            </th>
            <td class="figure dim">
              {id === null ? (
                count
              ) : (
                <a href={toRequests({ ...filters, ...toSpan(range), [by]: id })}>
                  {count}
                  <span class="unseen"> requests: {name}</span>
                </a>
              )}
              {line.length > 1 && <Sparkline values={line} label={`${name} over time`} />}
            </td>
            <td class="figure">
              <Money nanoUsd={costNanoUsd} isEstimated={isEstimated} />
              <span class="top-share">{toPercent(share)}</span>
            </td>
          </tr>
        )
      })}
    </tbody>
  )
}

function Name({ by, id, name }: { by: List; id: string | null; name: string }) {
  if (id === null || by in WANTED_TOPS) return <span>{name}</span>
  const href = by === 'upstream' ? toHref(`/upstreams?upstream=${encodeURIComponent(id)}`) : toHrefWith({ [by]: id })
  return <a href={href}>{name}</a>
}

const HOURS = Array.from({ length: 24 }, (_, hour) => hour)
const toRequestCount = (requests: number) => `${toExactCount(requests)} ${requests === 1 ? 'request' : 'requests'}`
const toClock = (hour: number) => `${String(hour).padStart(2, '0')}:00`

const toDayName = (ms: number) =>
  new Intl.DateTimeFormat('en-US', { weekday: 'short', month: 'short', day: 'numeric', timeZone: 'UTC' }).format(ms)

export function HeatStrip({ of }: { of: Overview }) {
  const { data: days } = useHeat(of)
  const busiest = days && toBusiest(days)
  return (
    <section class="panel heat-panel" aria-label="Activity by hour">
      <h2>
        {busiest
          ? `Busiest hour: ${toMoment(busiest.ms, nowMs.value, 'UTC')}, ${toRequestCount(busiest.requests)}`
          : 'Activity by hour'}
      </h2>
      <table class="heat">
        <caption class="unseen">Requests by hour (UTC), last {HEAT_DAYS} days</caption>
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
                  title={
                    requests === null ? undefined : `${toDayName(ms)}, ${toClock(hour)}: ${toRequestCount(requests)}`
                  }
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

/** Rows per panel. */
const MAX = 6

/** Objects without a name are shown by ID. */
const ID = /^[0-9a-f]{32}$/

const Panel = ({ title, children }: { title: string; children: ComponentChildren }) => (
  <section class="panel side-panel">
    <h2>{title}</h2>
    {children}
  </section>
)

export function Budgets({ of: { keys, teams } }: { of: Overview }) {
  const ofKeys = keys
    .filter(({ status }) => status === 'active')
    .map((key) => ({ ...key, href: toHref(`/keys?key=${key.id}`), kind: 'key' }))
  const ofTeams = teams.map((team) => ({ ...team, href: toHref(`/teams?team=${team.id}`), kind: 'team' }))
  const all = byUse([...ofTeams, ...ofKeys])
  return (
    <Panel title="Budgets">
      {all.length === 0 && <p class="dim">No budgets yet. Set one on a key or team to cap spend automatically.</p>}
      <ul class="lines">
        {all.slice(0, MAX).map((one) => (
          <li key={`${one.kind} ${one.id}`}>
            <a href={one.href}>
              {one.name}
              {one.kind === 'team' && <span class="dim"> (team)</span>}
            </a>
            <BudgetCell {...one} />
            <p class="side-note">{toForecastText(toForecast(one, nowMs.value), nowMs.value)}</p>
          </li>
        ))}
      </ul>
      {all.length > MAX && <p class="dim">and {all.length - MAX} more</p>}
    </Panel>
  )
}

function toForecastText(forecast: Forecast | null, now: number): string | null {
  if (forecast === null) return null
  const { atEndNanoUsd, emptyMs } = forecast
  return emptyMs === null
    ? `On track for ${toMoney(atEndNanoUsd)}`
    : `Runs out ${toDay(emptyMs, now, 'UTC')} at this rate`
}

export const Changed = ({ of: { audit } }: { of: Overview }) => (
  <Panel title="Recent changes">
    {audit.length === 0 && <p class="dim">No changes yet. Edits to keys, the catalog, and settings appear here.</p>}
    <ul class="lines">
      {audit.slice(0, MAX).map((entry) => (
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
    {audit.length > 0 && <a href={toHref('/audit')}>Audit log</a>}
  </Panel>
)

function ChangedThing({ of: entry }: { of: AuditEntry }) {
  const [object, place] = [toObject(entry), toPlace(entry)]
  if (ID.test(object)) return <Id id={object} />
  return place !== null && may(place.least) ? <a href={toHref(place.path)}>{object}</a> : <strong>{object}</strong>
}
