/** The backend of every upstream that is reached over HTTP: a dialect over a transport. Nothing here knows a provider. */
import type { Authority, Backend, Dialect } from './backend.ts'
import { HttpCall } from './http-call.ts'
import { askReadiness } from './probe.ts'
import type { Transport } from './transport.ts'

export interface HttpOptions {
  /** Of one event in a stream; a longer one breaks it off. */
  maxEventBytes?: number
  authority?: Authority
}

export function createHttpBackend(
  dialect: Dialect,
  transport: Transport,
  { maxEventBytes = 4 * 1024 * 1024, authority }: HttpOptions = {},
): Backend {
  return {
    call: (call) => new HttpCall(dialect, transport, call, maxEventBytes, authority).run(),
    probe: (upstream, signal) => askReadiness(dialect, upstream, signal, authority),
  }
}
