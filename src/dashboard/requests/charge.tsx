/** How what a request cost comes about: each call's counts by its price, and what is on record. */
import type { ChargeDocument } from '../../documents/request.ts'
import { toExactCount } from '../figures/counts.ts'
import { toExactMoney } from '../figures/money.ts'
import { When } from '../ui/figure.tsx'
import { BASES, toEachText, toKindText, toUnpricedText } from './words.ts'

export const Charge = ({ of: request }: { of: ChargeDocument }) => (
  <section class="panel">
    <h2>What it cost</h2>
    {request.calls.map((call) => (
      <Arithmetic key={call.number} of={call} isOne={request.calls.length === 1} />
    ))}
    <p>
      On record <strong class="figure-text">{toExactMoney(request.cost_nano_usd)}</strong>
      {request.agrees === true && ', which is what comes out.'}
      {request.agrees === false &&
        (request.worked_out_nano_usd === null
          ? '. It cannot be worked out again from what is on record.'
          : `. Worked out again it is ${toExactMoney(request.worked_out_nano_usd)}.`)}
    </p>
  </section>
)

const Arithmetic = ({ of: call, isOne }: { of: ChargeDocument['calls'][number]; isOne: boolean }) => (
  <div class="arithmetic">
    {!isOne && (
      <h3>
        Call {call.number}, {call.upstream}
      </h3>
    )}
    {call.basis !== 'tokens' && (
      <p>
        {BASES[call.basis] ?? call.basis}
        {call.reported_nano_usd !== null && ` It is ${toExactMoney(call.reported_nano_usd)}.`}
        {call.basis === 'reported' && call.charge !== null && ' By its price it would be:'}
      </p>
    )}
    {call.unpriced === 1 && <p>{toUnpricedText(call.charge?.unpriced ?? [], call.mode)}</p>}
    {call.charge !== null && (
      <table>
        <caption class="unseen">How the cost of call {call.number} comes about</caption>
        <thead>
          <tr>
            <th scope="col">What</th>
            <th scope="col" class="figure">
              Count
            </th>
            <th scope="col" class="figure">
              Each
            </th>
            <th scope="col" class="figure">
              USD
            </th>
          </tr>
        </thead>
        <tbody>
          {call.charge.lines.map(({ kind, count, usd_each, usd }) => (
            <tr key={kind}>
              <th scope="row">{toKindText(kind)}</th>
              <td class="figure">{toExactCount(count)}</td>
              <td class="figure each" title={`$${usd_each}`}>
                {toEachText(kind, usd_each)}
              </td>
              <td class="figure">${usd}</td>
            </tr>
          ))}
          <tr>
            <th scope="row">sum</th>
            <td />
            <td />
            <td class="figure">${call.charge.usd}</td>
          </tr>
        </tbody>
      </table>
    )}
    {call.price !== null && (
      <p class="dim">
        By the price of <code>{call.price.model}</code>
        {call.price.upstream !== null && ` at ${call.price.upstream}`} of <When ms={call.price.created_ms} />.
      </p>
    )}
  </div>
)
