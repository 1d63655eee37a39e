/** Toasts, screen-reader announcements (at most one per second), problems, dialogs, and loading placeholders. */
import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { withQuery } from '../address/match.ts'
import type { Refusal } from '../api/refusal.ts'
import { Button, Icon, IconButton } from './controls.tsx'

const SHOWN_MS = 5_000
const SAID_MS = 1_000

interface Notice {
  id: number
  text: string
  kind: 'good' | 'bad'
}

const notices = signal<readonly Notice[]>([])
const waiting: string[] = []
let made = 0

/** Shows a toast. Prefer a message in the form or page itself. */
export function tell(text: string, kind: Notice['kind'] = 'good'): void {
  const notice = { id: ++made, text, kind }
  notices.value = [...notices.value.slice(-2), notice]
  setTimeout(() => {
    notices.value = notices.value.filter(({ id }) => id !== notice.id)
  }, SHOWN_MS)
  announce(text)
}

/** Puts the toasts above the latest overlay. */
function raise(at: HTMLElement | null): void {
  if (at === null) return
  at.hidePopover()
  if (notices.peek().length > 0) at.showPopover()
}

/** For screen readers only. */
export function announce(text: string): void {
  waiting.push(text)
  if (waiting.length === 1) say()
}

function say(): void {
  // Content below an open dialog is inert, so screen readers don't read it.
  const live = [...document.querySelectorAll('[data-live]')].at(-1)
  if (live) live.textContent = waiting[0] ?? ''
  setTimeout(() => {
    waiting.shift()
    if (waiting.length > 0) say()
  }, SAID_MS)
}

export function Notices() {
  const at = useRef<HTMLDivElement>(null)
  const { value } = notices
  useLayoutEffect(() => raise(at.current), [value])
  return (
    <div ref={at} id="notices" class="notices" popover="manual" aria-hidden="true">
      {value.map(({ id, text, kind }) => (
        <p key={id} class={`notice ${kind}`}>
          <Icon name={kind === 'good' ? 'check' : 'warning'} />
          {text}
        </p>
      ))}
    </div>
  )
}

export const Problem = ({ of, retry }: { of: Refusal; retry?: () => void }) => (
  <div class="problem" role="alert">
    <Icon name="warning" />
    <p>{of.message}</p>
    {retry && (
      <Button kind="quiet" onClick={retry}>
        Try again
      </Button>
    )}
  </div>
)

/** Empty state: describes the future content, and the next step. */
export const Empty = ({ title, children }: { title: string; children: ComponentChildren }) => (
  <section class="empty">
    <h2>{title}</h2>
    {children}
  </section>
)

interface OverlayProps {
  title: ComponentChildren
  kind?: 'dialog' | 'drawer'
  /** Must unmount the overlay. Without it, only the content can close the overlay. */
  onClose?: (() => void) | undefined
  children: ComponentChildren
}

export function Overlay({ title, kind = 'dialog', onClose, children }: OverlayProps) {
  const at = useRef<HTMLDialogElement>(null)
  const titleId = useId()
  const isOpen = useRef(true)
  const [isAsking, setAsking] = useState(false)
  const hasUnsaved = () => at.current?.querySelector('form[data-unsaved]') != null
  const leave = () => {
    if (onClose && hasUnsaved()) setAsking(true)
    else onClose?.()
  }
  // A layout effect's cleanup runs while the dialog is still in the page, so that focus returns to its opener.
  useLayoutEffect(() => {
    const dialog = at.current
    const opener = document.activeElement
    isOpen.current = true
    dialog?.showModal()
    raise(document.getElementById('notices'))
    const address = location.pathname + withQuery(location.search, { edit: null })
    return () => {
      isOpen.current = false
      // Inner dialogs close first: while they are open, this one's opener can't get the focus.
      for (const inner of dialog?.querySelectorAll('dialog') ?? []) inner.close()
      dialog?.close()
      requestAnimationFrame(() => giveBack(opener, address))
    }
  }, [])
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes it, and so does its button
    <dialog
      ref={at}
      class={`overlay ${kind}`}
      aria-labelledby={titleId}
      onCancel={(event) => {
        if (event.target !== at.current) return
        event.preventDefault()
        leave()
      }}
      onClose={(event) => {
        // Some browsers close it anyway when Escape is pressed twice, and those around it too.
        const dialog = at.current
        if (dialog === null || event.target !== dialog || !isOpen.current || dialog.open) return
        const inner = [...dialog.querySelectorAll('dialog')]
        if (!onClose || inner.length > 0 || hasUnsaved()) dialog.showModal()
        for (const one of inner.filter(({ open }) => open)) {
          one.close()
          one.showModal()
        }
        if (inner.length === 0) leave()
      }}
      onClick={(event) => {
        if (event.target === at.current) leave()
      }}
    >
      <div class="overlay-inside">
        <header class="overlay-head">
          <h2 id={titleId}>{title}</h2>
          {onClose && <IconButton icon="close" label="Close" onClick={leave} />}
        </header>
        <div class="unseen" role="status" data-live />
        {children}
        {isAsking && onClose && <AskToDiscard discard={onClose} keep={() => setAsking(false)} />}
      </div>
    </dialog>
  )
}

export const AskToDiscard = ({ discard, keep }: { discard(): void; keep(): void }) => (
  <Overlay title="Discard your changes?" onClose={keep}>
    <p>What you typed isn't saved.</p>
    <div class="form-foot">
      <Button kind="bad" onClick={discard}>
        Discard
      </Button>
      <Button onClick={keep}>Keep editing</Button>
    </div>
  </Overlay>
)

/**
 * Restores the focus where browsers don't: if the overlay was shown again or opened by its URL, or its row was redrawn.
 */
function giveBack(opener: Element | null, address: string): void {
  if (!isUnused(document.activeElement)) return
  const row = document.querySelector<HTMLElement>(`a.row-link[href="${CSS.escape(address)}"]`)
  const wanted = isUnused(opener) ? [row, opener] : [opener, row]
  wanted
    .find((one): one is HTMLElement => one instanceof HTMLElement && one.isConnected && one !== document.body)
    ?.focus()
}

/** A page's heading has the focus until the user moves it. */
const isUnused = (one: Element | null) => one === null || one === document.body || one.matches('h1')

interface UnreadProps {
  /** Null until the first response. */
  of: unknown
  problem: Refusal | null
  retry(): void
  /** Placeholder; default: that of a list. */
  children?: ComponentChildren
}

/** Placeholder of the final size, or the problem; visible only after 300 ms (`styles/figures.css`). */
export function Unread({ of, problem, retry, children = <ListRoom /> }: UnreadProps) {
  if (problem) return <Problem of={problem} retry={retry} />
  return of === null ? <Room>{children}</Room> : null
}

const Room = ({ children }: { children: ComponentChildren }) => (
  <div class="unread" aria-busy="true">
    <span class="unseen">Loading…</span>
    {children}
  </div>
)

const ROWS = Array.from({ length: 6 }, (_, at) => at)

const ListRoom = () => (
  <>
    <div class="filters">
      <span class="room-of-field" />
    </div>
    <RowsRoom />
  </>
)

export const RowsRoom = () => (
  <div class="table-frame">
    {ROWS.map((at) => (
      <div key={at} class="room-of-row">
        <span class="room-of-words" />
      </div>
    ))}
  </div>
)

/** Placeholder of a drawer or detail page. */
export const FactsRoom = () => (
  <>
    <div class="headline">
      <FigureRoom />
      <FigureRoom />
    </div>
    <div class="panel room-of-panel" />
  </>
)

export const FigureRoom = () => (
  <div>
    <span class="room-of-words" />
    <span class="room-of-figure" />
  </div>
)

export const PageRoom = ({ children }: { children: ComponentChildren }) => (
  <Room>
    <div class="page-head">
      <span class="room-of-figure" />
    </div>
    {children}
  </Room>
)
