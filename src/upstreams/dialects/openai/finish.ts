/** Why a choice ended, in the five words that clients know, from whatever word an upstream has for it. Pure. */
import type { FinishReason } from '../../../domain/events.ts'

const REASONS: Record<string, FinishReason> = {
  stop: 'stop',
  length: 'length',
  max_tokens: 'length',
  max_output_tokens: 'length',
  max_length: 'length',
  model_length: 'length',
  tool_calls: 'tool_calls',
  tool_use: 'tool_calls',
  function_call: 'function_call',
  content_filter: 'content_filter',
  content_filtered: 'content_filter',
  safety: 'content_filter',
  sensitive: 'content_filter',
}

/** Whether a `finish_reason` says that a choice ended, in any word: some servers write '' or "null" into every chunk. */
export const isFinish = (reason: unknown): boolean => typeof reason === 'string' && reason !== '' && reason !== 'null'

/** Reads an upstream's word; null for one that nobody knows. */
export const toKnownReason = (value: unknown): FinishReason | null =>
  typeof value === 'string' ? (REASONS[value.toLowerCase()] ?? null) : null

/** Whether an answer was broken off rather than ended: then the last call in it may be half a call. */
export const isTruncated = (reason: FinishReason | null): boolean => reason === 'length' || reason === 'content_filter'

/** Decides by what was really said: calls make `tool_calls`, and without any there is no such reason. */
export function toFinishReason(reason: FinishReason | null, called: 'tools' | 'function' | 'nothing'): FinishReason {
  if (reason === 'length' || reason === 'content_filter') return reason
  if (called === 'tools') return 'tool_calls'
  return called === 'function' ? 'function_call' : 'stop'
}
