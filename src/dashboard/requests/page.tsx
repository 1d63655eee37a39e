/** Requests, newest first, as they end: filtered by what the address says, older ones page by page. */

import { useEffect, useRef, useState } from 'preact/hooks'
import type { RequestDocument } from '../../documents/request.ts'
import { REQUEST_FILTERS } from '../../domain/report-filters.ts'
import { query, setQuery, toHref, toHrefWith } from '../address/address.ts'
import { api, ask } from '../api/client.ts'
import { useLoaded, useNewest } from '../api/loaded.ts'
import { isMember } from '../api/session.ts'
import { toMoment } from '../figures/figures.ts'
import { useKeys, useModels } from '../keys/data.ts'
import { toFilters } from '../reports/filters.ts'
import { Narrow } from '../reports/narrow.tsx'
import { Page } from '../shell/page.tsx'
import { Button, Code } from '../ui/controls.tsx'
import { Count, Latency, Money, nowMs, State, When } from '../ui/figure.tsx'
import { Empty, Unread } from '../ui/notice.tsx'
import { Choice, type Column, type Option, Table, withChosen } from '../ui/table.tsx'
import {
  FILTER_NAMES,
  merge,
  type RequestFilters,
  STATES,
  STATUS_KINDS,
  TIMES,
  toFailureText,
  toListQuery,
  toLiveQuery,
} from './words.ts'

export function RequestsPage() {
  const filters = toFilters(FILTER_NAMES, query.value)
  const before = query.value.get('before')
  // What ends now is of no time that is over.
  const mayFollow = before === null && filters.until === ''
  const isWanted = mayFollow && !query.value.has('paused')
  const { data, problem, reload } = useRequests(filters, before)
  const { arrived, state } = useLive(filters, isWanted, reload)
  const page = useNewest(data)
  const rows = page === null ? [] : toShown(mayFollow ? arrived : [], page.requests)
  return (
    <Page title="Requests" actions={mayFollow && <Live state={state} isWanted={isWanted} />}>
      <Unread of={page} problem={problem} retry={reload} />
      {page !== null && (
        <>
          <Fields of={filters} />
          {rows.length > 0 ? (
            <Table
              caption="Requests"
              columns={COLUMNS}
              rows={rows}
              idOf={({ id }) => id}
              isNew={({ id }) => arrived.some((one) => one.id === id)}
            />
          ) : (
            <NoRequests isNarrow={isNarrow(filters) || before !== null} />
          )}
          <nav class="pager" aria-label="Older and newer">
            {before !== null && <a href={toHrefWith({ before: null })}>Newest</a>}
            {page.next !== null && <a href={toHrefWith({ before: page.next })}>Older</a>}
            {page.scanned !== null && (
              <span class="dim">
                Among the last <Count count={page.scanned} /> there are no more like that; older ones may be.
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
  busy: ['good', 'Live: more end than fit'],
  off: ['off', 'Not live'],
  waiting: ['warn', 'Connecting'],
  refused: ['off', 'Not live: as many follow as may'],
} as const satisfies Record<LiveState, readonly [kind: 'good' | 'warn' | 'off', text: string]>

const Live = ({ state, isWanted }: { state: LiveState; isWanted: boolean }) => (
  <>
    <span class="live-state">
      <State kind={LIVE_WORDS[state][0]}>{LIVE_WORDS[state][1]}</State>
    </span>
    <Button onClick={() => setQuery({ paused: isWanted ? '1' : null })}>{isWanted ? 'Pause' : 'Go on'}</Button>
  </>
)

const NoRequests = ({ isNarrow }: { isNarrow: boolean }) =>
  isNarrow ? (
    <p class="dim">
      No request is like that. <a href={toHref('/requests')}>Show all</a>
    </p>
  ) : (
    <Empty title="No requests yet">
      <p>
        Each request to a model is told here as it ends: who asked what, where it went, how long it took, what it cost.
      </p>
      <p>
        With a <a href={toHref('/keys')}>key</a> the first one is one command away:
      </p>
      <Code label="Command that asks a model" text={ASKING} />
    </Empty>
  )

const ASKING = `curl ${location.origin}/v1/chat/completions \\
  -H "Authorization: Bearer $TOLLGATE_KEY" -H "Content-Type: application/json" \\
  -d '{"model":"tollgate/demo","messages":[{"role":"user","content":"Hello"}]}'`

/** Links say a time in ms. */
const toTimeText = (word: string, text: string) =>
  /^\d+$/.test(text) ? `${word} ${toMoment(Number(text), nowMs.value)}` : text

function Fields({ of: filters }: { of: RequestFilters }) {
  const keys = useKeys().data ?? []
  const models = useModels().data ?? []
  const toChoice = (name: 'state' | 'since' | 'until', label: string, options: readonly Option[], text?: string) => (
    <Choice
      name={name}
      restarts="before"
      label={label}
      value={filters[name]}
      options={withChosen(options, filters[name], text)}
    />
  )
  return (
    <Narrow
      of={toFilters(REQUEST_FILTERS, query.value)}
      offered={[
        ['key', keys.map(({ id, name }) => [id, name])],
        ['model', models.map(({ slug }) => [slug, slug])],
      ]}
      all={isNarrow(filters) ? toHref('/requests') : null}
      restarts="before"
    >
      {toChoice('state', 'State', STATES)}
      {toChoice('since', 'Time', TIMES, toTimeText('Since', filters.since))}
      {filters.until !== '' && toChoice('until', 'Until', [['', 'Until now']], toTimeText('Until', filters.until))}
    </Narrow>
  )
}

const isNarrow = (filters: RequestFilters) => Object.values(filters).some((value) => value !== '')

/** What went in, and what came out. */
export const Tokens = ({ of }: { of: Pick<RequestDocument, 'prompt_tokens' | 'completion_tokens'> }) => (
  <>
    <Count count={of.prompt_tokens} /> → <Count count={of.completion_tokens} />
  </>
)

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
    cell: (request) => <Tokens of={request} />,
  },
  {
    name: 'first',
    title: 'First token',
    isFigure: true,
    isOnPhone: false,
    cell: ({ first_token_ms }) => <Latency ms={first_token_ms} />,
  },
  {
    name: 'took',
    title: 'Took',
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

const PAGE_ROWS = 50
/** Beyond that, the oldest give way to those that arrive. */
const MAX_ROWS = 100
/** Of a request that is under way. */
const FRESH_MS = 3_000
/** However many end at a time, the page is drawn so often at most. */
const DRAWN_EVERY_MS = 500
/** So long after the last were left out the list is read again, and has them. */
const CALM_MS = 2_000

const useRequests = (filters: RequestFilters, before: string | null) => {
  const query = toListQuery(filters, before, PAGE_ROWS)
  return useLoaded(`requests?${JSON.stringify(query)}`, () =>
    ask(isMember() ? api.own.requests.get({ query }) : api.requests.get({ query })),
  )
}

export const useRequest = (id: string, isOpen: boolean) =>
  useLoaded(
    `requests/${id}`,
    () => ask(isMember() ? api.own.requests({ id }).get() : api.requests({ id }).get()),
    isOpen ? { everyMs: FRESH_MS } : {},
  )

/**
 * `busy`: more end than are told, and the list has gaps until fewer do; `waiting`: the server does not answer, and is asked again by itself;
 * `refused`: it tells nobody more.
 */
type LiveState = 'off' | 'live' | 'busy' | 'waiting' | 'refused'

interface Arrived {
  /** The address that they came from: those of other filters are of no use. */
  of: string
  rows: readonly RequestDocument[]
}

/**
 * Requests as they end, newest first, while somebody looks: a tab that nobody sees does not follow.
 *
 * @param reload reads the list again: some may have ended before it is told of any, or unseen.
 */
function useLive(filters: RequestFilters, isWanted: boolean, reload: () => void) {
  const [arrived, setArrived] = useState<Arrived>({ of: '', rows: [] })
  const [state, setState] = useState<LiveState>('off')
  const query = new URLSearchParams(Object.entries(toLiveQuery(filters)).map(([name, value]) => [name, String(value)]))
  const address = `/admin/api/${isMember() ? 'own/' : ''}requests/live?${query}`
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
      nowMs.value = Date.now()
      setArrived(({ of, rows }) => ({ of: address, rows: merge(taken, of === address ? rows : [], MAX_ROWS) }))
    }
    const stop = () => {
      source?.close()
      source = null
      clearTimeout(calm)
      setState('off')
    }
    const beginAnew = () => {
      setState('live')
      latest.current()
    }
    const follow = () => {
      const opened = new EventSource(address)
      source = opened
      opened.onopen = beginAnew
      opened.onmessage = ({ data }) => {
        waiting = [...waiting, JSON.parse(data)].slice(-MAX_ROWS)
        timer ??= setTimeout(take, DRAWN_EVERY_MS)
      }
      opened.addEventListener('dropped', () => {
        setState('busy')
        clearTimeout(calm)
        calm = setTimeout(beginAnew, CALM_MS)
      })
      opened.onerror = () => {
        clearTimeout(calm)
        setState(opened.readyState === EventSource.CLOSED ? 'refused' : 'waiting')
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
  }, [address, isWanted])
  return { arrived: arrived.of === address ? arrived.rows : [], state }
}

const toShown = (arrived: readonly RequestDocument[], read: readonly RequestDocument[]) =>
  merge(arrived, read, MAX_ROWS)
