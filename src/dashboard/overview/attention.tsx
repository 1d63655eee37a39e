/** What needs a person now, each with its action; above everything else on Overview and Start. */
import { useEffect, useRef } from 'preact/hooks'
import type { ShownFinding } from '../../documents/findings.ts'
import { toHref } from '../address/address.ts'
import { api, ask } from '../api/client.ts'
import { reloadAll, useLoaded } from '../api/loaded.ts'
import { isMember } from '../api/session.ts'
import { ButtonLink } from '../ui/controls.tsx'
import { State, When } from '../ui/figure.tsx'

const FRESH_MS = 10_000

const useAttention = () =>
  useLoaded('attention', () => ask(isMember() ? api.own.attention.get() : api.attention.get()), { everyMs: FRESH_MS })

/** True once the strip has its size, so that it doesn't move the content below. */
export function useAttentionRead(): boolean {
  const { data, problem } = useAttention()
  return data !== null || problem !== null
}

/** Others are collapsed, so that the figures stay on the first screen. */
const FEW = 4

export function Attention() {
  const { data } = useAttention()
  useAgreement(data?.findings)
  if (data === null || data.findings.length === 0) return null
  const [first, rest] = [data.findings.slice(0, FEW), data.findings.slice(FEW)]
  return (
    <section class="panel attention" aria-labelledby="attention">
      <h2 id="attention">Needs attention</h2>
      <Findings of={first} />
      {rest.length > 0 && (
        <details>
          <summary>Show {rest.length} more</summary>
          <Findings of={rest} />
        </details>
      )}
    </section>
  )
}

/** Reloads figures when findings change: figures refresh less often, and must not look healthy below a problem. */
function useAgreement(findings: readonly ShownFinding[] | undefined): void {
  const seen = useRef<string | null>(null)
  const now = findings?.map(({ kind, subject }) => `${kind} ${subject?.id ?? ''}`).join() ?? null
  useEffect(() => {
    if (seen.current !== null && seen.current !== now) void reloadAll('overview')
    seen.current = now
  }, [now])
}

const KINDS = { problem: 'bad', warning: 'warn' } as const

const Findings = ({ of }: { of: readonly ShownFinding[] }) => (
  <ul>
    {of.map(({ kind, severity, subject, message, since_ms, action }) => (
      <li key={`${kind} ${subject?.id ?? message}`}>
        <State kind={KINDS[severity]}>{severity}</State>
        <p>
          {message}
          {subject?.type === 'upstream' && since_ms !== null && (
            <span class="dim">
              {' '}
              Last success: <When ms={since_ms} />.
            </span>
          )}
        </p>
        <ButtonLink href={toHref(action.path)}>
          {action.label}
          {subject !== null && <span class="unseen">: {subject.name}</span>}
        </ButtonLink>
      </li>
    ))}
  </ul>
)
