/** Figures with what they exactly are: in their title, and in what is copied. */
import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { toCount, toExactCount, toLatency, toPercent } from '../figures/counts.ts'
import { toExactMoney, toMoney } from '../figures/money.ts'
import { toIso, toWhen } from '../figures/times.ts'

const TICK_MS = 30_000

/** What time it is, to half a minute. */
export const nowMs = signal(Date.now())
setInterval(() => {
  if (!document.hidden) nowMs.value = Date.now()
}, TICK_MS)
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) nowMs.value = Date.now()
})

/** @param exact what is copied where this figure alone is selected. */
const Exact = ({ exact, title = exact, children }: { exact: string; title?: string; children: ComponentChildren }) => (
  <span
    class="figure-text"
    title={title}
    onCopy={(event) => {
      event.clipboardData?.setData('text/plain', exact)
      event.preventDefault()
    }}
  >
    {children}
  </span>
)

export const Money = ({ nanoUsd, isEstimated = false }: { nanoUsd: number; isEstimated?: boolean }) => (
  <Exact
    exact={toExactMoney(nanoUsd)}
    title={isEstimated ? `${toExactMoney(nanoUsd)}, a part of it estimated` : toExactMoney(nanoUsd)}
  >
    {toMoney(nanoUsd, isEstimated)}
  </Exact>
)

export const Count = ({ count }: { count: number }) => <Exact exact={toExactCount(count)}>{toCount(count)}</Exact>

export const Percent = ({ share }: { share: number }) => <Exact exact={`${share * 100} %`}>{toPercent(share)}</Exact>

export const Latency = ({ ms }: { ms: number }) => <Exact exact={`${ms} ms`}>{toLatency(ms)}</Exact>

export const When = ({ ms }: { ms: number }) => (
  <time class="figure-text" dateTime={toIso(ms)} title={toIso(ms)}>
    {toWhen(ms, nowMs.value)}
  </time>
)

/** A state: a word, with a shape of its own, so that no colour stands alone. */
export const State = ({ kind, children }: { kind: 'good' | 'warn' | 'bad' | 'off'; children: ComponentChildren }) => (
  <span class={`state ${kind}`}>{children}</span>
)

/** How much of a whole is used. */
export function Bar({ share, label, kind }: { share: number; label: string; kind: 'good' | 'warn' | 'bad' }) {
  const percent = Math.min(100, Math.max(0, share * 100))
  return (
    <span class={`bar ${kind}`} role="img" aria-label={label}>
      <span style={{ width: `${percent}%` }} />
    </span>
  )
}

/** In a cell that has nothing. */
export const None = () => (
  <span class="dim">
    <span aria-hidden="true">–</span>
    <span class="unseen">none</span>
  </span>
)
