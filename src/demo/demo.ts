/**
 * The built-in backend: an honest stand-in for a model, so that a first run, a client's integration test and a
 * benchmark need nothing else. Whole answers come at once; streams send one token a batch at the upstream's `pace_ms`.
 * What it says is in `reply.ts`, what its vectors are in `embed.ts`. Keeps no state between calls and does no I/O.
 */
import { EMBEDDING } from '../domain/embedding.ts'
import type { Backend } from '../upstreams/backend.ts'
import { toEmbeddings } from './embed.ts'
import { toEvents } from './events.ts'
import { aborted, createPacedStream } from './pace.ts'
import { toReply } from './reply.ts'

const DEFAULT_PACE_MS = 15

/** Builds the demo backend. One instance serves every demo upstream. */
export function createDemoBackend(): Backend {
  return {
    async call({ body, target, signal, callId, observer }) {
      if (signal.aborted) throw aborted()
      observer.sent()
      const embedding = body[EMBEDDING]
      if (embedding) return { events: toEmbeddings(embedding), rest: null, upstreamRequestId: null }
      const wanted = body.max_completion_tokens ?? body.max_tokens ?? target.maxOutputLength
      const reply = toReply(body, Math.min(wanted, target.maxOutputLength))
      // Unique among all calls, so that a conversation may hold several.
      const toId = (choice: number, index: number) =>
        `call_${Bun.hash(`${callId}/${choice}/${index}`).toString(16).padStart(16, '0')}`
      const batches = toEvents(reply, body, toId)
      if (!body.stream) return { events: batches.flat(), rest: null, upstreamRequestId: null }
      const rest = createPacedStream(batches, target.upstream.options.pace_ms ?? DEFAULT_PACE_MS, signal)
      return { events: [], rest, upstreamRequestId: null }
    },
    probe: async () => ({ state: 'ready' }),
  }
}
