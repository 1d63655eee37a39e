/** Which backend answers for a target: the one place that knows the dialects. A new wire format is one line here. */

import type { Target } from '../domain/snapshot.ts'
import type { Backend } from './backend.ts'
import { openai } from './dialects/openai/openai.ts'
import { createHttpBackend, type HttpOptions } from './http.ts'

export interface BackendOptions extends HttpOptions {
  /** Makes the backends that are no HTTP upstreams, by the name of their dialect. */
  factories?: Readonly<Record<string, () => Backend>>
}

export function createBackends(options: BackendOptions = {}): (target: Pick<Target, 'upstream'>) => Backend {
  const backends = new Map<string, Backend>([['openai', createHttpBackend(openai, options)]])
  for (const [dialect, create] of Object.entries(options.factories ?? {})) backends.set(dialect, create())
  return ({ upstream }) => {
    const backend = backends.get(upstream.dialect)
    if (!backend) throw new Error(`no backend speaks the dialect ${upstream.dialect} of upstream ${upstream.id}`)
    return backend
  }
}
