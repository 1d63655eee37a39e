/** States of upstreams, and which ones count as ready: defined once for pages, commands, reports, and `/readyz`. */

interface StateFacts {
  isReady: boolean
  /** For lists. */
  word: string
  /** After its name. */
  says: string
}

/**
 * `failing`: its circuit breakers opened, and no call has succeeded since; `refused`: it rejects its credential or
 * account; `degraded`: its health check was late or failed; `unknown`: not called yet; `not_ready`: it lacks a credential
 * or setting. Only `down` and `not_ready` are never called.
 */
export const UPSTREAM_STATES = {
  healthy: { isReady: true, word: 'healthy', says: 'is healthy' },
  degraded: { isReady: true, word: 'degraded', says: 'fails its health checks' },
  unknown: { isReady: true, word: 'not checked yet', says: 'is not checked yet' },
  failing: { isReady: false, word: 'failing', says: 'fails all its calls' },
  refused: { isReady: false, word: 'credential rejected', says: 'rejects its credential or account' },
  down: { isReady: false, word: 'down', says: 'is down' },
  not_ready: { isReady: false, word: 'not ready', says: 'is not ready' },
  disabled: { isReady: false, word: 'disabled', says: 'is disabled' },
} as const satisfies Record<string, StateFacts>

export type UpstreamStateName = keyof typeof UPSTREAM_STATES

export const isReady = ({ state }: { state: UpstreamStateName }): boolean => UPSTREAM_STATES[state].isReady
