/** Prices: for a million tokens, as people compare them, beside what a token costs exactly. */
import type { PricingItem } from '../../domain/usage.ts'
import { toExactCount } from '../figures/counts.ts'
import { toPerMillion } from '../figures/prices.ts'
import { None } from '../ui/figure.tsx'
import { toPriceLines } from './words.ts'

export const PerMillion = ({ usd }: { usd: string | undefined }) =>
  usd === undefined ? (
    <None />
  ) : (
    <span class="figure-text" title={`$${usd} a token`}>
      {toPerMillion(usd)}
    </span>
  )

/** All that is charged by. */
export const Prices = ({ of: pricing }: { of: readonly PricingItem[] }) =>
  pricing.length === 0 ? (
    <p>Nothing is charged: it is local.</p>
  ) : (
    pricing.map((item) => (
      <table key={item.min_prompt_tokens ?? 0} class="prices">
        {item.min_prompt_tokens !== undefined && (
          <caption>Where the prompt has more than {toExactCount(item.min_prompt_tokens)} tokens</caption>
        )}
        <thead>
          <tr>
            <th scope="col">
              <span class="unseen">Of what</span>
            </th>
            <th scope="col">per million</th>
            <th scope="col">a token</th>
          </tr>
        </thead>
        <tbody>
          {toPriceLines(item).map(({ name, word, perToken }) => (
            <tr key={name}>
              <th scope="row">{word}</th>
              <td>{toPerMillion(perToken)}</td>
              <td>
                <code>${perToken}</code>
              </td>
            </tr>
          ))}
          {item.request !== undefined && (
            <tr>
              <th scope="row">A request</th>
              <td />
              <td>
                <code>${item.request}</code>
              </td>
            </tr>
          )}
        </tbody>
      </table>
    ))
  )
