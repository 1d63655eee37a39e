/** The figures that answer first, and how each compares with the period before. */
import type { ComponentChildren } from 'preact'
import { toHref } from '../address/address.ts'
import { withQuery } from '../address/match.ts'
import { toExactCount } from '../figures/counts.ts'
import { Count, Latency, Money, None, Percent } from '../ui/figure.tsx'
import { Icon } from '../ui/icon.tsx'
import type { Overview } from './data.ts'
import { type Delta, toAmountDelta, toPointsDelta, toTimeDelta } from './delta.ts'
import { toSpan } from './range.ts'
import { isReady } from './standing.ts'

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
