/**
 * Usage where the upstream gave none, or not yet: an estimate from bytes, always marked as one. Exact counting in a
 * worker goes here.
 */
import { tokensOfBytes } from '../limits/estimate.ts'
import type { Usage } from '../wire/usage.ts'

/** Estimates the usage of an answer from the prompt's estimate and the UTF-8 bytes that the upstream sent. */
export function estimateUsage(promptTokens: number, answerBytes: number, reasoningBytes: number): Usage {
  const reasoning = tokensOfBytes(reasoningBytes)
  return {
    prompt: promptTokens,
    cacheRead: 0,
    cacheWrite: 0,
    cacheWrite1h: 0,
    completion: tokensOfBytes(answerBytes) + reasoning,
    reasoning,
    raw: null,
  }
}
