/** Files and batches as they are stored, and what the lines of a batch are. */
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

/** `hidden`: of a batch of Anthropic's API, which has no files. */
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
  /** Of the failed ones: those that were not executed, since the batch was cancelled or expired. */
  cut: number
}

/** Codes of their errors. */
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
  /** From 1; null if it is not about a line. */
  line: number | null
}

export interface StoredBatch {
  /** With its API's prefix and 32 hex digits. */
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
  /** Files that exist once the batch has ended, unless they are empty. */
  outputFileId: string
  errorFileId: string
  /** Set at the end: whether they exist. */
  hasOutput: boolean
  hasErrors: boolean
  /** Seconds that they are kept. */
  keepOutputS: number
  metadata: Readonly<Record<string, string>> | null
  /** The model that all lines name; null if they differ. */
  model: string | null
  /** When each state began, ms. */
  at: Partial<Record<BatchState, number>>
  counts: BatchCounts
  usage: BatchUsage
  problems: readonly BatchProblem[]
  /** What a runner other than the gateway keeps, such as IDs at an upstream. */
  remote: JsonObject | null
}

/** The key's request of a line. */
export interface BatchLine {
  /** From 0. */
  number: number
  customId: string
  /** JSON on one line, as the client wrote it: parsed and written again, large numbers would change. */
  body: string
}

export interface LineResult {
  status: number
  /** JSON. */
  body: string
  /** Of the ledger's row; null if the line never was a request. */
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
