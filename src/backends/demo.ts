/**
 * The built-in backend: an honest stand-in for a model, so that a first run, a client's integration test and a
 * benchmark need nothing else. Whole answers come at once; streams send one token a chunk at the upstream's `pace_ms`.
 * What it says is in `demo-reply.ts`. Keeps no state between calls and does no I/O.
 */
import { UpstreamError } from '../error.ts'
import type { AnswerEvent, Choice, ChunkChoice } from '../wire/chat.ts'
import type { Usage } from '../wire/usage.ts'
import type { Backend, BackendCall } from './backend.ts'
import { type Reply, toReplies, toUsage } from './demo-reply.ts'

const DEFAULT_PACE_MS = 15

/** Builds the demo backend. One instance serves every demo upstream. */
export function createDemoBackend(): Backend {
  return {
    async chat(call) {
      if (call.signal.aborted) throw aborted()
      const { body, target } = call
      const most = Math.min(
        body.max_completion_tokens ?? body.max_tokens ?? target.maxOutputLength,
        target.maxOutputLength,
      )
      const replies = toReplies(body, most)
      const usage = toUsage(body, replies)
      const ids = replies.map((_, index) => toCallId(call, index))
      if (!body.stream) {
        const choices = replies.map((reply, index) => toChoice(reply, index, ids[index] ?? ''))
        return { kind: 'whole', completion: { choices }, usage }
      }
      const paceMs = target.upstream.options.pace_ms ?? DEFAULT_PACE_MS
      const batches = toBatches(replies, ids, usage)
      return {
        kind: 'stream',
        events: { [Symbol.asyncIterator]: () => createPacedIterator(batches, paceMs, call.signal) },
      }
    },
  }
}

const aborted = () => new UpstreamError('aborted', 'The call to the demo model was given up.', { retryable: false })

/** Unique among all calls, so that a conversation may hold several. */
const toCallId = ({ callId }: BackendCall, index: number) =>
  `call_${Bun.hash(`${callId}/${index}`).toString(16).padStart(16, '0')}`

function toChoice({ call, tokens, finish }: Reply, index: number, id: string): Choice {
  const text = tokens.join('')
  const message: Choice['message'] =
    call === null
      ? { role: 'assistant', content: text, refusal: null }
      : {
          role: 'assistant',
          content: null,
          refusal: null,
          tool_calls: [{ id, type: 'function', function: { name: call, arguments: text } }],
        }
  return { index, message, finish_reason: finish, logprobs: null }
}

/** The stream as the contract's section 3b orders it; the choices of a request advance side by side. */
function* toBatches(replies: readonly Reply[], ids: readonly string[], usage: Usage): Generator<AnswerEvent[]> {
  yield replies.map((reply, index) => toEvent(index, toFirstDelta(reply, ids[index] ?? '')))
  const longest = Math.max(...replies.map(({ tokens }) => tokens.length))
  for (let at = 0; at < longest; at += 1) {
    const batch: AnswerEvent[] = []
    for (const [index, { call, tokens }] of replies.entries()) {
      const token = tokens[at]
      if (token === undefined) continue
      batch.push(
        toEvent(
          index,
          call === null ? { content: token } : { tool_calls: [{ index: 0, function: { arguments: token } }] },
        ),
      )
    }
    yield batch
  }
  yield [...replies.map(({ finish }, index) => toEvent(index, {}, finish)), { usage }, { done: true }]
}

function toFirstDelta({ call }: Reply, id: string): ChunkChoice['delta'] {
  if (call === null) return { role: 'assistant', content: '', refusal: null }
  return {
    role: 'assistant',
    content: null,
    tool_calls: [{ index: 0, id, type: 'function', function: { name: call, arguments: '' } }],
  }
}

const toEvent = (
  index: number,
  delta: ChunkChoice['delta'],
  finish: ChunkChoice['finish_reason'] = null,
): AnswerEvent => ({
  chunk: { choices: [{ index, delta, finish_reason: finish, logprobs: null }] },
})

/**
 * Hands out one batch a pause, the first at once. Written by hand: a generator could not be left in the middle of a
 * pause. An abort ends the iteration with a `failure`, `return()` without a word; either at once and without a timer
 * left behind.
 */
function createPacedIterator(
  batches: Iterator<AnswerEvent[]>,
  paceMs: number,
  signal: AbortSignal,
): AsyncIterator<AnswerEvent[]> {
  const END: IteratorResult<AnswerEvent[]> = { done: true, value: undefined }
  let state: 'fresh' | 'running' | 'ended' = 'fresh'
  let waiting: ((result: IteratorResult<AnswerEvent[]>) => void) | null = null
  let timer: Timer | undefined

  const deliver = (result: IteratorResult<AnswerEvent[]>) => {
    const resolve = waiting
    waiting = null
    resolve?.(result)
  }
  const end = () => {
    state = 'ended'
    clearTimeout(timer)
    signal.removeEventListener('abort', onAbort)
  }
  const onAbort = () => {
    if (waiting === null) return
    end()
    deliver({ done: false, value: [{ failure: aborted() }] })
  }
  const advance = (): IteratorResult<AnswerEvent[]> => {
    const next = batches.next()
    if (next.done) end()
    return next.done ? END : next
  }
  const onTurn = () => {
    if (waiting !== null) deliver(advance())
  }

  return {
    async next() {
      if (state === 'ended') return END
      if (signal.aborted) {
        end()
        return { done: false, value: [{ failure: aborted() }] }
      }
      if (state === 'fresh') {
        state = 'running'
        signal.addEventListener('abort', onAbort)
        return advance()
      }
      return new Promise((resolve) => {
        waiting = resolve
        if (paceMs > 0) timer = setTimeout(onTurn, paceMs)
        else setImmediate(onTurn)
      })
    },
    async return() {
      end()
      deliver(END)
      return END
    },
  }
}
