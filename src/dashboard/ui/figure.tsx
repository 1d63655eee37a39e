/** Rounded figures whose exact value is in the title and in copied text. */
import type { ComponentChildren } from 'preact'
import { UNITS } from '../../domain/units.ts'
import { isByUnit } from '../../domain/usage.ts'
import { nowMs } from '../api/clock.ts'
import {
  type FieldChange,
  isFree,
  lacksPrice,
  type Prices,
  toCount,
  toExactCount,
  toExactMoney,
  toIso,
  toLatency,
  toMoment,
  toMoney,
  toPercent,
  toPerMillion,
  toUnitPrices,
  toWhen,
} from '../figures/figures.ts'

/** @param exact text copied if only this figure is selected */
const Exact = ({ exact, title = exact, children }: { exact: string; title?: string; children: ComponentChildren }) => (
  <span
    class="figure-text"
    title={title}
    onCopy={(event) => {
      event.clipboardData?.setData('text/plain', exact)
      event.preventDefault()
    }}
  >
    {children}
  </span>
)

export const Money = ({ nanoUsd, isEstimated = false }: { nanoUsd: number; isEstimated?: boolean }) => (
  <Exact
    exact={toExactMoney(nanoUsd)}
    title={isEstimated ? `${toExactMoney(nanoUsd)}, partly estimated` : toExactMoney(nanoUsd)}
  >
    {toMoney(nanoUsd, isEstimated)}
  </Exact>
)

export const Count = ({ count }: { count: number }) => <Exact exact={toExactCount(count)}>{toCount(count)}</Exact>

export const PerMillion = ({ usd }: { usd: string | undefined }) =>
  usd === undefined ? (
    <None />
  ) : (
    <span class="figure-text" title={`$${usd} per token`}>
      {toPerMillion(usd)}
    </span>
  )

/** This unit is priced with the output, others with the input. */
const MADE = UNITS.images.title.toLowerCase()

interface PriceProps {
  of: Prices
  /** The model's output modalities. */
  made: readonly string[]
  side: 'prompt' | 'completion'
}

/** A price in a list: an amount, `free`, `unknown`, or one per unit, in words. */
export function Price({ of: pricing, made, side }: PriceProps) {
  if (pricing.length === 0 || lacksPrice(pricing, made)) return <span class="dim">unknown</span>
  if (isFree(pricing)) return <span class="dim">free</span>
  if (!isByUnit(pricing)) return <PerMillion usd={pricing[0]?.[side]} />
  const own = toUnitPrices(pricing).filter(([word]) => (word === MADE) === (side === 'completion'))
  if (own.length === 0) return <None />
  return (
    <>
      {own.map(([word, usd]) => (
        <span key={word} class="figure-text">
          {usd}
          <span class="under">per {word}</span>
        </span>
      ))}
    </>
  )
}

export const Percent = ({ share }: { share: number }) => (
  <Exact exact={`${(share * 100).toFixed(2)}%`}>{toPercent(share)}</Exact>
)

export const Latency = ({ ms }: { ms: number | null }) =>
  ms === null ? <None /> : <Exact exact={`${toExactCount(ms)} ms`}>{toLatency(ms)}</Exact>

/** A past time is never `in a moment`, even if the server's clock is ahead; @param mayBeAhead for times such as an expiry */
export const When = ({ ms, mayBeAhead = false }: { ms: number; mayBeAhead?: boolean }) => (
  <time class="figure-text" dateTime={toIso(ms)} title={toIso(ms)}>
    {toWhen(ms, mayBeAhead ? nowMs.value : Math.max(ms, nowMs.value))}
  </time>
)

/** Never relative: `Nov 21, 14:03`. */
export const Moment = ({ ms }: { ms: number }) => (
  <time class="figure-text" dateTime={toIso(ms)} title={toIso(ms)}>
    {toMoment(ms, nowMs.value)}
  </time>
)

/** A word with a shape, so that color never carries meaning alone. */
export const State = ({ kind, children }: { kind: 'good' | 'warn' | 'bad' | 'off'; children: ComponentChildren }) => (
  <span class={`state ${kind}`}>{children}</span>
)

export function Bar({ share, label, kind }: { share: number; label: string; kind: 'good' | 'warn' | 'bad' }) {
  const percent = Math.min(100, Math.max(0, share * 100))
  return (
    <span class={`bar ${kind}`} role="img" aria-label={label}>
      <span style={{ width: `${percent}%` }} />
    </span>
  )
}

export const None = () => (
  <span class="dim">
    <span aria-hidden="true">–</span>
    <span class="unseen">none</span>
  </span>
)

interface SparkProps {
  values: readonly number[]
  /** For screen readers: `1,284 requests in 30 days`. */
  label: string
  /** True if the last period, such as today, is incomplete: it is drawn fainter. */
  isLastUnderWay?: boolean
}

const HEIGHT = 20

/** Scaled to its own maximum, so that rows compare in shape, not size. */
export function Sparkline({ values, label, isLastUnderWay = false }: SparkProps) {
  const most = Math.max(1, ...values)
  const width = Math.max(1, values.length - 1)
  const points = values.map((value, index) => `${index},${HEIGHT - (value / most) * (HEIGHT - 2) - 1}`)
  return (
    <svg class="sparkline" viewBox={`0 0 ${width} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
      <polyline points={points.slice(0, isLastUnderWay ? -1 : undefined).join(' ')} />
      {isLastUnderWay && <polyline class="under-way" points={points.slice(-2).join(' ')} />}
    </svg>
  )
}

export function Columns({
  values,
  label,
  isLastUnderWay = false,
  titleOf,
}: SparkProps & { titleOf(index: number): string }) {
  const most = Math.max(...values) || 1
  return (
    <svg
      class="columns"
      viewBox={`0 0 ${values.length * 10} 60`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      {values.map((value, index) => {
        const height = value === 0 ? 1 : Math.max(2, (value / most) * 60)
        return (
          <g key={index} class={isLastUnderWay && index === values.length - 1 ? 'under-way' : undefined}>
            <title>{titleOf(index)}</title>
            <rect class="room" x={index * 10} y={0} width={10} height={60} />
            <rect
              class={value === 0 ? 'nothing' : 'column'}
              x={index * 10 + 1}
              y={60 - height}
              width={8}
              height={height}
            />
          </g>
        )
      })}
    </svg>
  )
}

interface FigureProps {
  name: string
  note?: ComponentChildren
  children: ComponentChildren
}

/** Belongs in a `<dl class="headline">`. */
export const Figure = ({ name, note, children }: FigureProps) => (
  <div>
    <dt>{name}</dt>
    <dd>{children}</dd>
    {note !== undefined && <dd class="figure-note">{note}</dd>}
  </div>
)

export const Fact = ({ name, children }: { name: string; children: ComponentChildren }) => (
  <>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </>
)

export const TimeFact = ({ name, ms }: { name: string; ms: number | null }) =>
  ms === null ? null : (
    <Fact name={name}>
      <When ms={ms} />
    </Fact>
  )

export const FieldChanges = ({ of: changes }: { of: readonly FieldChange[] }) => (
  <dl class="change-fields">
    {changes.map(({ field, before, after }) => (
      <div key={field}>
        <dt>{field}</dt>
        <dd>
          {before !== null && (
            <del>
              <span class="unseen">from </span>
              {before}
            </del>
          )}
          {before !== null && after !== null && <span aria-hidden="true"> → </span>}
          {after !== null && (
            <ins>
              {before !== null && <span class="unseen"> to </span>}
              {after}
            </ins>
          )}
        </dd>
      </div>
    ))}
  </dl>
)
