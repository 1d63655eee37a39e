/**
 * The address of the page that is open: what it shows, how it is filtered and which drawer is open stand there, so that back works and
 * a link shows a colleague the same. Links are plain ones; this keeps them from loading the page anew.
 */
import { computed, signal } from '@preact/signals'
import { withQuery } from './match.ts'

const ROOT = '/admin'

interface Address {
  /** Below `/admin`: `/keys`. */
  path: string
  /** With its question mark, or ''. */
  query: string
}

const read = (): Address => ({ path: location.pathname.slice(ROOT.length) || '/', query: location.search })

export const address = signal<Address>(read())
export const query = computed(() => new URLSearchParams(address.value.query))

/** What is named there, such as the key whose drawer is open; null for nothing, and for an empty name. */
export const named = (name: string): string | null => query.value.get(name) || null

/** The link to a path such as `/keys?state=all`. */
export const toHref = (path: string): string =>
  path.startsWith('/?') || path === '/' ? ROOT + path.slice(1) : ROOT + path

/** Opens a path such as `/keys`. */
export function open(path: string, { replace = false } = {}): void {
  history[replace ? 'replaceState' : 'pushState'](null, '', toHref(path))
  address.value = read()
}

/** The link to the page that is open, with another query. */
export const toHrefWith = (changes: Record<string, string | null>): string =>
  toHref(address.value.path) + withQuery(address.value.query, changes)

/** Says something of the page's address anew: a filter replaces, what back should undo is `push`ed. */
export function setQuery(changes: Record<string, string | null>, how: 'replace' | 'push' = 'replace'): void {
  const { path, query: before } = address.value
  open(path + withQuery(before, changes), { replace: how === 'replace' })
}

/** Called once. */
export function followLinks(): void {
  addEventListener('popstate', () => {
    address.value = read()
  })
  document.addEventListener('click', (event) => {
    const link = event.target instanceof Element ? event.target.closest('a') : null
    if (link === null || event.defaultPrevented || event.button !== 0) return
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
    const isOurs = link.origin === location.origin && (link.pathname === ROOT || link.pathname.startsWith(`${ROOT}/`))
    if (!isOurs || link.target !== '' || link.download !== '' || link.pathname.startsWith(`${ROOT}/api/`)) return
    event.preventDefault()
    if (link.href === location.href) return
    history.pushState(null, '', link.href)
    address.value = read()
  })
}
