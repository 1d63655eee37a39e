/**
 * One attempt to deliver an alert. A slow or broken receiver costs at most the deadline. Its response body and
 * redirects are ignored.
 */
import { toRetryAfterMs } from '../domain/retry-after.ts'
import { toReason } from '../upstreams/probe.ts'
import type { Message } from './message.ts'

export interface Attempt {
  ok: boolean
  /** null: no response. */
  httpStatus: number | null
  error: string | null
  /** How long the receiver asked to wait, ms. */
  retryAfterMs: number
  /** The receiver asks for no further deliveries. */
  isGone: boolean
}

export const SEND_MS = 10_000

export interface SendOptions {
  /** Deadline. */
  ms?: number
  /** Aborts when the server stops. */
  signal?: AbortSignal | undefined
}

/** Never throws. */
export async function send(
  url: string,
  { headers, body }: Message,
  { ms = SEND_MS, signal: stop }: SendOptions = {},
): Promise<Attempt> {
  const late = AbortSignal.timeout(ms)
  const signal = stop ? AbortSignal.any([late, stop]) : late
  try {
    const response = await fetch(url, { method: 'POST', headers, body, redirect: 'manual', keepalive: false, signal })
    response.body?.cancel().catch(() => {})
    return toAttempt(response.status, response.headers)
  } catch (error) {
    const why = late.aborted ? `no response within ${ms / 1_000} s` : toReason(error)
    return { ok: false, httpStatus: null, error: why, retryAfterMs: 0, isGone: false }
  }
}

function toAttempt(httpStatus: number, headers: Headers): Attempt {
  const retryAfterMs = toRetryAfterMs((name) => headers.get(name)) ?? 0
  const isGone = httpStatus === 410
  const ok = httpStatus >= 200 && httpStatus < 300
  return { ok, httpStatus, error: ok ? null : explain(httpStatus), retryAfterMs, isGone }
}

function explain(status: number): string {
  if (status >= 300 && status < 400) return `status ${status}: it redirects, which is not followed. Add its new URL.`
  const advice = ADVICE[status]
  return advice === undefined ? `status ${status}` : `status ${status}: ${advice}`
}

const ADVICE: Readonly<Record<number, string>> = {
  401: 'it requires authentication that Tollgate does not have',
  403: 'it rejects the URL or the message',
  404: 'it does not know the URL',
  410: 'it wants no more messages. Remove the target, and add its new URL.',
  429: 'it is asked too often',
}
