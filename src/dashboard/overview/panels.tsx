/** Headline figures, and the panels next to the charts. */

import type { ComponentChildren } from 'preact'
import { DAY_MS } from '../../domain/time.ts'
import { isReady } from '../../domain/upstream-state.ts'
import { USAGE_FIGURE_NAMES, USAGE_FIGURES, type UsageFigureName } from '../../domain/usage-figures.ts'
import { type Forecast, toForecast } from '../../keys/forecast.ts'
import { toHref, toHrefWith } from '../address/address.ts'
import { nowMs } from '../api/clock.ts'
import { useNewest } from '../api/loaded.ts'
import { may } from '../api/session.ts'
import { type AuditEntry, toActor, toDeed, toObject, toPlace } from '../audit/words.ts'
import { type Delta, SAME, toDay, toDelta, toExactCount, toMoment, toMoney } from '../figures/figures.ts'
import { BudgetCell } from '../keys/facts.tsx'
import { toRequests } from '../reports/narrow.tsx'
import { Icon, Id } from '../ui/controls.tsx'
import { Count, Figure, Latency, Money, None, Percent, When } from '../ui/figure.tsx'
import { Unread } from '../ui/notice.tsx'
import { type Overview, type Standing, useCulpritKey, useHeat, useRefusals } from './data.ts'
import { byUse, HEAT_DAYS, toBusiest, toPointsDelta, toShade, toTimeDelta } from './figures.ts'
import { toQuery, toSpan } from './range.ts'

const FEW = 20

const toUnready = ({ upstreams }: Overview) => upstreams.filter((one) => !isReady(one))

/** Main cause of the change in cost since the period before. */
export function WhatChanged({ of }: { of: Overview }) {
  const { data } = useCulpritKey(of)
  const { now, before, range, culprit } = of
  const change = now.costNanoUsd - before.costNanoUsd
  if (now.requests === 0 || before.costNanoUsd === 0 || toDelta(now.costNanoUsd, before.costNanoUsd) === SAME)
    return null
  const key = data?.key ?? null
  const link = (by: string, { id, name }: { id: string; name: string }) => (
    <a href={toHrefWith({ [by]: id, by: by === 'model' ? 'key' : 'model' })}>{name}</a>
  )
  return (
    <p class="what-changed">
      {toMoney(Math.abs(change))} {change > 0 ? 'more' : 'less'} {range.before.text}
      {(culprit !== null || key !== null) && ', mostly '}
      {culprit !== null && link('model', culprit)}
      {key !== null && (
        <>
          {culprit !== null && ' by '}key {link('key', key)}
        </>
      )}
      .
    </p>
  )
}

export function Headline({ of }: { of: Overview }) {
  const { now, before, figures, range, filters, upstreams } = of
  const shown = { ...filters, ...toSpan(range) }
  // Too few requests make error rates and latencies incomparable.
  const isComparable = before.requests >= FEW
  const compare = (delta: Delta | null) => <Compared of={delta} than={range.before.text} />
  const unready = toUnready(of)
  const bad = `${toExactCount(now.failed)} failed, ${toExactCount(now.cut)} interrupted`
  return (
    <dl class="headline overview-figures">
      {USAGE_FIGURE_NAMES.map((name) => {
        const { title, kind } = USAGE_FIGURES[name]
        const [value, earlier] = [figures.now[name], figures.before[name]]
        const delta =
          kind === 'share'
            ? toPointsDelta(value, isComparable ? earlier : null)
            : value === null
              ? null
              : toDelta(value, earlier ?? 0)
        return (
          <Figure
            key={name}
            name={title}
            note={
              <>
                {compare(delta)}
                {name === 'error_share' && of.stopped > 0 && <span>{toExactCount(of.stopped)} stopped by clients</span>}
              </>
            }
          >
            {value === null ? (
              <None />
            ) : (
              <a
                href={toRequests({ ...shown, ...(name === 'error_share' && { state: 'errors' }) })}
                title={name === 'error_share' ? bad : undefined}
              >
                <UsageValue name={name} value={value} isEstimated={now.isEstimated} />
              </a>
            )}
          </Figure>
        )
      })}
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

interface UsageValueProps {
  name: UsageFigureName
  value: number
  isEstimated: boolean
}

export function UsageValue({ name, value, isEstimated }: UsageValueProps) {
  const { kind } = USAGE_FIGURES[name]
  if (kind === 'money') return <Money nanoUsd={value} isEstimated={isEstimated} />
  return kind === 'share' ? <Percent share={value} /> : <Count count={value} />
}

export function Compared({ of: delta, than }: { of: Delta | null; than: string }) {
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

/** Requests rejected before they were recorded; other figures don't include them. */
export function Refusals({ of }: { of: Overview }) {
  const codes = useNewest(useRefusals(of).data)
  if (codes === null || codes.length === 0) return null
  return (
    <Panel title="Refused requests">
      <p class="dim">Rejected before a model was called. Not included in the other figures.</p>
      <ul class="lines">
        {codes.map(({ code, meaning, refused, keys }) => (
          <li key={code}>
            <code>{code}</code>
            <Count count={refused} />
            <p class="side-note">{meaning}</p>
            {keys.length > 0 && (
              <p class="side-note">
                {keys.slice(0, MAX_HIT).map(({ id, name }, i) => (
                  <span key={id}>
                    {i > 0 && ', '}
                    <a href={toHref(`/keys?key=${id}`)}>{name ?? id.slice(-8)}</a>
                  </span>
                ))}
                {keys.length > MAX_HIT && (
                  <>
                    {' and '}
                    <a href={toHref('/keys?state=refused')}>
                      {keys.length - MAX_HIT} more {keys.length - MAX_HIT === 1 ? 'key' : 'keys'}
                    </a>
                  </>
                )}
              </p>
            )}
          </li>
        ))}
      </ul>
    </Panel>
  )
}

const MAX_HIT = 3

const LinesRoom = () => <div class="room-of-lines" />

export function Budgets({ of: { keys, teams } }: { of: Standing }) {
  if (keys.data === null || teams.data === null)
    return (
      <Panel title="Budgets">
        <Unread
          of={null}
          problem={keys.problem ?? teams.problem}
          retry={() => void Promise.all([keys.reload(), teams.reload()])}
        >
          <LinesRoom />
        </Unread>
      </Panel>
    )
  const ofKeys = keys.data
    .filter(({ status }) => status === 'active')
    .map((key) => ({ ...key, href: toHref(`/keys?key=${key.id}`), kind: 'key' }))
  const ofTeams = teams.data.map((team) => ({ ...team, href: toHref(`/teams?team=${team.id}`), kind: 'team' }))
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

export const Changed = ({ of: { changes } }: { of: Standing }) => (
  <Panel title="Recent changes">
    <Unread of={changes.data} problem={changes.problem} retry={changes.reload}>
      <LinesRoom />
    </Unread>
    {changes.data?.length === 0 && (
      <p class="dim">No changes yet. Edits to keys, the catalog, and settings appear here.</p>
    )}
    <ul class="lines">
      {changes.data?.slice(0, MAX).map((entry) => (
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
    {changes.data !== null && changes.data.length > 0 && <a href={toHref('/audit')}>Audit log</a>}
  </Panel>
)

function ChangedThing({ of: entry }: { of: AuditEntry }) {
  const [object, place] = [toObject(entry), toPlace(entry)]
  if (ID.test(object)) return <Id id={object} />
  return place !== null && may(place.least) ? <a href={toHref(place.path)}>{object}</a> : <strong>{object}</strong>
}
