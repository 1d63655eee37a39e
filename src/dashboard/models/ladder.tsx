/** The routes of a model in the order in which they are tried, each with how it is. */
import type { ComponentChildren } from 'preact'
import type { ShownModel } from '../../documents/model.ts'
import type { ShownUpstream } from '../../documents/upstream.ts'
import { toFigureText } from '../../domain/model-server.ts'
import { toHref } from '../address/address.ts'
import { toExactCount, toPercent } from '../figures/counts.ts'
import { toPrices } from '../figures/prices.ts'
import { State } from '../ui/figure.tsx'
import { type Rung, toFeatureWord, toLadder, toRouteHealth } from './words.ts'

type Of = Pick<ShownModel, 'slug' | 'routes'>

const upstreamOf = (upstreams: readonly ShownUpstream[], { upstream }: Rung) =>
  upstreams.find(({ id }) => id === upstream)

/** For a cell: the upstreams alone. */
const RUNGS_SHOWN = 3

export function Rungs({ of: model, upstreams }: { of: Of; upstreams: readonly ShownUpstream[] }) {
  const rungs = toLadder(model.routes)
  return (
    <ol class="rungs">
      {rungs.slice(0, RUNGS_SHOWN).map((rung) => {
        const { kind, word } = toRouteHealth(model.slug, rung, upstreamOf(upstreams, rung))
        return (
          <li key={`${rung.upstream} ${rung.upstream_model}`} title={word}>
            <State kind={kind}>{rung.upstream}</State>
            <span class="unseen">: {word}</span>
          </li>
        )
      })}
      {rungs.length > RUNGS_SHOWN && <li class="dim">+{rungs.length - RUNGS_SHOWN}</li>}
    </ol>
  )
}

const PLACES = { only: 'Asked', first: 'First', next: 'Then', last: 'Last', off: 'Not asked' } as const

interface LadderProps {
  of: ShownModel
  upstreams: readonly ShownUpstream[]
  /** What can be done with a route; null for nothing. */
  actions: ((route: Rung) => ComponentChildren) | null
}

export const Ladder = ({ of: model, upstreams, actions }: LadderProps) => (
  <ol class="ladder">
    {toLadder(model.routes).map((rung) => {
      const { kind, word, reason } = toRouteHealth(model.slug, rung, upstreamOf(upstreams, rung))
      const differences = toDifferences(model, rung)
      const figures = rung.served === null ? '' : toFigureText(rung.served)
      return (
        <li key={`${rung.upstream} ${rung.upstream_model}`}>
          <span class="place">
            {PLACES[rung.place]}
            {rung.share > 0 && rung.share < 1 && <span class="dim">{toPercent(rung.share)}</span>}
          </span>
          <div class="rung">
            <p>
              <a href={toHref(`/upstreams?upstream=${encodeURIComponent(rung.upstream)}`)}>{rung.upstream}</a>{' '}
              <code>{rung.upstream_model}</code>
            </p>
            <p>
              <State kind={kind}>{word}</State>
            </p>
            {reason && <p class="reason">{reason}</p>}
            {figures !== '' && <p class="hint">Its server: {figures}</p>}
            {differences !== '' && <p class="hint">{differences}</p>}
            {actions?.(rung)}
          </div>
        </li>
      )
    })}
  </ol>
)

/** What a route does otherwise than its model says. */
function toDifferences(model: ShownModel, rung: Rung): string {
  const missing = model.supported_features.filter((feature) => !rung.supported_features.includes(feature))
  return [
    ...(rung.own_price ? [`price of its own: ${toPrices(rung.pricing)}`] : []),
    ...(rung.context_length === model.context_length ? [] : [`context ${toExactCount(rung.context_length)}`]),
    ...(rung.max_output_length === model.max_output_length
      ? []
      : [`answers up to ${toExactCount(rung.max_output_length)} tokens`]),
    ...(missing.length === 0 ? [] : [`without ${missing.map(toFeatureWord).join(', ')}`]),
  ].join('; ')
}
