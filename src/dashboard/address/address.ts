/** Client-side routing: page, filters, and open drawer are in the URL, so that back and shared links work. */
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

/** A query parameter, such as the key whose drawer is open; null if missing or empty. */
export const named = (name: string): string | null => query.value.get(name) || null

export const toHref = (path: string): string =>
  path.startsWith('/?') || path === '/' ? ROOT + path.slice(1) : ROOT + path

/** @param path such as `/keys?state=all` */
export function open(path: string, { replace = false } = {}): void {
  history[replace ? 'replaceState' : 'pushState'](null, '', toHref(path))
  address.value = read()
}

/** A link to the open page with changed query parameters. */
export const toHrefWith = (changes: Record<string, string | null>): string =>
  toHref(address.value.path) + withQuery(address.value.query, changes)

/** Filters replace the history entry; `push` what "back" should undo. */
export function setQuery(changes: Record<string, string | null>, how: 'replace' | 'push' = 'replace'): void {
  const { path, query: before } = address.value
  open(path + withQuery(before, changes), { replace: how === 'replace' })
}

/** What the user wants to do, which would discard the changes of a form; null if there is no question. */
export const leaving = signal<(() => void) | null>(null)

const hasUnsaved = () => document.querySelector('form[data-unsaved]') !== null

/** Goes at once, or asks first if a form has changes. */
export function leave(go: () => void): void {
  if (hasUnsaved()) leaving.value = go
  else go()
}

const askOnUnload = (event: BeforeUnloadEvent) => {
  if (hasUnsaved()) event.preventDefault()
}

/** Reloads without asking. */
export function discardPage(): void {
  removeEventListener('beforeunload', askOnUnload)
  location.reload()
}

let isDiscarding = false

/** Called once. */
export function followLinks(): void {
  addEventListener('popstate', () => {
    if (!hasUnsaved() || isDiscarding) {
      isDiscarding = false
      address.value = read()
      return
    }
    // The browser has left already: returns, so that the form stays.
    const { path, query } = address.value
    history.pushState(null, '', toHref(path) + query)
    leaving.value = () => {
      isDiscarding = true
      history.back()
    }
  })
  addEventListener('beforeunload', askOnUnload)
  document.addEventListener('click', (event) => {
    const link = event.target instanceof Element ? event.target.closest('a') : null
    if (link === null || event.defaultPrevented || event.button !== 0) return
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
    const isOurs = link.origin === location.origin && (link.pathname === ROOT || link.pathname.startsWith(`${ROOT}/`))
    if (!isOurs || link.target !== '' || link.download !== '' || link.pathname.startsWith(`${ROOT}/api/`)) return
    event.preventDefault()
    // "Skip to content" leads to a part of this page.
    if (link.pathname + link.search === location.pathname + location.search)
      return document.getElementById(link.hash.slice(1))?.focus()
    leave(() => {
      history.pushState(null, '', link.href)
      address.value = read()
    })
  })
}
