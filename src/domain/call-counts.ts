/** What is counted of a call, and by what else it is charged; of a request, what its calls come to. Pure. */

import { keysOf } from './json.ts'
import type { Usage } from './usage.ts'

/** What a report counts of a call beside its cost. */
export interface TokenCounts {
  promptTokens: number
  cachedTokens: number
  cacheWriteTokens: number
  /** Those of them that were to be kept for an hour. */
  cacheWrite1hTokens: number
  completionTokens: number
  reasoningTokens: number
  audioPromptTokens: number
  audioCompletionTokens: number
  /** Of images, in the prompt and in the answer. */
  imageTokens: number
  /** Those of them that are in the answer. */
  imageCompletionTokens: number
  /** Of the prompt, what tools of the provider read into it. */
  toolPromptTokens: number
  /** Of the web, by the provider: a fee each. */
  webSearches: number
}

/** What of a request is the sum over its calls. */
export interface Counts extends TokenCounts {
  /** How long a server was at work on it, where that has a price. */
  computeMs: number
  costNanoUsd: number
}

export const NO_COUNTS: Readonly<Counts> = {
  promptTokens: 0,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  cacheWrite1hTokens: 0,
  completionTokens: 0,
  reasoningTokens: 0,
  audioPromptTokens: 0,
  audioCompletionTokens: 0,
  imageTokens: 0,
  imageCompletionTokens: 0,
  toolPromptTokens: 0,
  webSearches: 0,
  computeMs: 0,
  costNanoUsd: 0,
}

export const COUNTS = keysOf(NO_COUNTS)

type UsageCounts = Omit<Counts, 'costNanoUsd'>

/**
 * The columns of what was used. Field by field: every request that ends goes through it, and a loop over a table takes ten times as long.
 * A further kind of usage does not compile in `toUsage` before it has a column, which does not compile here.
 */
export const toCounts = (usage: Usage): UsageCounts => ({
  promptTokens: usage.prompt,
  cachedTokens: usage.cacheRead,
  cacheWriteTokens: usage.cacheWrite + usage.cacheWrite1h,
  cacheWrite1hTokens: usage.cacheWrite1h,
  completionTokens: usage.completion,
  reasoningTokens: usage.reasoning,
  audioPromptTokens: usage.audioPrompt,
  audioCompletionTokens: usage.audioCompletion,
  imageTokens: usage.imagePrompt + usage.imageCompletion,
  imageCompletionTokens: usage.imageCompletion,
  toolPromptTokens: usage.toolPrompt,
  webSearches: usage.webSearches,
  computeMs: usage.computeMs,
})

/** The usage that columns hold. */
export const toUsage = (counts: Readonly<UsageCounts>): Usage => ({
  prompt: counts.promptTokens,
  cacheRead: counts.cachedTokens,
  cacheWrite: counts.cacheWriteTokens - counts.cacheWrite1hTokens,
  cacheWrite1h: counts.cacheWrite1hTokens,
  audioPrompt: counts.audioPromptTokens,
  imagePrompt: counts.imageTokens - counts.imageCompletionTokens,
  completion: counts.completionTokens,
  reasoning: counts.reasoningTokens,
  audioCompletion: counts.audioCompletionTokens,
  imageCompletion: counts.imageCompletionTokens,
  toolPrompt: counts.toolPromptTokens,
  webSearches: counts.webSearches,
  computeMs: counts.computeMs,
})

/** What all of these come to. */
export function sumOfCounts(all: readonly Counts[]): Counts {
  const sum: Counts = { ...NO_COUNTS }
  for (const counts of all) for (const field of COUNTS) sum[field] += counts[field]
  return sum
}

/** By what else than its counts a call is charged: columns of its row. */
export interface Terms {
  /** How its upstream said that it served it, such as `flex`; null for as most are. */
  mode: string | null
  /** What its upstream charged by its own word, where that counts: then it is the cost. */
  reportedNanoUsd: number | null
  /** 1 where something of it has no price, or the mode has none: the cost may not be what it was. */
  unpriced: number
}

export const USUAL_TERMS: Terms = { mode: null, reportedNanoUsd: null, unpriced: 0 }

/** The terms of several calls as the row of their request says them: the mode of the last, and what all of those charged that said so. */
export function joinTerms(all: readonly Terms[]): Terms {
  const reported = all.flatMap(({ reportedNanoUsd }) => reportedNanoUsd ?? [])
  return {
    mode: all.at(-1)?.mode ?? null,
    reportedNanoUsd: reported.length === 0 ? null : reported.reduce((sum, each) => sum + each, 0),
    unpriced: all.some(({ unpriced }) => unpriced > 0) ? 1 : 0,
  }
}
