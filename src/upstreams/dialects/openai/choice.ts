/**
 * Reads one choice of an answer, streamed or whole: content that is all a delta says, as nearly every one does, and why the
 * choice ended. Any other delta is `delta.ts`'s to read. Pure.
 */
import type { AnswerEvent } from '../../../domain/events.ts'
import { asObject, type JsonObject } from '../../../domain/json.ts'
import type { Expected } from '../../backend.ts'
import { DeltaDecoder } from './delta.ts'
import { toLogprobs } from './logprobs.ts'

/** What upstreams call an end; what was called decides which of its reasons clients read. */
const REASONS: Record<string, 'stop' | 'length' | 'content_filter'> = {
  stop: 'stop',
  tool_calls: 'stop',
  tool_use: 'stop',
  function_call: 'stop',
  length: 'length',
  max_tokens: 'length',
  max_output_tokens: 'length',
  max_length: 'length',
  model_length: 'length',
  model_context_window_exceeded: 'length',
  content_filter: 'content_filter',
  content_filtered: 'content_filter',
  safety: 'content_filter',
  sensitive: 'content_filter',
}

/** Words for an end that is no end of an answer. */
const FAILURES = new Set(['error', 'abort', 'aborted', 'network_error', 'insufficient_system_resource'])

/** Whether a choice says that its upstream failed. */
export function isFailed(choice: unknown): boolean {
  const { finish_reason: reason, error } = asObject(choice) ?? {}
  return Boolean(error) || (typeof reason === 'string' && FAILURES.has(reason.toLowerCase()))
}

export class ChoiceDecoder {
  readonly #index: number
  readonly #expected: Expected
  /** Made where it is needed: most choices are content alone. */
  #deltas: DeltaDecoder | null = null
  #reason: 'stop' | 'length' | 'content_filter' | null = null
  /** Whether its upstream has named it, if only by a role. */
  isNamed = false
  /** Whether it has a finish reason, if only one that nobody knows. */
  isFinished = false

  constructor(expected: Expected, index: number) {
    this.#index = index
    this.#expected = expected
    // Thoughts may be in its content from the first piece on.
    if (expected.target.upstream.options.think_tags) this.#deltas = new DeltaDecoder(expected, index)
  }

  /** Whether a piece of content that is well-formed goes out exactly as it comes. */
  get passes(): boolean {
    return this.#deltas === null || this.#deltas.passes
  }

  /**
   * Takes a choice, and the delta or message that it holds. Returns whether that was a piece of content, which went out as
   * it came, and nothing else.
   */
  take(choice: JsonObject, said: unknown, out: AnswerEvent[]): boolean {
    this.isNamed = true
    const delta = asObject(said) ?? {}
    const logprobs = this.#expected.logprobs ? toLogprobs(choice.logprobs) : null
    const content = logprobs ? null : toPlainText(delta)
    const isPlain = content !== null && content !== '' && this.passes && content.isWellFormed()
    if (isPlain) out.push({ kind: 'text', choice: this.#index, text: content })
    else if (content !== '') {
      this.#deltas ??= new DeltaDecoder(this.#expected, this.#index)
      this.#deltas.take(delta, logprobs, out)
    }
    return !this.#takeReason(choice.finish_reason) && isPlain
  }

  /** What was held back, once nothing more comes, and why it ended: calls make `tool_calls`, whatever an upstream says. */
  end(out: AnswerEvent[]): void {
    const cut = this.#reason === 'length' || this.#reason === 'content_filter' ? this.#reason : null
    const called = this.#deltas?.end(cut === null, out)
    out.push({ kind: 'finish', choice: this.#index, reason: cut ?? called ?? 'stop' })
  }

  /** Returns whether it says that the choice ended, in any word: some servers write '' or "null" into every chunk. */
  #takeReason(reason: unknown): boolean {
    if (typeof reason !== 'string' || reason === '' || reason === 'null') return false
    this.isFinished = true
    // The first one that means something counts.
    this.#reason ??= REASONS[reason.toLowerCase()] ?? null
    return true
  }
}

/** The content of a delta or message that says nothing else, as nearly all do; null for any other. */
function toPlainText(said: JsonObject): string | null {
  for (const key in said) if (key !== 'content' && key !== 'role' && said[key] != null) return null
  const { content } = said
  return typeof content === 'string' ? content : content == null ? '' : null
}
