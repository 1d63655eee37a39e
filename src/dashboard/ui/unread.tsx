/**
 * What stands where something is still being read: its room, in the size that it will have, so that nothing moves when it comes. It is seen
 * only where that takes longer than 300 ms (`styles/unread.css`).
 */
import type { ComponentChildren } from 'preact'
import type { Refusal } from '../api/refusal.ts'
import { Problem } from './notice.tsx'

interface UnreadProps {
  /** What is read: null before the first answer. */
  of: unknown
  /** Why it could not be read. */
  problem: Refusal | null
  retry(): void
  /** Its room; that of a list where nothing is said. */
  children?: ComponentChildren
}

/** Once it is there, nothing; where it could not be read, why. */
export function Unread({ of, problem, retry, children = <ListRoom /> }: UnreadProps) {
  if (problem) return <Problem of={problem} retry={retry} />
  return of === null ? <Room>{children}</Room> : null
}

/** Room for something whose time to come is not told by `useLoaded`. */
export const Room = ({ children }: { children: ComponentChildren }) => (
  <div class="unread" aria-busy="true">
    <span class="unseen">Still being read</span>
    {children}
  </div>
)

const ROWS = Array.from({ length: 6 }, (_, at) => at)

/** Filters above rows. */
export const ListRoom = () => (
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
