/** One request: where it went and when, what was counted, and how its cost comes about. */
import type { ChargeDocument } from '../../documents/request.ts'
import { toHref } from '../address/address.ts'
import { toExactCount } from '../figures/counts.ts'
import { Page } from '../shell/page.tsx'
import type { PageProps } from '../shell/pages.ts'
import { toCurl } from '../snippets/chat.ts'
import { CopyButton } from '../ui/copy.tsx'
import { Count, Latency, Money, None, State, When } from '../ui/figure.tsx'
import { FactsRoom, Unread } from '../ui/unread.tsx'
import { Calls } from './calls.tsx'
import { Charge } from './charge.tsx'
import { useRequest } from './data.ts'
import { STATUS_KINDS, toFailureText } from './words.ts'

export function RequestPage({ params: { id = '' } }: PageProps) {
  const first = useRequest(id, false)
  const { data: request, problem, reload } = first
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

const DETAILS = [
  ['cached_tokens', 'of the prompt cached'],
  ['cache_write_tokens', 'of the prompt written to a cache'],
  ['tool_prompt_tokens', 'of the prompt read by tools of the provider'],
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
  if (request.web_searches > 0) details.push(`${toExactCount(request.web_searches)} searches of the web`)
  if (request.compute_ms > 0) details.push(`${toExactCount(request.compute_ms)} ms of compute`)
  if (request.mode !== null) details.push(`served as ${request.mode}`)
  return `${[`${toExactCount(prompt)} in the prompt, ${toExactCount(completion)} in the answer`, ...details].join('; ')}.`
}
