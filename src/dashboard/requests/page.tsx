/** Requests, newest first, as they end: filtered by what the address says, older ones page by page. */
import { query, setQuery, toHref, toHrefWith } from '../address/address.ts'
import { useNewest } from '../api/loaded.ts'
import { Page } from '../shell/page.tsx'
import { Button } from '../ui/button.tsx'
import { Code } from '../ui/copy.tsx'
import { Count, State } from '../ui/figure.tsx'
import { Empty } from '../ui/notice.tsx'
import { Table } from '../ui/table.tsx'
import { Unread } from '../ui/unread.tsx'
import { COLUMNS } from './columns.tsx'
import { type LiveState, toShown, useLive, useRequests } from './data.ts'
import { FILTER_NAMES, toFilters } from './filters.ts'
import { Narrow } from './narrow.tsx'

export function RequestsPage() {
  const filters = toFilters(query.value)
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
          <Narrow filters={filters} />
          {rows.length > 0 ? (
            <Table
              caption="Requests"
              columns={COLUMNS}
              rows={rows}
              idOf={({ id }) => id}
              isNew={({ id }) => arrived.some((one) => one.id === id)}
            />
          ) : (
            <NoRequests isNarrow={FILTER_NAMES.some((name) => filters[name] !== '') || before !== null} />
          )}
          <nav class="pager" aria-label="Older and newer">
            {before !== null && <a href={toHrefWith({ before: null })}>Newest</a>}
            {page.next !== null && <a href={toHrefWith({ before: page.next })}>Older</a>}
            {page.stopped_after !== null && (
              <span class="dim">
                Among the last <Count count={page.stopped_after} /> there are no more like that; older ones may be.
              </span>
            )}
          </nav>
        </>
      )}
    </Page>
  )
}

const LIVE_WORDS: Record<LiveState, readonly [kind: 'good' | 'warn' | 'off', text: string]> = {
  live: ['good', 'Live'],
  busy: ['good', 'Live: more end than fit'],
  off: ['off', 'Not live'],
  waiting: ['warn', 'Connecting'],
  refused: ['off', 'Not live: as many follow as may'],
}

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
