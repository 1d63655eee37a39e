/**
 * What has happened, said once: a line at the foot of the page that goes by itself, and the same for those who hear the page, at most
 * once a second. And what went wrong, where it went wrong.
 */
import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import type { Refusal } from '../api/refusal.ts'
import { Button } from './button.tsx'
import { Icon } from './icon.tsx'

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
