/** Filtered, paged list of requests, newest first, with live updates. */

import { useEffect, useRef, useState } from 'preact/hooks'
import type { RequestDocument } from '../../documents/request.ts'
import { explainError } from '../../domain/request-errors.ts'
import { query, setQuery, toHref, toHrefWith } from '../address/address.ts'
import { updateNow } from '../api/clock.ts'
import { isConnected, returns } from '../api/connection.ts'
import { useNewest } from '../api/loaded.ts'
import { resume } from '../api/resume.ts'
import { hasEnded } from '../api/session.ts'
import { useModels } from '../keys/data.ts'
import { toFilters } from '../reports/filters.ts'
import { Page } from '../shell/page.tsx'
import { Button, ButtonLink, Code } from '../ui/controls.tsx'
import { Count, Latency, Money, State, When } from '../ui/figure.tsx'
import { Empty, Unread } from '../ui/notice.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { toCsvAddress, toLiveAddress, useRequests } from './data.ts'
import { Filters } from './filters.tsx'
import { STATUS_KINDS, STATUS_TEXTS } from './statuses.ts'
import { FILTER_NAMES, merge, type RequestFilters, toExampleModel, toFailureText } from './words.ts'

export function RequestsPage() {
  const filters = toFilters(FILTER_NAMES, query.value)
  const before = query.value.get('before')
  // Older pages and past periods get no live updates.
  const mayFollow = before === null && filters.until === ''
  const isWanted = mayFollow && !query.value.has('paused')
  const { data, problem, reload } = useRequests(filters, before)
  const { arrived, state } = useLive(filters, isWanted, reload)
  const page = useNewest(data)
  const rows = page === null ? [] : toShown(mayFollow ? arrived : [], page.requests)
  return (
    <Page
      title="Requests"
      actions={
        <>
          {rows.length > 0 && (
            <ButtonLink href={toCsvAddress(filters)} download>
              Export CSV
            </ButtonLink>
          )}
          {mayFollow && <Live state={state} isWanted={isWanted} />}
        </>
      }
    >
      <Unread of={page} problem={problem} retry={reload} />
      {page !== null && (
        <>
          {(rows.length > 0 || isNarrow(filters) || before !== null || query.value.has('id')) && (
            <Filters of={filters} />
          )}
          {rows.length > 0 ? (
            <div class="request-list">
              <Table
                caption="Requests"
                columns={COLUMNS}
                rows={rows}
                idOf={({ id }) => id}
                isNew={({ id }) => arrived.some((one) => one.id === id)}
              />
            </div>
          ) : (
            <NoRequests isNarrow={isNarrow(filters) || before !== null} />
          )}
          <nav class="pager" aria-label="Pagination">
            {before !== null && <a href={toHrefWith({ before: null })}>Newest</a>}
            {page.next !== null && (
              <a href={toHrefWith({ before: page.next })}>{page.scanned === null ? 'Older' : 'Search older'}</a>
            )}
            {page.scanned !== null && (
              <span class="dim">
                Searched the last <Count count={page.scanned} /> requests. Older ones may match.
              </span>
            )}
          </nav>
        </>
      )}
    </Page>
  )
}

const LIVE_WORDS = {
  live: ['good', 'Live'],
  busy: ['good', 'Live: too many to show'],
  off: ['off', 'Paused'],
  waiting: ['warn', 'Connecting'],
  refused: ['off', 'Not live: too many viewers'],
} as const satisfies Record<LiveState, readonly [kind: 'good' | 'warn' | 'off', text: string]>

const Live = ({ state, isWanted }: { state: LiveState; isWanted: boolean }) => (
  <>
    <span class="live-state">
      <State kind={LIVE_WORDS[state][0]}>{LIVE_WORDS[state][1]}</State>
    </span>
    <Button onClick={() => setQuery({ paused: isWanted ? '1' : null })}>{isWanted ? 'Pause' : 'Resume'}</Button>
  </>
)

function NoRequests({ isNarrow }: { isNarrow: boolean }) {
  const model = toExampleModel(useModels().data ?? [])
  return isNarrow ? (
    <p class="dim">
      No matching requests. <a href={toHref('/requests')}>Clear filters</a>
    </p>
  ) : (
    <Empty title="No requests yet">
      <p>Requests appear here as they finish, with model, upstream, duration, and cost.</p>
      {model !== null && (
        <>
          <p>
            Send the first one with your <a href={toHref('/keys')}>key</a>:
          </p>
          <Code label="Command that sends a request" text={toExample(model)} />
        </>
      )}
    </Empty>
  )
}

const toExample = (model: string) => `curl ${location.origin}/v1/chat/completions \\
  -H "Authorization: Bearer $TOLLGATE_KEY" -H "Content-Type: application/json" \\
  -d '{"model":"${model}","messages":[{"role":"user","content":"Hello"}]}'`

const isNarrow = (filters: RequestFilters) => Object.values(filters).some((value) => value !== '')

export const Tokens = ({ of }: { of: Pick<RequestDocument, 'prompt_tokens' | 'completion_tokens'> }) => (
  <>
    <Count count={of.prompt_tokens} /> → <Count count={of.completion_tokens} />
  </>
)

function ErrorNote({ of }: { of: RequestDocument }) {
  const error = explainError(of)
  return (
    error && (
      <span class="error-note">
        {error.what} <code>{toFailureText(of)}</code>
      </span>
    )
  )
}

const COLUMNS: readonly Column<RequestDocument>[] = [
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
    title: 'Status',
    cell: (request) => (
      <>
        <State kind={STATUS_KINDS[request.status]}>{STATUS_TEXTS[request.status]}</State>
        <ErrorNote of={request} />
      </>
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
    title: 'Tokens in → out',
    isFigure: true,
    isOnPhone: false,
    cell: (request) => <Tokens of={request} />,
  },
  {
    name: 'first',
    title: 'TTFT',
    isFigure: true,
    isOnPhone: false,
    cell: ({ first_token_ms }) => <Latency ms={first_token_ms} />,
  },
  {
    name: 'took',
    title: 'Duration',
    isFigure: true,
    isOnPhone: false,
    cell: ({ duration_ms }) => <Latency ms={duration_ms} />,
  },
  {
    name: 'cost',
    title: 'Cost',
    isFigure: true,
    cell: ({ cost_nano_usd, estimated }) => <Money nanoUsd={cost_nano_usd} isEstimated={estimated === 1} />,
  },
  { name: 'at', title: 'When', isFigure: true, cell: ({ created_ms }) => <When ms={created_ms} /> },
]

/** Arriving requests replace the oldest beyond this. */
const MAX_ROWS = 100
/** Limits redraws when many requests finish at once. */
const DRAWN_EVERY_MS = 500
/** Reloads the list this long after the last dropped event. */
const CALM_MS = 2_000

/**
 * `busy`: events were dropped, so the list has gaps; `waiting`: the browser is reconnecting; `refused`: the server's limit of viewers is
 * reached.
 */
type LiveState = 'off' | 'live' | 'busy' | 'waiting' | 'refused'

interface Arrived {
  /** The URL they came from; a change of filters discards them. */
  of: string
  rows: readonly RequestDocument[]
}

/**
 * Follows finished requests while the tab is visible.
 *
 * @param reload reads the list again, since requests may have finished before the connection opened
 */
function useLive(filters: RequestFilters, isWanted: boolean, reload: () => void) {
  const [arrived, setArrived] = useState<Arrived>({ of: '', rows: [] })
  const [state, setState] = useState<LiveState>('off')
  const address = toLiveAddress(filters)
  const latest = useRef(reload)
  latest.current = reload
  useEffect(() => {
    if (!isWanted) return
    let source: EventSource | null = null
    let waiting: RequestDocument[] = []
    let timer: ReturnType<typeof setTimeout> | undefined
    let calm: ReturnType<typeof setTimeout> | undefined
    const take = () => {
      timer = undefined
      const taken = waiting
      waiting = []
      updateNow()
      setArrived(({ of, rows }) => ({ of: address, rows: merge(taken, of === address ? rows : [], MAX_ROWS) }))
    }
    const stop = () => {
      source?.close()
      source = null
      clearTimeout(calm)
      setState('off')
    }
    const restart = () => {
      setState('live')
      latest.current()
    }
    const follow = () => {
      const opened = new EventSource(address)
      source = opened
      opened.onopen = restart
      opened.onmessage = ({ data }) => {
        waiting = [...waiting, JSON.parse(data)].slice(-MAX_ROWS)
        timer ??= setTimeout(take, DRAWN_EVERY_MS)
      }
      opened.addEventListener('dropped', () => {
        setState('busy')
        clearTimeout(calm)
        calm = setTimeout(restart, CALM_MS)
      })
      opened.onerror = () => {
        clearTimeout(calm)
        setState('waiting')
        // In an outage, the page's probe checks for the server; `returns` reopens the stream.
        if (!isConnected.value) return opened.close()
        // Browsers don't report why; the server or the session may have ended.
        resume().then(
          () => {
            const isRefused = opened.readyState === EventSource.CLOSED && !hasEnded.value
            if (source === opened && isRefused) setState('refused')
          },
          () => {},
        )
      }
    }
    const look = () => {
      if (document.hidden) return stop()
      if (source === null) follow()
    }
    look()
    document.addEventListener('visibilitychange', look)
    return () => {
      document.removeEventListener('visibilitychange', look)
      clearTimeout(timer)
      stop()
    }
  }, [address, isWanted, returns.value])
  return { arrived: arrived.of === address ? arrived.rows : [], state }
}

const toShown = (arrived: readonly RequestDocument[], read: readonly RequestDocument[]) =>
  merge(arrived, read, MAX_ROWS)
