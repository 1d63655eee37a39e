/** What whoever waits for a model server is told where there is none to be had. Clients read it: it names no path and no program. Pure. */
import { UpstreamError } from '../domain/error.ts'
import type { Readiness } from '../upstreams/backend.ts'
import type { ManagedModel } from './model.ts'
import type { StartFailure } from './supervisor.ts'

/**
 * It could not be started, or is left alone after that for so long. No call was made, and no breaker counts it: when a server may be
 * tried again is decided here.
 */
function toStartError({ kind }: StartFailure, startMs: number, retryAfterMs: number): UpstreamError {
  if (kind === 'start')
    return new UpstreamError('deadline', `its model server was not ready within ${startMs / 1_000} s`, {
      ...{ deadline: 'start', isOwnLimit: true },
    })
  const retryable = kind === 'ended' || kind === 'crashed'
  return new UpstreamError('connection', 'could not start its model server', {
    retryable,
    retryAfterMs,
    isOwnLimit: true,
  })
}

/** A server that has ended by itself, and for the first time, is waited for. */
const SHORT_RETRY_MS = 1_000

/** What those who wait for a server that has failed are told; null where it is tried again so soon that they may go on. */
export function toFailed(
  failure: StartFailure,
  { supervisor, spec }: Pick<ManagedModel, 'supervisor' | 'spec'>,
  { nowMs, isDraining }: { nowMs: number; isDraining: boolean },
): UpstreamError | null {
  const retryAfterMs = supervisor.retryAtMs - nowMs
  if (failure.kind === 'crashed' && !isDraining && retryAfterMs <= SHORT_RETRY_MS) return null
  return toStartError(failure, spec.startMs, Math.max(0, retryAfterMs))
}

/** It stays so until the catalogue says otherwise. */
export const TOO_LARGE = 'needs more memory than there is for models here'

export const toTooLarge = () =>
  new UpstreamError('connection', TOO_LARGE, {
    retryable: false,
    isOwnLimit: true,
  })

export const toStopping = () =>
  new UpstreamError('connection', 'is not loaded any more, because this server stops', {
    retryable: false,
    isOwnLimit: true,
  })

/** Nobody has said before that it is gone: the request came first. */
export const toGone = () =>
  new UpstreamError('connection', 'is not set up any more', { retryable: false, isOwnLimit: true })

/** @param retryAfterMs as was measured. */
export const toFull = (waiting: number, retryAfterMs: number) =>
  new UpstreamError('status', `${waiting} requests wait for its model server already`, {
    ...{ status: 429, isOwnLimit: true, retryable: true, retryAfterMs },
  })

/** How one that has failed stands for whoever probes. */
export const toFailedReadiness = ({ kind }: StartFailure): Readiness => ({
  state: 'down',
  reason: kind === 'crashed' ? 'its model server has ended by itself' : 'its model server could not be started',
})
