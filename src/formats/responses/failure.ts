/** What a response has failed with, in codes by which clients know what to do. Pure. */
import type { GatewayError } from '../../domain/error.ts'

/** In the API's words, where ours are others. */
const CODES: Readonly<Record<string, string>> = { upstream_rate_limited: 'rate_limit_exceeded' }

/** Codex reads how long it is to wait from the sentence: nobody reads headers any more. */
export function toFailure({ code, message, headers }: GatewayError): { code: string; message: string } {
  const known = code === null ? 'server_error' : (CODES[code] ?? code)
  const wait = headers['retry-after']
  return { code: known, message: wait === undefined ? message : `${message} Please try again in ${wait}s.` }
}
