/**
 * Batches that the upstream itself runs, at its batch price. They are submitted as a whole and polled, and results are read by line, in
 * any order. Lines have our own numbers, so that no text of a client is used as an ID upstream.
 */

import type { DialectName } from '../../domain/dialects.ts'
import type { UpstreamError } from '../../domain/error.ts'
import type { JsonObject } from '../../domain/json.ts'
import type { BatchApi } from './api.ts'

export interface BatchLine {
  number: number
  /** The same JSON as for a single request. */
  body: string
}

export interface Submission {
  /** Our mark, 12 hex digits. Identifies the lines, and finds a submission whose response was lost. */
  tag: string
  /** Path of each request, such as `/chat/completions`. */
  path: string
  lines: readonly BatchLine[]
}

export interface LostSubmission {
  tag: string
  /** Number of lines. */
  lines: number
  sinceMs: number
  /** True if an ID belongs to another submission. */
  isTaken(id: string): boolean
}

/**
 * - `running`: also if the batch has ended, but its results can't be read yet.
 * - `ended`: `sources` are paths of its results, and `results` is their minimum number. `missing` says why other lines have no result.
 *   Those cost nothing.
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
  /** Returns the upstream's ID. An error with a status below 500 means it wasn't accepted. After others, use `find`. */
  submit(api: BatchApi, submission: Submission): Promise<string>
  /** Finds the ID of a submission whose response was lost; null if the submission never arrived. */
  find(api: BatchApi, sent: LostSubmission): Promise<string | null>
  look(api: BatchApi, id: string): Promise<BatchState>
  /** Reads one source. Skips lines that aren't from this submission. */
  results(api: BatchApi, source: string, tag: string): AsyncIterable<LineResult>
  /** Cancels the batch. Lines that are done are kept and charged. */
  cancel(api: BatchApi, id: string): Promise<void>
}

const PROTOCOLS: Partial<Record<DialectName, () => Promise<BatchProtocol>>> = {
  openai: async () => (await import('./openai.ts')).openAiBatches,
  anthropic: async () => (await import('./anthropic.ts')).anthropicBatches,
}

/** The protocol, loaded on first use; null if upstreams of the dialect have no batches. */
export const batchesOf = async (dialect: DialectName): Promise<BatchProtocol | null> =>
  (await PROTOCOLS[dialect]?.()) ?? null

export const toCustomId = (tag: string, number: number): string => `${tag}-${number}`

/** The number of a line; null if the line isn't from this submission. */
export function toNumber(customId: unknown, tag: string): number | null {
  const [, mark, digits] = typeof customId === 'string' ? (/^(\w{1,40})-(\d{1,9})$/.exec(customId) ?? []) : []
  return mark === tag ? Number(digits) : null
}

const ID = /^[\w-]{1,200}$/

/** A valid ID, which is safe in a path. Null for other values. */
export const toIdOf = (value: unknown): string | null => (typeof value === 'string' && ID.test(value) ? value : null)
