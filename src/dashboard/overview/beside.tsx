/** What is so now, beside the pictures of what was: budgets, what is not ready, what was changed. */
import type { ComponentChildren } from 'preact'
import { toHref } from '../address/address.ts'
import { may } from '../api/session.ts'
import { type AuditEntry, toActor, toDeed, toObject, toPlace } from '../audit/words.ts'
import { toMoney } from '../figures/money.ts'
import { toDay } from '../figures/times.ts'
import { BudgetCell } from '../keys/facts.tsx'
import { Id } from '../ui/copy.tsx'
import { nowMs, State, When } from '../ui/figure.tsx'
import type { Overview } from './data.ts'
import { byUse, type Forecast, toForecast } from './forecast.ts'
import { isReady, toStateText } from './standing.ts'

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
