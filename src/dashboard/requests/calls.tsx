/** The calls that a request took, each as a bar: how long it was waited for, and how long it answered. */
import type { ChargeDocument } from '../../documents/request.ts'
import { toLatency } from '../figures/counts.ts'
import { nowMs, State } from '../ui/figure.tsx'
import { toCallBars } from './timing.ts'
import { REASONS, STATUS_KINDS, toFailureText } from './words.ts'

type Call = ChargeDocument['calls'][number]

export function Calls({ of: request }: { of: ChargeDocument }) {
  const { ms, bars } = toCallBars(request, request.calls, nowMs.value)
  return (
    <section class="panel">
      <h2>{request.calls.length === 1 ? 'One call' : `${request.calls.length} calls`}</h2>
      <ol class="calls">
        {request.calls.map((call, at) => (
          <li key={call.number}>
            <p class="call-line">
              <strong>{call.upstream}</strong> <code>{call.upstream_model}</code>
              {call.credential !== null && <span>by credential {call.credential}</span>}
              {call.number > 1 && <span>{REASONS[call.reason] ?? call.reason}</span>}
              <State kind={STATUS_KINDS[call.status]}>{call.status}</State>
              <span class="dim">{toCallText(call)}</span>
            </p>
            <div class="call-room" aria-hidden="true">
              <span class="call-waiting" style={{ left: `${bars[at]?.start}%`, width: `${bars[at]?.waiting}%` }} />
              <span
                class="call-answering"
                style={{
                  left: `${(bars[at]?.start ?? 0) + (bars[at]?.waiting ?? 0)}%`,
                  width: `${bars[at]?.answering}%`,
                }}
              />
            </div>
          </li>
        ))}
      </ol>
      <p class="call-scale dim" aria-hidden="true">
        <span>0</span>
        <span>{toLatency(ms)}</span>
      </p>
    </section>
  )
}

function toCallText(call: Call): string {
  const parts = [
    toFailureText(call),
    ...(call.first_token_ms === null ? [] : [`first token ${toLatency(call.first_token_ms)}`]),
    ...(call.duration_ms === null
      ? []
      : [`${call.status === 'ok' ? 'done' : 'over'} after ${toLatency(call.duration_ms)}`]),
  ]
  return parts.filter((part) => part !== '').join(', ')
}
