/** What an answer takes, while it is written and after. */
import type { PricingItem } from '../../domain/usage.ts'
import { toHref } from '../address/address.ts'
import { Count, Latency, Money, None } from '../ui/figure.tsx'
import { toFigures, toRate } from './figures.ts'
import { clock } from './run.ts'
import { type Answer, isRunning } from './thread.ts'

export function AnswerFiguresLine({ of: answer, pricing }: { of: Answer; pricing: readonly PricingItem[] | null }) {
  const { firstMs, tookMs, tokens, tokensPerSecond, nanoUsd, isEstimated } = toFigures(
    answer,
    pricing,
    isRunning(answer) ? clock.value : (answer.endedMs ?? answer.startedMs),
  )
  return (
    <dl class="play-figures">
      <div>
        <dt>First token</dt>
        <dd>{firstMs === null ? <None /> : <Latency ms={Math.round(firstMs)} />}</dd>
      </div>
      <div>
        <dt>Took</dt>
        <dd>
          <Latency ms={Math.round(tookMs)} />
        </dd>
      </div>
      <div>
        <dt>Tokens</dt>
        <dd>
          {isEstimated && tokens > 0 && '~'}
          <Count count={tokens} />
        </dd>
      </div>
      <div>
        <dt>Speed</dt>
        <dd class="figure-text">{tokensPerSecond === null ? <None /> : toRate(tokensPerSecond)}</dd>
      </div>
      <div>
        <dt>Cost</dt>
        <dd>{nanoUsd === null ? <None /> : <Money nanoUsd={nanoUsd} isEstimated={isEstimated && nanoUsd > 0} />}</dd>
      </div>
      {answer.requestId !== null && !isRunning(answer) && (
        <div>
          <dt>On record</dt>
          <dd>
            <a href={toHref(`/requests/${answer.requestId}`)}>…{answer.requestId.slice(-8)}</a>
          </dd>
        </div>
      )}
    </dl>
  )
}
