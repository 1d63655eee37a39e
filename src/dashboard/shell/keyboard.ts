/** Shortcuts: `/` focuses `data-search`, `n` clicks `data-new`, `↓` enters a list, `g` and a letter open a page, `?` shows help. */
import { signal } from '@preact/signals'
import { leave, open } from '../address/address.ts'
import { may } from '../api/session.ts'
import { PAGES } from './pages.ts'

export const isHelpOpen = signal(false)

export const MODIFIER = /Mac|iP/.test(navigator.platform) ? '⌘' : 'Ctrl'

const SEQUENCE_MS = 1_500

/** Called once. */
export function listenToKeys(): void {
  let wentMs = Number.NEGATIVE_INFINITY
  document.addEventListener('keydown', (event) => {
    const { key, target } = event
    if (event.metaKey || event.ctrlKey || event.altKey || event.defaultPrevented) return
    const isSearch = target instanceof HTMLInputElement && target.type === 'search'
    if (key === 'Escape' && isSearch) target.blur()
    const isOff = isTyping(target) && !(isSearch && key === 'ArrowDown')
    if (isOff || document.querySelector('dialog[open]') || !may('member')) return
    const isAfterG = event.timeStamp - wentMs < SEQUENCE_MS
    wentMs = key === 'g' ? event.timeStamp : Number.NEGATIVE_INFINITY
    const run = isAfterG ? toPage(key) : ACTIONS[key]
    if (run && run(target) !== false) event.preventDefault()
  })
}

/** While the page is loading, waits for a matching element, until the user does something else. */
function whenThere(selector: string, run: (found: HTMLElement) => void): void {
  const look = () => {
    const found = document.querySelector<HTMLElement>(selector)
    if (found !== null) run(found)
    return found !== null
  }
  if (look()) return
  const watch = new MutationObserver(() => look() && stop())
  const stop = () => {
    watch.disconnect()
    for (const other of OTHER_INPUTS) removeEventListener(other, stop, true)
  }
  watch.observe(document.body, { childList: true, subtree: true })
  for (const other of OTHER_INPUTS) addEventListener(other, stop, true)
}

const OTHER_INPUTS = ['keydown', 'pointerdown', 'popstate'] as const

/** From the list's search, or from where the keys would only scroll; false if no list is visible. */
function enterList(from: EventTarget | null): boolean {
  if (!(from instanceof HTMLElement) || !from.matches('body, main, h1, input[type=search]')) return false
  const first = [...document.querySelectorAll<HTMLElement>('main tbody :is(a, button), main .row-link')].find(
    (link) => {
      const { top, bottom } = link.getBoundingClientRect()
      return link.checkVisibility() && top >= 0 && bottom <= innerHeight
    },
  )
  first?.focus()
  return first !== undefined
}

/** An action that returns false did nothing. */
const ACTIONS: Readonly<Record<string, (from: EventTarget | null) => unknown>> = {
  '/': () => whenThere('[data-search]', (field) => field.focus()),
  n: () => whenThere('[data-new]', (button) => button.click()),
  ArrowDown: enterList,
  '?': () => {
    isHelpOpen.value = true
  },
}

function toPage(letter: string): (() => unknown) | undefined {
  const page = PAGES.find((one) => one.offered?.letter === letter && one.isFor())
  return page && (() => leave(() => open(page.path)))
}

const isTyping = (target: EventTarget | null) =>
  (target instanceof HTMLInputElement && !['checkbox', 'radio'].includes(target.type)) ||
  target instanceof HTMLTextAreaElement ||
  target instanceof HTMLSelectElement ||
  (target instanceof HTMLElement && target.isContentEditable)
