/** Why an answer of Gemini's ended, and what of that is a failure. Pure. */
import { UpstreamError } from '../../../domain/error.ts'
import type { AnswerOrigin } from '../../../domain/events.ts'

export type Reason = 'stop' | 'length' | 'content_filter'

/** Other words mean that it ended, and no more. */
const REASONS = new Map<string, Reason>(
  Object.entries({
    MAX_TOKENS: 'length',
    CONTINUATION: 'length',
    SAFETY: 'content_filter',
    RECITATION: 'content_filter',
    LANGUAGE: 'content_filter',
    BLOCKLIST: 'content_filter',
    PROHIBITED_CONTENT: 'content_filter',
    SPII: 'content_filter',
    MODEL_ARMOR: 'content_filter',
    IMAGE_SAFETY: 'content_filter',
    IMAGE_PROHIBITED_CONTENT: 'content_filter',
    IMAGE_RECITATION: 'content_filter',
  } as const),
)

export const toReason = (word: string): Reason => REASONS.get(word) ?? 'stop'

/** The model went wrong about its calls: what it wrote is no answer, and another try may be. */
const FAILURES = new Set([
  'MALFORMED_FUNCTION_CALL',
  'UNEXPECTED_TOOL_CALL',
  'TOO_MANY_TOOL_CALLS',
  'MALFORMED_RESPONSE',
  'MISSING_THOUGHT_SIGNATURE',
])

/** @param detail what the upstream says of it, fit for clients. */
export const toFailure = (word: string, detail: string): UpstreamError | null =>
  FAILURES.has(word) ? new UpstreamError('broken', `ended its answer with ${word}${detail && `: ${detail}`}`) : null

const TIERS = new Map<string, AnswerOrigin['service_tier']>(
  Object.entries({
    standard: 'default',
    flex: 'flex',
    priority: 'priority',
    ON_DEMAND: 'default',
    ON_DEMAND_FLEX: 'flex',
    ON_DEMAND_PRIORITY: 'priority',
  } as const),
)

/** The tier that served an answer as clients read it, from the words of AI Studio or of Vertex; undefined for any other. */
export const toTier = (word: string): AnswerOrigin['service_tier'] => TIERS.get(word)
