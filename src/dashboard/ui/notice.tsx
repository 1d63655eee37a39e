/**
 * What has happened, said once: a line at the foot of the page that goes by itself, and the same for those who hear the page, at most
 * once a second. And what went wrong, where it went wrong.
 */
import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useId, useLayoutEffect, useRef } from 'preact/hooks'
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

/** Says that something was done, or was not. Where a form or a page can say it itself, that is the better place. */
export function tell(text: string, kind: Notice['kind'] = 'good'): void {
  const notice = { id: ++made, text, kind }
  notices.value = [...notices.value.slice(-2), notice]
  setTimeout(() => {
    notices.value = notices.value.filter(({ id }) => id !== notice.id)
  }, SHOWN_MS)
  announce(text)
}

/** Says it to those who hear the page, and shows nothing. */
export function announce(text: string): void {
  waiting.push(text)
  if (waiting.length === 1) say()
}

function say(): void {
  const live = document.getElementById('live')
  if (live) live.textContent = waiting[0] ?? ''
  setTimeout(() => {
    waiting.shift()
    if (waiting.length > 0) say()
  }, SAID_MS)
}

export const Notices = () => (
  <div class="notices" aria-hidden="true">
    {notices.value.map(({ id, text, kind }) => (
      <p key={id} class={`notice ${kind}`}>
        <Icon name={kind === 'good' ? 'check' : 'warning'} />
        {text}
      </p>
    ))}
  </div>
)

/** What a page shows in place of what it could not read, or above what it read before. */
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

/** An empty page: what will be here, and the one next step. */
export const Empty = ({ title, children }: { title: string; children: ComponentChildren }) => (
  <section class="empty">
    <h2>{title}</h2>
    {children}
  </section>
)

interface OverlayProps {
  title: ComponentChildren
  kind?: 'dialog' | 'drawer'
  /** Takes it off the page. Called when somebody wants it closed. */
  onClose(): void
  children: ComponentChildren
}

export function Overlay({ title, kind = 'dialog', onClose, children }: OverlayProps) {
  const at = useRef<HTMLDialogElement>(null)
  const titleId = useId()
  const isOpen = useRef(true)
  // Of layout, since its end comes while the dialog still stands on the page: later, the focus would go nowhere.
  useLayoutEffect(() => {
    const dialog = at.current
    isOpen.current = true
    dialog?.showModal()
    return () => {
      isOpen.current = false
      dialog?.close()
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
        onClose()
      }}
      onClose={(event) => {
        // Some browsers close it whatever is said, when Escape is pressed twice.
        if (event.target === at.current && isOpen.current) onClose()
      }}
      onClick={(event) => {
        if (event.target === at.current) onClose()
      }}
    >
      <div class="overlay-inside">
        <header class="overlay-head">
          <h2 id={titleId}>{title}</h2>
          <IconButton icon="close" label="Close" onClick={onClose} />
        </header>
        {children}
      </div>
    </dialog>
  )
}

interface UnreadProps {
  /** What is read: null before the first answer. */
  of: unknown
  /** Why it could not be read. */
  problem: Refusal | null
  retry(): void
  /** Its room; that of a list where nothing is said. */
  children?: ComponentChildren
}

/**
 * Once it is there, nothing; where it could not be read, why; until then its room, in its size, so that nothing moves when it comes: seen
 * only where that takes longer than 300 ms (`styles/figures.css`).
 */
export function Unread({ of, problem, retry, children = <ListRoom /> }: UnreadProps) {
  if (problem) return <Problem of={problem} retry={retry} />
  return of === null ? <Room>{children}</Room> : null
}

/** Room for something whose time to come is not told by `useLoaded`. */
const Room = ({ children }: { children: ComponentChildren }) => (
  <div class="unread" aria-busy="true">
    <span class="unseen">Still being read</span>
    {children}
  </div>
)

const ROWS = Array.from({ length: 6 }, (_, at) => at)

/** Filters above rows. */
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

/** Figures above lines: a drawer, a page about one thing. */
export const FactsRoom = () => (
  <>
    <div class="headline">
      <FigureRoom />
      <FigureRoom />
    </div>
    <div class="panel room-of-panel" />
  </>
)

/** A figure below its name. */
export const FigureRoom = () => (
  <div>
    <span class="room-of-words" />
    <span class="room-of-figure" />
  </div>
)

/** A page of which not even the title is known. */
export const PageRoom = ({ children }: { children: ComponentChildren }) => (
  <Room>
    <div class="page-head">
      <span class="room-of-figure" />
    </div>
    {children}
  </Room>
)
