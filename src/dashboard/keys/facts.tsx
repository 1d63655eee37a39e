/** Facts that keys and teams share: spend, and their settable fields. */

import type { ComponentChildren } from 'preact'
import type { KeyDocument } from '../../documents/key.ts'
import { keysOf } from '../../domain/json.ts'
import { isLimit, LIMIT_NAMES, type Limits } from '../../domain/limits.ts'
import { toRefusalMeaning } from '../../domain/refusals.ts'
import { columnOf, type FieldsOf, type Kind } from '../../keys/definition.ts'
import { STANDINGS, type Standing } from '../../keys/standing.ts'
import { toHref } from '../address/address.ts'
import { api, ask } from '../api/client.ts'
import { useLoaded } from '../api/loaded.ts'
import { isMember } from '../api/session.ts'
import { toCount } from '../figures/figures.ts'
import { Bar, Count, Fact, Money, None, State, When } from '../ui/figure.tsx'
import { Headline } from '../ui/resource.tsx'
import { BUDGET_KINDS, type Budgeted, STANDING_KINDS, toBudgetText, toLimitsText } from './words.ts'

export function BudgetCell(of: Budgeted) {
  if (of.budget_nano_usd === null) return <None />
  const text = toBudgetText(of)
  return (
    <span class="budget">
      <Bar share={toBudgetShare(of)} kind={BUDGET_KINDS[of.budget_state ?? 'ok']} label={`${text} spent`} />
      <span class="figure-text">{text}</span>
    </span>
  )
}

/** From 0 to 1 and above; -1 without a budget. */
export const toBudgetShare = ({ budget_nano_usd, spent_nano_usd }: Budgeted) =>
  budget_nano_usd === null ? -1 : (spent_nano_usd ?? 0) / budget_nano_usd

type Spending = Pick<KeyDocument, 'spent_month_nano_usd' | 'spent_total_nano_usd'>

export const StandingMark = ({ of }: { of: Standing }) => <State kind={STANDING_KINDS[of]}>{STANDINGS[of]}</State>

export const Spent = ({ of: { spent_month_nano_usd, spent_total_nano_usd } }: { of: Spending }) => (
  <Headline
    of={[
      ['this month (UTC)', <Money key="month" nanoUsd={spent_month_nano_usd} />],
      ['total', <Money key="all" nanoUsd={spent_total_nano_usd} />],
    ]}
  />
)

export type Refused = Pick<KeyDocument, 'refused_24h' | 'last_refused_ms' | 'last_refused_code'>

/** Shows a state if requests were refused in the last 24 hours. */
export const RefusedState = ({ of: { refused_24h: lately, last_refused_code: code } }: { of: Refused }) =>
  lately === 0 ? null : (
    <span title={`In the last 24 hours. The last one: ${toRefusalMeaning(code ?? '')}`}>
      <State kind="warn">Refused {lately === 1 ? 'once' : `${toCount(lately)} times`}</State>
    </span>
  )

type Use = Pick<KeyDocument, 'last_used_ms' | 'last_refused_ms' | 'last_refused_code'>

/** Covers keys whose requests were all refused. */
export function LastUsed({
  of: { last_used_ms: usedMs, last_refused_ms: refusedMs, last_refused_code: code },
}: {
  of: Use
}) {
  if (usedMs !== null) return <When ms={usedMs} />
  if (refusedMs === null) return <span class="dim">never</span>
  return (
    <span title={`No request has succeeded yet. The last one: ${toRefusalMeaning(code ?? '')}`}>
      refused <When ms={refusedMs} />
    </span>
  )
}

/** For use inside a `<dl class="facts">`. */
export const RefusedFact = ({ of, by }: { of: Refused & { id: string }; by: 'key' | 'team' }) =>
  of.last_refused_ms === null ? null : (
    <Fact name="Last refused">
      <When ms={of.last_refused_ms} /> <code>{of.last_refused_code}</code>
      <p class="hint">{toRefusalMeaning(of.last_refused_code ?? '')}</p>
      {of.refused_24h > 0 && (
        <p class="hint">
          <Count count={of.refused_24h} /> in the last 24 hours
          <RefusedCodes by={by} id={of.id} />
        </p>
      )}
    </Fact>
  )

/** Most frequent first. */
function RefusedCodes({ by, id }: { by: 'key' | 'team'; id: string }) {
  const { data } = useLoaded(`refusals of ${by} ${id}`, async () => {
    const query = { by: 'code', since: '24h', [by]: id }
    const asked = isMember() ? api.own.usage.refusals.get({ query }) : api.usage.refusals.get({ query })
    return (await ask(asked)).refusals.toSorted((a, b) => Number(b.refused) - Number(a.refused))
  })
  if (data === null || data.length < 2) return null
  return <>: {data.map(({ code, refused }) => `${refused} ${code}`).join(', ')}</>
}

type Settable = Budgeted & Limits & { team?: string | null }

const isSome = (value: unknown): value is readonly string[] => Array.isArray(value) && value.length > 0

/** The value of each kind of field as shown; null hides the fact. */
const FACTS: Readonly<Record<Kind, (value: unknown, of: Settable) => ComponentChildren>> = {
  text: (value) => (typeof value === 'string' ? value : 'none'),
  patterns: (value) => (isSome(value) ? value.map((pattern) => <Line key={pattern} code={pattern} />) : 'all models'),
  ranges: (value) => (isSome(value) ? value.join(', ') : null),
  scope: (value) => (value === 'local' ? 'local only' : null),
  team: (id, { team }) =>
    typeof id !== 'string' ? 'none' : isMember() ? (team ?? 'none') : <a href={toHref(`/teams?team=${id}`)}>{team}</a>,
  count: (value) => (typeof value === 'number' ? <Count count={value} /> : 'no limit'),
  budget: (_, of) => (of.budget_nano_usd === null ? 'none' : <Budget of={of} />),
  time: (value) => (typeof value === 'number' ? <When ms={value} mayBeAhead /> : 'never'),
  metadata: (value) => {
    const notes = Object.entries(value ?? {})
    return notes.length === 0 ? null : notes.map((pair) => <Line key={pair[0]} code={pair.join('=')} />)
  },
}

const Line = ({ code }: { code: string }) => (
  <p>
    <code>{code}</code>
  </p>
)

const Budget = ({ of }: { of: Budgeted }) => (
  <>
    <BudgetCell {...of} />
    {of.budget_reset_ms !== null && (
      <p class="hint">
        Resets <When ms={of.budget_reset_ms} mayBeAhead />
      </p>
    )}
  </>
)

/** For use inside a `<dl class="facts">`. */
export function SettableFacts<Changes>({ fields, of }: { fields: FieldsOf<Changes>; of: Settable }) {
  const values = new Map<string, unknown>(Object.entries(of))
  return (
    <>
      {keysOf(fields).map((name) => {
        // The name is the title of the drawer.
        if (name === 'name') return null
        if (isLimit(name))
          return name === LIMIT_NAMES[0] ? (
            <Fact key={name} name="Limits">
              {toLimitsText(of) || 'none'}
            </Fact>
          ) : null
        const value = FACTS[fields[name].kind](values.get(columnOf(name)), of)
        return value === null ? null : (
          <Fact key={name} name={fields[name].title}>
            {value}
          </Fact>
        )
      })}
    </>
  )
}
