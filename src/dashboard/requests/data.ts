/** Data of the request pages. Members use the endpoints of their own requests. */
import { api, ask } from '../api/client.ts'
import { useLoaded } from '../api/loaded.ts'
import { isMember } from '../api/session.ts'
import { type RequestFilters, toListQuery, toLiveQuery } from './words.ts'

const PAGE_ROWS = 50
/** Reload interval of a request in progress. */
const FRESH_MS = 3_000

export const useRequests = (filters: RequestFilters, before: string | null) => {
  const query = toListQuery(filters, before, PAGE_ROWS)
  return useLoaded(`requests?${JSON.stringify(query)}`, () =>
    ask(isMember() ? api.own.requests.get({ query }) : api.requests.get({ query })),
  )
}

/** @param id any ID that the API knows a request by */
export const useRequest = (id: string, isOpen: boolean) =>
  useLoaded(
    `requests/${id}`,
    () => {
      const which = { id: encodeURIComponent(id) }
      return ask(isMember() ? api.own.requests(which).get() : api.requests(which).get())
    },
    isOpen ? { everyMs: FRESH_MS } : {},
  )

const toAddress = (path: 'live' | 'csv', query: object) => {
  const text = new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)]))
  return `/admin/api/${isMember() ? 'own/' : ''}requests/${path}?${text}`
}

export const toLiveAddress = (filters: RequestFilters) => toAddress('live', toLiveQuery(filters))

export const toCsvAddress = (filters: RequestFilters) => toAddress('csv', toListQuery(filters, null))
