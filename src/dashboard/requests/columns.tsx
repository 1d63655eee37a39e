/** What a list tells of a request. */
import type { RequestDocument } from '../../documents/request.ts'
import { toHref } from '../address/address.ts'
import { Count, Latency, Money, None, State, When } from '../ui/figure.tsx'
import type { Column } from '../ui/table.tsx'
import { STATUS_KINDS, toFailureText } from './words.ts'

export const COLUMNS: readonly Column<RequestDocument>[] = [
  {
    name: 'model',
    title: 'Model',
    cell: ({ id, model }) => (
      <a class="row-link" href={toHref(`/requests/${id}`)}>
        {model}
      </a>
    ),
  },
  {
    name: 'status',
    title: 'State',
    cell: (request) => (
      <span title={toFailureText(request) || undefined}>
        <State kind={STATUS_KINDS[request.status]}>{request.status}</State>
      </span>
    ),
  },
  { name: 'key', title: 'Key', cell: ({ key, key_id }) => key ?? `…${key_id.slice(-8)}` },
  {
    name: 'upstream',
    title: 'Upstream',
    isOnPhone: false,
    cell: ({ upstream, attempts }) => (attempts > 1 ? `${upstream}, call ${attempts}` : upstream),
  },
  {
    name: 'tokens',
    title: 'Tokens in, out',
    isFigure: true,
    isOnPhone: false,
    cell: ({ prompt_tokens, completion_tokens }) => (
      <>
        <Count count={prompt_tokens} /> → <Count count={completion_tokens} />
      </>
    ),
  },
  {
    name: 'first',
    title: 'First token',
    isFigure: true,
    isOnPhone: false,
    cell: ({ first_token_ms }) => (first_token_ms === null ? <None /> : <Latency ms={first_token_ms} />),
  },
  {
    name: 'took',
    title: 'Took',
    isFigure: true,
    isOnPhone: false,
    cell: ({ duration_ms }) => (duration_ms === null ? <None /> : <Latency ms={duration_ms} />),
  },
  {
    name: 'cost',
    title: 'Cost',
    isFigure: true,
    cell: ({ cost_nano_usd, estimated }) => <Money nanoUsd={cost_nano_usd} isEstimated={estimated === 1} />,
  },
  { name: 'at', title: 'When', isFigure: true, cell: ({ created_ms }) => <When ms={created_ms} /> },
]
