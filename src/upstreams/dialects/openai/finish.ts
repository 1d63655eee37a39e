/** Why a choice ended, in the contract's five words (section 3a), from whatever word an upstream has for it. Pure. */
import type { FinishReason } from '../../../domain/answer.ts'

const WORDS: Record<string, FinishReason> = {
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

/** Reads an upstream's word; null for one that nobody knows. */
export const toFinishWord = (value: unknown): FinishReason | null =>
  typeof value === 'string' ? (WORDS[value.toLowerCase()] ?? null) : null

/** Whether an answer was broken off rather than ended: then the last call in it may be half a call. */
export const isCutShort = (word: FinishReason | null): boolean => word === 'length' || word === 'content_filter'

/** Decides by what was really said: calls make `tool_calls`, and without any there is no such reason (check 3). */
export function toFinishReason(word: FinishReason | null, called: 'tools' | 'function' | 'nothing'): FinishReason {
  if (word === 'length' || word === 'content_filter') return word
  if (called === 'tools') return 'tool_calls'
  return called === 'function' ? 'function_call' : 'stop'
}
