/** Prices: for a million tokens, as people compare them, beside what a token costs exactly. */
import type { PricingItem } from '../../domain/usage.ts'
import { isFree, toPerMillion } from '../figures/prices.ts'
import { None } from '../ui/figure.tsx'
import { toCondition, toPriceLines } from './words.ts'

export const PerMillion = ({ usd }: { usd: string | undefined }) =>
  usd === undefined ? (
    <None />
  ) : (
    <span class="figure-text" title={`$${usd} a token`}>
      {toPerMillion(usd)}
    </span>
  )

/** A price in a list; what is free, and what nobody knows the price of, as that. */
export const Price = ({ of: pricing, usd }: { of: readonly PricingItem[]; usd: string | undefined }) => {
  if (pricing.length === 0) return <span class="dim">not known</span>
  return isFree(pricing) ? <span class="dim">free</span> : <PerMillion usd={usd} />
}

/** All that is charged by. */
export const Prices = ({ of: pricing }: { of: readonly PricingItem[] }) =>
  pricing.length === 0 ? (
    <p>Nobody knows what it costs: nothing is asked of it before it has a price.</p>
  ) : (
    pricing.map((item) => (
      <table key={`${item.mode} ${item.min_prompt_tokens}`} class="prices">
        {toCondition(item) !== '' && <caption>{toCondition(item)}</caption>}
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
          {item.request !== undefined && <Fee of="A request" usd={item.request} />}
          {item.web_search !== undefined && <Fee of="A search of the web" usd={item.web_search} />}
          {item.second !== undefined && <Fee of="A second of compute" usd={item.second} />}
        </tbody>
      </table>
    ))
  )

const Fee = ({ of: what, usd }: { of: string; usd: string }) => (
  <tr>
    <th scope="row">{what}</th>
    <td />
    <td>
      <code>${usd}</code>
    </td>
  </tr>
)
