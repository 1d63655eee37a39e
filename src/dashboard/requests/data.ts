/** What the pages of requests read: a list, those that end meanwhile, and one of them. Members have addresses of their own. */
import { useEffect, useRef, useState } from 'preact/hooks'
import type { RequestDocument } from '../../documents/request.ts'
import { api, ask } from '../api/client.ts'
import { useLoaded } from '../api/loaded.ts'
import { isMember } from '../api/session.ts'
import { nowMs } from '../ui/figure.tsx'
import { merge, type RequestFilters, toListQuery, toLiveQuery } from './filters.ts'

export const PAGE_ROWS = 50
/** Beyond that, the oldest give way to those that arrive. */
const MOST_ROWS = 100
/** Of a request that is under way. */
const FRESH_MS = 3_000
/** However many end at a time, the page is drawn so often at most. */
const DRAWN_EVERY_MS = 500
/** So long after the last were left out the list is read again, and has them. */
const CALM_MS = 2_000

export const useRequests = (filters: RequestFilters, before: string | null) => {
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
export type LiveState = 'off' | 'live' | 'busy' | 'waiting' | 'refused'

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
export function useLive(filters: RequestFilters, isWanted: boolean, reload: () => void) {
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
      setArrived(({ of, rows }) => ({ of: address, rows: merge(taken, of === address ? rows : [], MOST_ROWS) }))
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
        waiting = [...waiting, JSON.parse(data)].slice(-MOST_ROWS)
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

export const toShown = (arrived: readonly RequestDocument[], read: readonly RequestDocument[]) =>
  merge(arrived, read, MOST_ROWS)
