/** Parts that each answering process has, in a server or a worker. */
import { DisconnectedCalls } from '../accounting/call.ts'
import type { ServeConfig } from '../config.ts'
import { AdaptiveConcurrency } from '../gateway/adaptive-concurrency.ts'
import { Load, OverloadState, stopping } from '../gateway/admission.ts'
import { Uploads } from '../gateway/read.ts'
import { createChecker } from '../gateway/structured-checker.ts'
import type { Log } from '../log.ts'
import type { TelemetryOptions } from '../telemetry/otlp.ts'
import { Pace } from '../threads/pace.ts'
import { createCounter } from '../tokens/count.ts'
import { readMaxFiles, toFileLimit } from './open-files.ts'

interface PartsDeps {
  log: Log
  /** Wall clock, ms. */
  now(): number
  /** Monotonic clock, ms. */
  monotonicMs(): number
  instance: string
  /** Number of processes that share the configuration's capacity. */
  processes: number
  backoffMs?: number | undefined
}

const BACKOFF_MS = 500

/** `cleanup` ends its threads. */
export function createParts(config: ServeConfig, deps: PartsDeps, cleanup: AsyncDisposableStack) {
  const { log, now, monotonicMs, instance, processes, backoffMs = BACKOFF_MS } = deps
  const capacity = createCapacity(config, { nowMs: monotonicMs, log, processes })
  const { load, uploads, disconnectedCalls } = capacity
  const counter = createCounter({ log })
  const checker = createChecker()
  const closeThreads = () => {
    counter.close()
    checker.close()
  }
  cleanup.defer(closeThreads)
  const concurrency = new AdaptiveConcurrency(monotonicMs)
  return {
    ...{ capacity, concurrency, closeThreads },
    endUploads: () => uploads.end(stopping),
    /** For `createApp`. */
    ofApp: {
      ...{ counter, checker, load, uploads, disconnectedCalls, concurrency, pace: new Pace() },
      ...{ log, now, monotonicMs, instance },
      heartbeatMs: config.heartbeatMs,
      slowReaderMs: config.slowReaderMs,
      corsOrigins: config.corsOrigins,
      trustedProxies: config.trustedProxies,
      retry: { retries: config.retries, backoffMs },
    },
  }
}

/** Null if nothing is sent. `cleanup` ends it. */
export async function openTelemetry(
  { otlp, otlpSample }: ServeConfig,
  options: Omit<TelemetryOptions, 'url' | 'share'>,
  cleanup: AsyncDisposableStack,
) {
  if (otlp === null) return null
  const { createTelemetry } = await import('../telemetry/otlp.ts')
  const telemetry = createTelemetry({ ...options, url: otlp, share: otlpSample })
  cleanup.defer(() => telemetry.close())
  return telemetry
}

interface CapacityDeps {
  /** Monotonic clock. */
  nowMs(): number
  log: Log
  /** Number of processes that share it. */
  processes: number
}

function createCapacity(config: ServeConfig, { nowMs, log, processes }: CapacityDeps) {
  const files = toFileLimit(readMaxFiles(), config.maxInFlight, processes)
  const overload = new OverloadState({
    onChange: (reason) =>
      reason === null
        ? log.info('server_recovered', 'capacity restored')
        : log.warn('server_overloaded', 'rejecting requests: at capacity', { reason }),
  })
  const load = new Load({ ...config, maxInFlight: files.max_in_flight, nowMs, overload })
  const uploads = new Uploads(config)
  const disconnectedCalls = new DisconnectedCalls(config)
  return {
    files,
    overload,
    load,
    uploads,
    disconnectedCalls,
    drain(): void {
      load.drain()
      uploads.end(stopping)
      disconnectedCalls.drain()
    },
  }
}
