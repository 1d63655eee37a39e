/** Counts that a call is charged by, and their totals per request. */

import { keysOf } from './json.ts'
import { addUnits, SUMMED_UNITS, type SummedUnit, UNIT_NAMES, type UnitCounts, withUnits } from './units.ts'
import type { Usage } from './usage.ts'

export interface TokenCounts extends UnitCounts {
  promptTokens: number
  cachedTokens: number
  cacheWriteTokens: number
  /** Part of `cacheWriteTokens` with a lifetime of one hour. */
  cacheWrite1hTokens: number
  completionTokens: number
  reasoningTokens: number
  audioPromptTokens: number
  audioCompletionTokens: number
  /** Images in prompt and response. */
  imageTokens: number
  /** Part of `imageTokens` in the response. */
  imageCompletionTokens: number
  /** Part of the prompt that provider tools added. */
  toolPromptTokens: number
  webSearches: number
}

export interface Counts extends TokenCounts {
  /** For models with a price per second. */
  computeMs: number
  costNanoUsd: number
}

export const NO_COUNTS = {
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
} as const satisfies Counts

const REQUIRED = keysOf(NO_COUNTS)
export const COUNTS: readonly Exclude<keyof Counts, 'countedBy'>[] = [...new Set([...REQUIRED, ...UNIT_NAMES])]

type TokenCount = Exclude<keyof typeof NO_COUNTS, 'computeMs' | 'costNanoUsd'>
const isToken = (name: keyof typeof NO_COUNTS): name is TokenCount => name !== 'computeMs' && name !== 'costNanoUsd'
/** Counts in hourly and daily totals. */
export type SummedCount = TokenCount | SummedUnit
export const SUMMED_COUNTS: readonly SummedCount[] = [...new Set([...REQUIRED.filter(isToken), ...SUMMED_UNITS])]

type UsageCounts = Omit<Counts, 'costNanoUsd'>

/**
 * Written field by field, since a loop over a table takes ten times as long and every request needs it. A new kind of usage does not compile until it has a
 * column.
 */
export const toCounts = (usage: Usage): UsageCounts => withUnits(toOwnCounts(usage), usage)

const toOwnCounts = (usage: Usage): UsageCounts => ({
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

export const toUsage = (counts: Readonly<UsageCounts>): Usage => withUnits(toOwnUsage(counts), counts)

const toOwnUsage = (counts: Readonly<UsageCounts>): Usage => ({
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

export function sumOfCounts(all: readonly Counts[]): Counts {
  const sum: Counts = { ...NO_COUNTS }
  for (const counts of all) {
    for (const field of REQUIRED) sum[field] += counts[field]
    addUnits(sum, counts)
  }
  return sum
}

/** What decides a call's charge, besides its counts. */
export interface Terms {
  /** Such as `flex`; null for the standard mode. */
  mode: string | null
  /** Cost reported by the upstream, if that is charged. */
  reportedNanoUsd: number | null
  /** 1 if some usage, or the mode, has no price. */
  unpriced: number
}

export const USUAL_TERMS: Terms = { mode: null, reportedNanoUsd: null, unpriced: 0 }

/** The last call's mode, and the sum of reported costs. */
export function joinTerms(all: readonly Terms[]): Terms {
  const reported = all.flatMap(({ reportedNanoUsd }) => reportedNanoUsd ?? [])
  return {
    mode: all.at(-1)?.mode ?? null,
    reportedNanoUsd: reported.length === 0 ? null : reported.reduce((sum, each) => sum + each, 0),
    unpriced: all.some(({ unpriced }) => unpriced > 0) ? 1 : 0,
  }
}
