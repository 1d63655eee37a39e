/** Which backend answers for a target: the one place that knows the dialects. A new wire format is one line here. */

import { createDemoBackend } from '../demo/demo.ts'
import type { Target } from '../domain/snapshot.ts'
import type { Backend } from './backend.ts'
import { openai } from './dialects/openai/openai.ts'
import { createHttpBackend, type HttpOptions } from './http.ts'

export function createBackends(options: HttpOptions = {}): (target: Pick<Target, 'upstream'>) => Backend {
  const backends = new Map<string, Backend>([
    ['openai', createHttpBackend(openai, options)],
    ['demo', createDemoBackend()],
  ])
  return ({ upstream }) => {
    const backend = backends.get(upstream.dialect)
    if (!backend) throw new Error(`no backend speaks the dialect ${upstream.dialect} of upstream ${upstream.id}`)
    return backend
  }
}
