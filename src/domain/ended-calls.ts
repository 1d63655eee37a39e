/**
 * What a call that is about to be made says of those before it: which of them have ended, and what they came to. It is on record
 * with that call, so that a kill charges for the others alone (`store/ledger-abandoned.ts`). Pure.
 */

/** The columns that hold what a call came to, by their fields. */
const COLUMNS = {
  promptTokens: 'prompt_tokens',
  cachedTokens: 'cached_tokens',
  cacheWriteTokens: 'cache_write_tokens',
  cacheWrite1hTokens: 'cache_write_1h_tokens',
  completionTokens: 'completion_tokens',
  reasoningTokens: 'reasoning_tokens',
  audioPromptTokens: 'audio_prompt_tokens',
  audioCompletionTokens: 'audio_completion_tokens',
  imageTokens: 'image_tokens',
  imageCompletionTokens: 'image_completion_tokens',
  toolPromptTokens: 'tool_prompt_tokens',
  webSearches: 'web_searches',
  computeMs: 'compute_ms',
  costNanoUsd: 'cost_nano_usd',
} as const

export type Counts = Record<keyof typeof COLUMNS, number>

/** What of a request is the sum over its calls. */
export const COUNTS = Object.keys(COLUMNS) as (keyof Counts)[]

/** By what else than its counts a call is charged: columns of its row. */
export interface Terms {
  /** How it was served; null for as most are. */
  mode: string | null
  /** What its upstream charged by its own word, where that counts. */
  reportedNanoUsd: number | null
  /** 1 where something of it has no price. */
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

/** `failed`: before its first word, which costs nothing. */
export interface EndedCall {
  number: number
  status: 'ok' | 'failed'
  counts: Counts
  terms: Terms
}

/** Writes the column `ended_before`: JSON under the names that the columns of `calls` have, without those that are 0. Null for none. */
export const toEndedBefore = (ended: readonly EndedCall[]): string | null =>
  ended.length === 0 ? null : JSON.stringify(ended.map(toWritten))

const toWritten = ({ number, status, counts, terms: { mode, reportedNanoUsd, unpriced } }: EndedCall) => ({
  number,
  status,
  ...(mode === null ? {} : { mode }),
  ...(reportedNanoUsd === null ? {} : { reported_nano_usd: reportedNanoUsd }),
  ...(unpriced === 0 ? {} : { unpriced }),
  ...Object.fromEntries(COUNTS.filter((field) => counts[field] > 0).map((field) => [COLUMNS[field], counts[field]])),
})

/** Reads the column. Of what was written by `toEndedBefore` alone, and of journals from before it, which have none. */
export function fromEndedBefore(text: string | null | undefined): EndedCall[] {
  const written: Written[] = JSON.parse(text ?? '[]')
  return written.map(({ number, status, mode, reported_nano_usd: reported, unpriced, ...columns }) => ({
    number,
    status,
    counts: toCounts(columns),
    terms: { mode: mode ?? null, reportedNanoUsd: reported ?? null, unpriced: unpriced ?? 0 },
  }))
}

type Written = Record<string, number> & Pick<EndedCall, 'number' | 'status'> & WrittenTerms
interface WrittenTerms {
  mode?: string
  reported_nano_usd?: number
  unpriced?: number
}

const toCounts = (columns: Readonly<Record<string, number>>): Counts =>
  Object.fromEntries(COUNTS.map((field) => [field, columns[COLUMNS[field]] ?? 0])) as Counts

/** What all of these come to. */
export function sumOfCounts(all: readonly Counts[]): Counts {
  return Object.fromEntries(
    COUNTS.map((field) => [field, all.reduce((sum, counts) => sum + counts[field], 0)]),
  ) as Counts
}
