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
  costNanoUsd: 'cost_nano_usd',
} as const

export type Counts = Record<keyof typeof COLUMNS, number>

/** What of a request is the sum over its calls. */
export const COUNTS = Object.keys(COLUMNS) as (keyof Counts)[]

/** `failed`: before its first word, which costs nothing. */
export interface EndedCall {
  number: number
  status: 'ok' | 'failed'
  counts: Counts
}

/** Writes the column `ended_before`: JSON under the names that the columns of `calls` have, without those that are 0. Null for none. */
export const toEndedBefore = (ended: readonly EndedCall[]): string | null =>
  ended.length === 0 ? null : JSON.stringify(ended.map(toWritten))

const toWritten = ({ number, status, counts }: EndedCall) => ({
  number,
  status,
  ...Object.fromEntries(COUNTS.filter((field) => counts[field] > 0).map((field) => [COLUMNS[field], counts[field]])),
})

/** Reads the column. Of what was written by `toEndedBefore` alone, and of journals from before it, which have none. */
export function fromEndedBefore(text: string | null | undefined): EndedCall[] {
  const written: (Record<string, number> & { number: number; status: EndedCall['status'] })[] = JSON.parse(text ?? '[]')
  return written.map(({ number, status, ...columns }) => ({ number, status, counts: toCounts(columns) }))
}

const toCounts = (columns: Readonly<Record<string, number>>): Counts =>
  Object.fromEntries(COUNTS.map((field) => [field, columns[COLUMNS[field]] ?? 0])) as Counts

/** What all of these come to. */
export function sumOfCounts(all: readonly Counts[]): Counts {
  return Object.fromEntries(
    COUNTS.map((field) => [field, all.reduce((sum, counts) => sum + counts[field], 0)]),
  ) as Counts
}
