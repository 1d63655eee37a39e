/** Stored files and batches, and the lines of a batch. */
import type { JsonObject } from './json.ts'
import { ENDPOINT_PATHS, type Endpoint } from './task.ts'
import { DAY_MS } from './time.ts'

/** Their requests and responses are JSON. */
export const BATCH_ENDPOINTS = [
  'chat',
  'responses',
  'messages',
  'completions',
  'embeddings',
  'rerank',
  'moderations',
  'images',
] as const satisfies readonly Endpoint[]
export type BatchEndpoint = (typeof BATCH_ENDPOINTS)[number]

export const toBatchEndpoint = (path: unknown): BatchEndpoint | null =>
  BATCH_ENDPOINTS.find((endpoint) => ENDPOINT_PATHS[endpoint] === path) ?? null

/** `hidden`: belongs to a batch of Anthropic's API, which has no files. */
export type FilePurpose = 'batch' | 'batch_output' | 'hidden'

export interface StoredFile {
  /** `file-` and 32 hex digits. */
  id: string
  keyId: string
  purpose: FilePurpose
  filename: string
  bytes: number
  createdMs: number
  /** Null: never. */
  expiresMs: number | null
}

export const FINAL_STATES = ['completed', 'failed', 'expired', 'cancelled'] as const
export const BATCH_STATES = ['validating', 'in_progress', 'finalizing', 'cancelling', ...FINAL_STATES] as const
export type FinalState = (typeof FINAL_STATES)[number]
export type BatchState = (typeof BATCH_STATES)[number]

export const isFinal = (state: BatchState): state is FinalState => FINAL_STATES.some((final) => final === state)

export interface BatchCounts {
  total: number
  completed: number
  failed: number
  /** Failed lines that were not run, since the batch was canceled or expired. */
  cut: number
}

/** Error codes of such lines. */
export const CUT_CODES: ReadonlySet<string> = new Set(['batch_cancelled', 'batch_expired'])

/** Tokens of all lines. */
export interface BatchUsage {
  input: number
  cached: number
  output: number
  reasoning: number
}

export const NO_BATCH_USAGE: BatchUsage = { input: 0, cached: 0, output: 0, reasoning: 0 }

export const addBatchUsage = (a: BatchUsage, b: BatchUsage): BatchUsage => ({
  input: a.input + b.input,
  cached: a.cached + b.cached,
  output: a.output + b.output,
  reasoning: a.reasoning + b.reasoning,
})

/** Why a batch failed as a whole. */
export interface BatchProblem {
  code: string
  message: string
  param: string | null
  /** From 1; null if it doesn't concern a line. */
  line: number | null
}

export interface StoredBatch {
  /** The API's prefix and 32 hex digits. */
  id: string
  keyId: string
  api: 'openai' | 'anthropic'
  endpoint: BatchEndpoint
  inputFileId: string
  state: BatchState
  createdMs: number
  /** End of its completion window. */
  expiresMs: number
  detail: BatchDetail
}

export interface BatchDetail {
  /** IDs of the result files, which exist once the batch has ended, unless empty. */
  outputFileId: string
  errorFileId: string
  /** Set at the end: whether the files exist. */
  hasOutput: boolean
  hasErrors: boolean
  /** Retention of the result files, in seconds. */
  keepOutputS: number
  metadata: Readonly<Record<string, string>> | null
  /** The model that all lines name; null if they differ. */
  model: string | null
  /** Start of each state, ms. */
  at: Partial<Record<BatchState, number>>
  counts: BatchCounts
  usage: BatchUsage
  problems: readonly BatchProblem[]
  /** State of a runner other than the gateway, such as IDs at an upstream. */
  remote: JsonObject | null
}

/** A request of the key. */
export interface BatchLine {
  /** From 0. */
  number: number
  customId: string
  /** JSON on one line, as the client wrote it: parsing and rewriting would change large numbers. */
  body: string
}

export interface LineResult {
  status: number
  /** JSON. */
  body: string
  /** ID of the ledger row; null if the line never became a request. */
  requestId: string | null
  usage: BatchUsage
}

/** For lines without a response. */
export interface LineError {
  code: string
  message: string
}

export const MAX_FILE_BYTES = 64 * 1024 * 1024
export const COMPLETION_WINDOW = '24h'
export const WINDOW_MS = DAY_MS
export const KEEP_S = (30 * DAY_MS) / 1_000
