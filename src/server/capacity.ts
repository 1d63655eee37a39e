/**
 * How much a server takes on at a time: requests, as far as its open files go, what they hold in memory, bodies on their way, and
 * calls whose clients have left. Made by `server.ts`.
 */
import { LeftCalls } from '../accounting/call.ts'
import type { ServeConfig } from '../config.ts'
import { Load, OverloadState, stopping } from '../gateway/admission.ts'
import { Uploads } from '../gateway/read.ts'
import type { Log } from '../log.ts'
import { readMaxFiles, toFileLimit, toLowLimit } from './files.ts'

/** @param nowMs a clock that never steps. */
export function createCapacity(config: ServeConfig, { nowMs, log }: { nowMs(): number; log: Log }) {
  const files = toFileLimit(readMaxFiles(), config.maxInFlight)
  const lowLimit = toLowLimit(files)
  if (lowLimit !== null) log.warn('files_short', lowLimit)
  const overload = new OverloadState({
    onChange: (reason) =>
      reason === null
        ? log.info('server_has_room', 'there is room for every request again')
        : log.warn('server_full', 'requests are refused for want of room', { reason }),
  })
  const load = new Load({ ...config, maxInFlight: files.max_in_flight, nowMs, overload })
  const uploads = new Uploads(config)
  const leftCalls = new LeftCalls(config)
  return {
    files,
    /** A sentence for whoever has started a server that may open too few; null where it may open enough. */
    lowLimit,
    overload,
    load,
    uploads,
    leftCalls,
    /** Takes nothing new, and lets what is under way end. */
    drain(): void {
      load.drain()
      uploads.end(stopping)
      leftCalls.drain()
    },
  }
}
