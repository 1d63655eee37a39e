/** Shortcuts: `/` focuses `data-search`, `n` clicks `data-new`, `g` and a letter open a page, `?` shows help. */
import { signal } from '@preact/signals'
import { open } from '../address/address.ts'
import { may } from '../api/session.ts'
import { PAGES } from './pages.ts'

export const isHelpOpen = signal(false)

export const MODIFIER = /Mac|iP/.test(navigator.platform) ? '⌘' : 'Ctrl'

const SEQUENCE_MS = 1_500

/** Called once. */
export function listenToKeys(): void {
  let wentMs = Number.NEGATIVE_INFINITY
  document.addEventListener('keydown', (event) => {
    if (event.metaKey || event.ctrlKey || event.altKey || event.defaultPrevented) return
    if (event.key === 'Escape' && event.target instanceof HTMLInputElement && event.target.type === 'search')
      event.target.blur()
    if (isTyping(event.target) || document.querySelector('dialog[open]') || !may('member')) return
    const isAfterG = event.timeStamp - wentMs < SEQUENCE_MS
    wentMs = event.key === 'g' ? event.timeStamp : Number.NEGATIVE_INFINITY
    const run = isAfterG ? toPage(event.key) : ACTIONS[event.key]
    if (!run) return
    event.preventDefault()
    run()
  })
}

/** If the page is still loading, waits for the field until the user does something else. */
function focusSearch(): void {
  const focus = () => {
    const field = document.querySelector<HTMLElement>('[data-search]')
    field?.focus()
    return field !== null
  }
  if (focus()) return
  const watch = new MutationObserver(() => focus() && stop())
  const stop = () => {
    watch.disconnect()
    for (const other of OTHER_INPUTS) removeEventListener(other, stop, true)
  }
  watch.observe(document.body, { childList: true, subtree: true })
  for (const other of OTHER_INPUTS) addEventListener(other, stop, true)
}

const OTHER_INPUTS = ['keydown', 'pointerdown', 'popstate'] as const

const ACTIONS: Readonly<Record<string, () => void>> = {
  '/': focusSearch,
  n: () => document.querySelector<HTMLElement>('[data-new]')?.click(),
  '?': () => {
    isHelpOpen.value = true
  },
}

function toPage(letter: string): (() => void) | undefined {
  const page = PAGES.find((one) => one.offered?.letter === letter && one.isFor())
  return page && (() => open(page.path))
}

const isTyping = (target: EventTarget | null) =>
  target instanceof HTMLInputElement ||
  target instanceof HTMLTextAreaElement ||
  target instanceof HTMLSelectElement ||
  (target instanceof HTMLElement && target.isContentEditable)
