/** One request: its calls, tokens, and cost breakdown. */

import type { ChargeDocument } from '../../documents/request.ts'
import { explainError, toReason, toUpstreamFailure } from '../../domain/request-errors.ts'
import { count } from '../../domain/text.ts'
import { toHref } from '../address/address.ts'
import { nowMs } from '../api/clock.ts'
import { toExactCount, toExactMoney, toLatency } from '../figures/figures.ts'
import { Page } from '../shell/page.tsx'
import type { PageProps } from '../shell/pages.ts'
import { toCurl } from '../snippets/snippets.ts'
import { CopyButton, Id } from '../ui/controls.tsx'
import { Latency, Money, State, When } from '../ui/figure.tsx'
import { FactsRoom, Unread } from '../ui/notice.tsx'
import { Headline } from '../ui/resource.tsx'
import { useRequest } from './data.ts'
import { Tokens } from './page.tsx'
import { STATUS_KINDS, STATUS_TEXTS } from './statuses.ts'
import {
  BASES,
  FAULTS,
  REASONS,
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
      actions={<CopyButton text={id} label="Copy ID" />}
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
      <State kind={STATUS_KINDS[request.status]}>{STATUS_TEXTS[request.status]}</State>
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
        {request.node && `, node ${request.node}`}
      </span>
    </p>
    <ErrorPanel of={request} />
    <Headline
      of={[
        ['Cost', <Money key="cost" nanoUsd={request.cost_nano_usd} isEstimated={request.estimated === 1} />],
        ['Time to first token', <Latency key="first" ms={request.first_token_ms} />],
        ['Duration', <Latency key="took" ms={request.duration_ms} />],
        ['Tokens in → out', <Tokens key="tokens" of={request} />],
      ]}
    />
    <Calls of={request} />
    <section class="panel">
      <h2>Tokens</h2>
      <p>{toTokensText(request)}</p>
      {request.estimated === 1 && (
        <p class="dim">
          {request.counted_by === null
            ? 'The upstream reported only part of the usage; the rest, and the cost, is estimated.'
            : 'The upstream reported no usage; it was measured, so the cost is estimated.'}
        </p>
      )}
      {request.unpriced === 1 && (
        <p>
          <State kind="warn">unpriced</State> Some usage has no price; the actual cost may differ.
        </p>
      )}
    </section>
    <Charge of={request} />
    <footer class="request-foot">
      <p class="list-foot">Prompts and responses are never stored.</p>
      <CopyButton text={toAgain(request)} label="Copy as curl" what="an example request to this model" />
    </footer>
  </div>
)

function ErrorPanel({ of: request }: { of: ChargeDocument }) {
  const error = explainError(request)
  return (
    error && (
      <section class="panel request-error">
        <h2>{error.what}</h2>
        <p>{error.next}</p>
        <p class="dim">
          Cause: {FAULTS[error.fault]}
          {request.error_code !== null && (
            <>
              . Error: <code>{toFailureText(request)}</code>
            </>
          )}
        </p>
      </section>
    )
  )
}

/** An example for the same model: the prompt was not stored. */
const toAgain = ({ model }: ChargeDocument) =>
  toCurl({
    baseUrl: `${location.origin}/v1`,
    secret: 'YOUR_KEY',
    body: { model, messages: [{ role: 'user', content: 'Hello' }], stream: true },
  })

/** Reloads the request while it is in progress. */
function Again({ id }: { id: string }) {
  useRequest(id, true)
  return null
}

const Charge = ({ of: request }: { of: ChargeDocument }) => (
  <section class="panel">
    <h2>Cost breakdown</h2>
    {request.calls.map((call) => (
      <Arithmetic key={call.number} of={call} isOne={request.calls.length === 1} />
    ))}
    <p>
      Recorded: <strong class="figure-text">{toExactMoney(request.cost_nano_usd)}</strong>
      {request.matches_ledger === true && ' (matches the calculation)'}
      {request.matches_ledger === false &&
        (request.recalculated_nano_usd === null
          ? ". It can't be recalculated from the recorded data."
          : `. Mismatch: recalculated ${toExactMoney(request.recalculated_nano_usd)}.`)}
    </p>
  </section>
)

type Call = ChargeDocument['calls'][number]

const Arithmetic = ({ of: call, isOne }: { of: Call; isOne: boolean }) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard
  <div class="arithmetic" tabIndex={0}>
    {!isOne && (
      <h3>
        Call {call.number}, {call.upstream}
      </h3>
    )}
    {call.basis !== 'tokens' && (
      <p>
        {BASES[call.basis]}
        {call.reported_nano_usd !== null && ` Amount: ${toExactMoney(call.reported_nano_usd)}.`}
        {call.basis === 'reported' && call.charge !== null && ' At catalog prices:'}
      </p>
    )}
    {call.unpriced === 1 && <p>{toUnpricedText(call.charge?.unpriced ?? [], call.mode)}</p>}
    {call.charge !== null && (
      <table>
        <caption class="unseen">Cost breakdown of call {call.number}</caption>
        <thead>
          <tr>
            <th scope="col">Item</th>
            {['Count', 'Price', 'USD'].map((heading) => (
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
            <th scope="row">total</th>
            <td />
            <td />
            <td class="figure">${call.charge.usd}</td>
          </tr>
        </tbody>
      </table>
    )}
    {call.price !== null && (
      <p class="dim">
        <code>{call.price.model}</code> price
        {call.price.upstream !== null && ` at ${call.price.upstream}`}, set <When ms={call.price.created_ms} />.
      </p>
    )}
  </div>
)

function Calls({ of: request }: { of: ChargeDocument }) {
  const { ms, bars } = toCallBars(request, request.calls, nowMs.value)
  return (
    <section class="panel">
      <h2>{count(request.calls.length, 'call')}</h2>
      <ol class="calls">
        {request.calls.map((call, at) => {
          const { start = 0, waiting = 0, answering = 0 } = bars[at] ?? {}
          return (
            <li key={call.number}>
              <p class="call-line">
                <strong>{call.upstream}</strong> <code>{call.upstream_model}</code>
                {call.credential !== null && <span>credential {call.credential}</span>}
                {call.number > 1 && <span>{REASONS[call.reason]}</span>}
                <State kind={STATUS_KINDS[call.status]}>{STATUS_TEXTS[call.status]}</State>
                <span class="dim">{toCallText(call)}</span>
                {call.upstream_request_id !== null && (
                  <span class="dim">
                    upstream's ID <Id id={call.upstream_request_id} />
                  </span>
                )}
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

function toCallFailure({ status, http_status: httpStatus, error_code: errorCode }: Call): string {
  const reason = toReason({ status, httpStatus, errorCode })
  if (reason !== null) return toUpstreamFailure(reason)
  return errorCode === 'aborted'
    ? 'ended by Tollgate'
    : toFailureText({ http_status: httpStatus, error_code: errorCode })
}

const toCallText = (call: Call) =>
  [
    toCallFailure(call),
    call.first_token_ms !== null && `first token after ${toLatency(call.first_token_ms)}`,
    call.duration_ms !== null && `${call.status === 'ok' ? 'total' : 'ended after'} ${toLatency(call.duration_ms)}`,
  ]
    .filter(Boolean)
    .join(', ')
