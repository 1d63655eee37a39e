/**
 * The built-in backend: an honest stand-in for a model, so that a first run, a client's integration test and a
 * benchmark need nothing else. Whole answers come at once; streams send one token a chunk at the upstream's `pace_ms`.
 * What it says is in `demo-reply.ts`. Keeps no state between calls and does no I/O.
 */
import type { Backend } from '../upstreams/backend.ts'
import { toBatches, toChoices } from './frames.ts'
import { aborted, createPacedIterator } from './pace.ts'
import { toReplies, toUsage } from './reply.ts'

const DEFAULT_PACE_MS = 15

/** Builds the demo backend. One instance serves every demo upstream. */
export function createDemoBackend(): Backend {
  return {
    async chat({ body, target, signal, callId }) {
      if (signal.aborted) throw aborted()
      const most = Math.min(
        body.max_completion_tokens ?? body.max_tokens ?? target.maxOutputLength,
        target.maxOutputLength,
      )
      const replies = toReplies(body, most)
      const usage = toUsage(body, replies)
      // Unique among all calls, so that a conversation may hold several.
      const toId = (choice: number, place: number) =>
        `call_${Bun.hash(`${callId}/${choice}/${place}`).toString(16).padStart(16, '0')}`
      if (!body.stream) return { kind: 'whole', completion: { choices: toChoices(body, replies, toId) }, usage }
      const paceMs = target.upstream.options.pace_ms ?? DEFAULT_PACE_MS
      const batches = toBatches(body, replies, usage, toId)
      return {
        kind: 'stream',
        events: { [Symbol.asyncIterator]: () => createPacedIterator(batches, paceMs, signal) },
      }
    },
    probe: async () => ({ state: 'ready' }),
  }
}
