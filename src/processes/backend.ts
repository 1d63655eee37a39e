/**
 * The backend of upstreams whose servers run here: a call waits for a place at its server, which is started for it where it has to be,
 * and then goes as any other, by the backend of its dialect. Probes start nothing.
 */
import { endOfUnsent, UpstreamError } from '../domain/error.ts'
import type { AnswerEvent, AnswerStream, Passage, Take } from '../domain/events.ts'
import type { Backend, BackendCall } from '../upstreams/backend.ts'
import type { Fleet } from './fleet.ts'
import type { Lease, Outcome } from './model.ts'

export function createManagedBackend(inner: Backend, fleet: Pick<Fleet, 'lease' | 'probe'>): Backend {
  return {
    call: (call) => (call.target.upstream.process === null ? inner.call(call) : callManaged(inner, fleet, call)),
    probe: (upstream, signal) => (upstream.process === null ? inner.probe(upstream, signal) : fleet.probe(upstream)),
  }
}

async function callManaged(inner: Backend, fleet: Pick<Fleet, 'lease'>, call: BackendCall) {
  const { target, signal, deadlines, queue, body } = call
  const beganMs = performance.now()
  const lease = await fleet.lease({
    upstream: target.upstream,
    owner: queue?.owner ?? '',
    signal,
    patienceMs: body.stream ? deadlines.total : deadlines.totalWhole,
    ...(queue ? { onWaiting: queue.onWaiting } : {}),
  })
  // All of it is to be done in time, the waiting included.
  const leftOf = (ms: number) => Math.max(1, Math.round(ms - (performance.now() - beganMs)))
  try {
    // It has waited, and an aborted signal tells nobody any more.
    if (signal.aborted) throw endOfUnsent(signal)
    const answer = await inner.call({
      ...call,
      target: { ...target, upstream: lease.upstream },
      deadlines: { ...deadlines, total: leftOf(deadlines.total), totalWhole: leftOf(deadlines.totalWhole) },
    })
    if (answer.rest !== null) return { ...answer, rest: new LeasedStream(answer.rest, lease) }
    lease.over('ok')
    return answer
  } catch (error) {
    lease.over(toOutcome(error))
    throw error
  }
}

/** What a failure says of the server: nothing, where the request or we are to blame. */
function toOutcome(error: unknown): Outcome {
  if (!(error instanceof UpstreamError)) return 'none'
  const { kind, status, isTooLong, isOwnLimit, isBusy, isSpoiled } = error
  if (isTooLong || isOwnLimit || isBusy || isSpoiled) return 'none'
  if (kind === 'status') return status === null || status >= 500 ? 'failed' : 'none'
  if (kind === 'connection') return 'lost'
  return kind === 'aborted' ? 'none' : 'failed'
}

/** The same stream, with its place, which it gives back at its end. */
class LeasedStream implements AnswerStream {
  readonly #inner: AnswerStream
  readonly #lease: Lease

  constructor(inner: AnswerStream, lease: Lease) {
    this.#inner = inner
    this.#lease = lease
  }

  async pump(take: Take, passage?: Passage): Promise<void> {
    const lease = this.#lease
    let last: AnswerEvent | undefined
    const heard: Take = (events) => {
      last = events.at(-1) ?? last
      lease.heard()
      return take(events)
    }
    const passing = passage && {
      pass(frames: string, text: string) {
        lease.heard()
        return passage.pass(frames, text)
      },
    }
    await this.#inner.pump(heard, passing)
    // Else it goes on, or is closed.
    if (last?.kind === 'done') lease.over('ok')
    if (last?.kind === 'failure') lease.over(toOutcome(last.error))
  }

  close(): void {
    this.#inner.close()
    this.#lease.over('none')
  }
}
