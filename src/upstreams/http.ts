/** The backend of every upstream that is reached over HTTP: a dialect over `fetch`. Nothing here knows a provider. */
import type { Backend, Dialect } from './backend.ts'
import { HttpCall } from './http-call.ts'
import { askReadiness } from './probe.ts'

export interface HttpOptions {
  /** Of one event in a stream; a longer one breaks it off. */
  maxEventBytes?: number
}

export function createHttpBackend(dialect: Dialect, { maxEventBytes = 4 * 1024 * 1024 }: HttpOptions = {}): Backend {
  return {
    call: (call) => new HttpCall(dialect, call, maxEventBytes).run(),
    probe: (upstream, signal) => askReadiness(dialect.probe, upstream, signal),
  }
}
