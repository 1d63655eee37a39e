/** Who and what costs most: a press on one narrows the page to it. */
import { toHrefWith } from '../address/address.ts'
import { toPercent } from '../figures/counts.ts'
import { Bar, Count, Money } from '../ui/figure.tsx'
import type { Overview } from './data.ts'
import type { Share } from './series.ts'

const TITLES = { key: 'Keys', model: 'Models', team: 'Teams' } as const

export const Tops = ({ of: { tops } }: { of: Overview }) => (
  <div class="tops">
    {(['key', 'model', 'team'] as const)
      // Where nobody has a team, their list says nothing.
      .filter((by) => tops[by].some(({ id }) => id !== null))
      .map((by) => (
        <section key={by} class="panel top">
          <h2>{TITLES[by]}</h2>
          <table>
            <caption class="unseen">{TITLES[by]} that cost most</caption>
            <thead class="unseen">
              <tr>
                <th scope="col">Name and share</th>
                <th scope="col">Requests</th>
                <th scope="col">Cost</th>
              </tr>
            </thead>
            <tbody>
              {tops[by].map((share) => (
                <Row key={share.id} by={by} of={share} />
              ))}
            </tbody>
          </table>
        </section>
      ))}
  </div>
)

const Row = ({ by, of }: { by: 'key' | 'model' | 'team'; of: Share }) => (
  <tr>
    <th scope="row" title={of.name}>
      {of.id === null ? of.name : <a href={toHrefWith({ [by]: of.id })}>{of.name}</a>}
      <Bar share={of.share} kind="good" label={`${toPercent(of.share)} of all`} />
    </th>
    <td class="figure dim">
      <Count count={of.requests} />
    </td>
    <td class="figure">
      <Money nanoUsd={of.costNanoUsd} isEstimated={of.isEstimated} />
    </td>
  </tr>
)
