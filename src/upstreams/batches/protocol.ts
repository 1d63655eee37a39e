/**
 * Batches of an upstream's own, at its price for them: submitted as a whole, asked for now and then, and read line by line in any order.
 * Its lines have numbers of ours, so that nothing a client wrote names anything there.
 */

import type { DialectName } from '../../domain/dialects.ts'
import type { UpstreamError } from '../../domain/error.ts'
import type { JsonObject } from '../../domain/json.ts'
import type { BatchApi } from './api.ts'

export interface BatchLine {
  number: number
  /** JSON, as a single request would send it. */
  body: string
}

export interface Submission {
  /** Ours: finds a submission whose response was lost, and marks its lines. 12 hex digits. */
  tag: string
  /** Of each request, such as `/chat/completions`. */
  path: string
  lines: readonly BatchLine[]
}

export interface LostSubmission {
  tag: string
  /** How many. */
  lines: number
  sinceMs: number
  /** Whether an ID belongs to another submission. */
  isTaken(id: string): boolean
}

/**
 * - `running`: also if it has ended, but its results can't be read yet.
 * - `ended`: `sources` are paths of its results, `results` how many it counts at least; `missing` tells why other lines have none, which
 *   cost nothing.
 */
export type BatchState =
  | { phase: 'running' }
  | { phase: 'ended'; sources: readonly string[]; results: number; missing: Unanswered }

export interface Unanswered {
  code: string
  message: string
}

export interface LineResult {
  number: number
  outcome: LineOutcome
}

export type LineOutcome =
  /** A whole response. `text` is its source. */
  | { kind: 'answer'; json: JsonObject; text: string; requestId: string | null }
  | { kind: 'failed'; error: UpstreamError; requestId: string | null }
  | ({ kind: 'unanswered' } & Unanswered)

/** All throw an UpstreamError. */
export interface BatchProtocol {
  readonly maxLines: number
  readonly maxBytes: number
  /** Returns the upstream's ID. A status below 500 took nothing; after other errors it may have been taken: `find` tells. */
  submit(api: BatchApi, submission: Submission): Promise<string>
  /** Of a submission whose response was lost; null if it never arrived. */
  find(api: BatchApi, sent: LostSubmission): Promise<string | null>
  look(api: BatchApi, id: string): Promise<BatchState>
  /** Of one source. Skips lines that aren't of this submission. */
  results(api: BatchApi, source: string, tag: string): AsyncIterable<LineResult>
  /** Its lines so far are kept and charged. */
  cancel(api: BatchApi, id: string): Promise<void>
}

const PROTOCOLS: Partial<Record<DialectName, () => Promise<BatchProtocol>>> = {
  openai: async () => (await import('./openai.ts')).openAiBatches,
  anthropic: async () => (await import('./anthropic.ts')).anthropicBatches,
}

/** Loads it with its first use; null if upstreams of the dialect have no batches. */
export const batchesOf = async (dialect: DialectName): Promise<BatchProtocol | null> =>
  (await PROTOCOLS[dialect]?.()) ?? null

export const toCustomId = (tag: string, number: number): string => `${tag}-${number}`

/** Null for a line that isn't ours. */
export function toNumber(customId: unknown, tag: string): number | null {
  const [, mark, digits] = typeof customId === 'string' ? (/^(\w{1,40})-(\d{1,9})$/.exec(customId) ?? []) : []
  return mark === tag ? Number(digits) : null
}

const ID = /^[\w-]{1,200}$/

/** Part of a path, so nothing else may be in it. Null for other values. */
export const toIdOf = (value: unknown): string | null => (typeof value === 'string' && ID.test(value) ? value : null)
