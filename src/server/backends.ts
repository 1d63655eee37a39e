/** Everything that this executable can have answer: HTTP upstreams of every dialect, and the demo that is built in. */

import { createDemoBackend } from '../demo/demo.ts'
import type { HttpOptions } from '../upstreams/http.ts'
import { createBackends } from '../upstreams/registry.ts'

export const createAllBackends = (options: HttpOptions = {}) =>
  createBackends({ ...options, factories: { demo: createDemoBackend } })
