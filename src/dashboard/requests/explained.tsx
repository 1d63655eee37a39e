/** One request: where it went and when, what was counted, and how its cost comes about. */
import type { ChargeDocument } from '../../documents/request.ts'
import { toHref } from '../address/address.ts'
import { toExactCount, toExactMoney, toLatency } from '../figures/figures.ts'
import { Page } from '../shell/page.tsx'
import type { PageProps } from '../shell/pages.ts'
import { toCurl } from '../snippets/snippets.ts'
import { CopyButton } from '../ui/controls.tsx'
import { Latency, Money, nowMs, State, When } from '../ui/figure.tsx'
import { FactsRoom, Unread } from '../ui/notice.tsx'
import { Headline } from '../ui/resource.tsx'
import { Tokens, useRequest } from './page.tsx'
import {
  BASES,
  REASONS,
  STATUS_KINDS,
  toCallBars,
  toEachText,
  toFailureText,
  toKindText,
  toTokensText,
  toUnpricedText,
} from './words.ts'

export function RequestPage({ params: { id = '' } }: PageProps) {
  const { data: request, problem, reload } = useRequest(id, false)
  return (
    <Page
      title={`Request …${id.slice(-8)}`}
      above={<a href={toHref('/requests')}>Requests</a>}
      actions={<CopyButton text={id} label="Copy id" />}
    >
      <Unread of={request} problem={problem} retry={reload}>
        <FactsRoom />
      </Unread>
      {request !== null && <Explained of={request} />}
    </Page>
  )
}

const Explained = ({ of: request }: { of: ChargeDocument }) => (
  <div class="request">
    {request.status === 'open' && <Again id={request.id} />}
    <p class="request-line">
      <State kind={STATUS_KINDS[request.status]}>{request.status}</State>
      {request.error_code !== null && <span>{toFailureText(request)}</span>}
      <span>
        <code>{request.model}</code> → {request.upstream}
      </span>
      <span>
        key <a href={toHref(`/requests?key=${request.key_id}`)}>{request.key ?? `…${request.key_id.slice(-8)}`}</a>
        {request.team !== null && `, team ${request.team}`}
        {request.user !== null && `, user ${request.user}`}
      </span>
      <span class="dim">
        <When ms={request.created_ms} />
      </span>
    </p>
    <Headline
      of={[
        ['Cost', <Money key="cost" nanoUsd={request.cost_nano_usd} isEstimated={request.estimated === 1} />],
        ['First token', <Latency key="first" ms={request.first_token_ms} />],
        ['Took', <Latency key="took" ms={request.duration_ms} />],
        ['Tokens in, out', <Tokens key="tokens" of={request} />],
      ]}
    />
    <Calls of={request} />
    <section class="panel">
      <h2>Tokens</h2>
      <p>{toTokensText(request)}</p>
      {request.estimated === 1 && (
        <p class="dim">
          Not all of it was counted by the upstream: what it did not tell is estimated, and so is the cost.
        </p>
      )}
      {request.unpriced === 1 && (
        <p>
          <State kind="warn">unpriced</State> Not all of it has a price: this may not be what it cost.
        </p>
      )}
    </section>
    <Charge of={request} />
    <footer class="request-foot">
      <p class="list-foot">No prompt and no answer is stored.</p>
      <CopyButton text={toAgain(request)} label="Copy as curl" what="one like it, with another prompt" />
    </footer>
  </div>
)

/** A request to the same model. What was asked is nowhere to be had. */
const toAgain = ({ model }: ChargeDocument) =>
  toCurl({
    baseUrl: `${location.origin}/v1`,
    secret: 'YOUR_KEY',
    body: { model, messages: [{ role: 'user', content: 'Hello' }], stream: true },
  })

/** Reads it again while it is under way. */
function Again({ id }: { id: string }) {
  useRequest(id, true)
  return null
}

const Charge = ({ of: request }: { of: ChargeDocument }) => (
  <section class="panel">
    <h2>What it cost</h2>
    {request.calls.map((call) => (
      <Arithmetic key={call.number} of={call} isOne={request.calls.length === 1} />
    ))}
    <p>
      On record <strong class="figure-text">{toExactMoney(request.cost_nano_usd)}</strong>
      {request.matches_ledger === true && ', which is what comes out.'}
      {request.matches_ledger === false &&
        (request.recalculated_nano_usd === null
          ? '. It cannot be worked out again from what is on record.'
          : `. Worked out again it is ${toExactMoney(request.recalculated_nano_usd)}.`)}
    </p>
  </section>
)

type Call = ChargeDocument['calls'][number]

const Arithmetic = ({ of: call, isOne }: { of: Call; isOne: boolean }) => (
  <div class="arithmetic">
    {!isOne && (
      <h3>
        Call {call.number}, {call.upstream}
      </h3>
    )}
    {call.basis !== 'tokens' && (
      <p>
        {BASES[call.basis]}
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
            {['Count', 'Each', 'USD'].map((heading) => (
              <th key={heading} scope="col" class="figure">
                {heading}
              </th>
            ))}
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

function Calls({ of: request }: { of: ChargeDocument }) {
  const { ms, bars } = toCallBars(request, request.calls, nowMs.value)
  return (
    <section class="panel">
      <h2>{request.calls.length === 1 ? 'One call' : `${request.calls.length} calls`}</h2>
      <ol class="calls">
        {request.calls.map((call, at) => {
          const { start = 0, waiting = 0, answering = 0 } = bars[at] ?? {}
          return (
            <li key={call.number}>
              <p class="call-line">
                <strong>{call.upstream}</strong> <code>{call.upstream_model}</code>
                {call.credential !== null && <span>by credential {call.credential}</span>}
                {call.number > 1 && <span>{REASONS[call.reason]}</span>}
                <State kind={STATUS_KINDS[call.status]}>{call.status}</State>
                <span class="dim">{toCallText(call)}</span>
              </p>
              <div class="call-room" aria-hidden="true">
                <span class="call-waiting" style={{ left: `${start}%`, width: `${waiting}%` }} />
                <span class="call-answering" style={{ left: `${start + waiting}%`, width: `${answering}%` }} />
              </div>
            </li>
          )
        })}
      </ol>
      <p class="call-scale dim" aria-hidden="true">
        <span>0</span>
        <span>{toLatency(ms)}</span>
      </p>
    </section>
  )
}

const toCallText = (call: Call) =>
  [
    toFailureText(call),
    call.first_token_ms !== null && `first token ${toLatency(call.first_token_ms)}`,
    call.duration_ms !== null && `${call.status === 'ok' ? 'done' : 'over'} after ${toLatency(call.duration_ms)}`,
  ]
    .filter(Boolean)
    .join(', ')
