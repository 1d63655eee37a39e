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

const readAt = (): number | null => history.state?.at ?? null

/** Position of the open entry in the history; entries have theirs as their state. */
let at = readAt() ?? 0

function go(href: string, isNew: boolean): void {
  if (isNew) at++
  history[isNew ? 'pushState' : 'replaceState']({ at }, '', href)
  address.value = read()
}

/** @param path such as `/keys?state=all` */
export const open = (path: string, { replace = false } = {}): void => go(toHref(path), !replace)

/** A link to the open page with changed query parameters. */
export const toHrefWith = (changes: Record<string, string | null>): string =>
  toHref(address.value.path) + withQuery(address.value.query, changes)

/** Filters replace the history entry; `push` what "back" should undo. */
export function setQuery(changes: Record<string, string | null>, how: 'replace' | 'push' = 'replace'): void {
  const { path, query: before } = address.value
  open(path + withQuery(before, changes), { replace: how === 'replace' })
}

/** Navigation that would discard a form's changes, until the user confirms it; null if none is pending. */
export const leaving = signal<(() => void) | null>(null)

const hasUnsaved = () => document.querySelector('form[data-unsaved]') !== null

/** Navigates, or asks first if a form has changes. */
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
let isReturning = false

/** Called once. */
export function followLinks(): void {
  history.replaceState({ at }, '')
  addEventListener('popstate', () => {
    const now = readAt()
    if (now === null) {
      // A new entry: another hash, typed into the address bar.
      at++
      return go(location.href, false)
    }
    const steps = now - at
    if (isReturning || steps === 0) {
      isReturning = false
    } else if (!hasUnsaved() || isDiscarding) {
      isDiscarding = false
      at = now
      address.value = read()
    } else {
      // The URL has changed already: goes back, to keep the form and the forward entries.
      isReturning = true
      history.go(-steps)
      leaving.value = () => {
        isDiscarding = true
        history.go(steps)
      }
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
    leave(() => go(link.href, true))
  })
}
