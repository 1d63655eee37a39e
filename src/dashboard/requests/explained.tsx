/** One request: where it went and when, what was counted, and how its cost comes about. */
import type { ChargeDocument } from '../../documents/request.ts'
import { toHref } from '../address/address.ts'
import { toExactCount, toLatency } from '../figures/counts.ts'
import { toExactMoney } from '../figures/money.ts'
import { toPerMillion } from '../figures/prices.ts'
import { Page } from '../shell/page.tsx'
import type { PageProps } from '../shell/pages.ts'
import { CopyButton } from '../ui/copy.tsx'
import { Count, Latency, Money, None, nowMs, State, When } from '../ui/figure.tsx'
import { Problem } from '../ui/notice.tsx'
import { useRequest } from './data.ts'
import { toCallBars } from './timing.ts'
import { BASES, REASONS, STATUS_KINDS, toFailureText, toKindText } from './words.ts'

export function RequestPage({ params: { id = '' } }: PageProps) {
  const first = useRequest(id, false)
  const { data: request, problem, reload } = first
  return (
    <Page
      title={`Request …${id.slice(-8)}`}
      above={<a href={toHref('/requests')}>Requests</a>}
      actions={<CopyButton text={id} label="Copy id" />}
    >
      {problem && <Problem of={problem} retry={reload} />}
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
    <dl class="headline">
      <div>
        <dt>Cost</dt>
        <dd>
          <Money nanoUsd={request.cost_nano_usd} isEstimated={request.estimated === 1} />
        </dd>
      </div>
      <div>
        <dt>First token</dt>
        <dd>{request.first_token_ms === null ? <None /> : <Latency ms={request.first_token_ms} />}</dd>
      </div>
      <div>
        <dt>Took</dt>
        <dd>{request.duration_ms === null ? <None /> : <Latency ms={request.duration_ms} />}</dd>
      </div>
      <div>
        <dt>Tokens in, out</dt>
        <dd>
          <Count count={request.prompt_tokens} /> → <Count count={request.completion_tokens} />
        </dd>
      </div>
    </dl>
    <Calls of={request} />
    <section class="panel">
      <h2>Tokens</h2>
      <p>{toTokensText(request)}</p>
      {request.estimated === 1 && (
        <p class="dim">
          Not all of it was counted by the upstream: what it did not tell is estimated, and so is the cost.
        </p>
      )}
    </section>
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
    <p class="list-foot">No prompt and no answer is stored.</p>
  </div>
)

/** Reads it again while it is under way. */
function Again({ id }: { id: string }) {
  useRequest(id, true)
  return null
}

type Call = ChargeDocument['calls'][number]

function Calls({ of: request }: { of: ChargeDocument }) {
  const { ms, bars } = toCallBars(request, request.calls, nowMs.value)
  return (
    <section class="panel">
      <h2>{request.calls.length === 1 ? 'One call' : `${request.calls.length} calls`}</h2>
      <ol class="calls">
        {request.calls.map((call, at) => (
          <li key={call.number}>
            <p class="call-line">
              <strong>{call.upstream}</strong> <code>{call.upstream_model}</code>
              {call.number > 1 && <span>{REASONS[call.reason] ?? call.reason}</span>}
              <State kind={STATUS_KINDS[call.status]}>{call.status}</State>
              <span class="dim">{toCallText(call)}</span>
            </p>
            <div class="call-room" aria-hidden="true">
              <span class="call-waiting" style={{ left: `${bars[at]?.start}%`, width: `${bars[at]?.waiting}%` }} />
              <span
                class="call-answering"
                style={{
                  left: `${(bars[at]?.start ?? 0) + (bars[at]?.waiting ?? 0)}%`,
                  width: `${bars[at]?.answering}%`,
                }}
              />
            </div>
          </li>
        ))}
      </ol>
      <p class="call-scale dim" aria-hidden="true">
        <span>0</span>
        <span>{toLatency(ms)}</span>
      </p>
    </section>
  )
}

function toCallText(call: Call): string {
  const parts = [
    toFailureText(call),
    ...(call.first_token_ms === null ? [] : [`first token ${toLatency(call.first_token_ms)}`]),
    ...(call.duration_ms === null
      ? []
      : [`${call.status === 'ok' ? 'done' : 'over'} after ${toLatency(call.duration_ms)}`]),
  ]
  return parts.filter((part) => part !== '').join(', ')
}

const DETAILS = [
  ['cached_tokens', 'of the prompt cached'],
  ['cache_write_tokens', 'of the prompt written to a cache'],
  ['reasoning_tokens', 'of the answer reasoning'],
  ['image_tokens', 'of images'],
  ['audio_prompt_tokens', 'of the prompt audio'],
  ['audio_completion_tokens', 'of the answer audio'],
] as const

function toTokensText(request: ChargeDocument): string {
  const { prompt_tokens: prompt, completion_tokens: completion } = request
  const details = DETAILS.flatMap(([name, text]) =>
    request[name] > 0 ? [`${toExactCount(request[name])} ${text}`] : [],
  )
  return `${[`${toExactCount(prompt)} in the prompt, ${toExactCount(completion)} in the answer`, ...details].join('; ')}.`
}

const Arithmetic = ({ of: call, isOne }: { of: Call; isOne: boolean }) => (
  <div class="arithmetic">
    {!isOne && (
      <h3>
        Call {call.number}, {call.upstream}
      </h3>
    )}
    {call.charge === null ? (
      <p>{BASES[call.basis] ?? call.basis}</p>
    ) : (
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
              <td class="figure" title={`$${usd_each}`}>
                {kind === 'request' ? `$${usd_each}` : `${toPerMillion(usd_each)} per million`}
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
