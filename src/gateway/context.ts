/**
 * Whether a prompt fits into a context. Text of fewer bytes than the context has tokens always does; only what is in doubt
 * is counted, in the counter's worker. Pure.
 */
import { BYTES_PER_TOKEN } from '../tokens/estimate.ts'

/** A model's own tokenizer may count less than ours by this factor: what is closer is left to its upstream. */
const TOLERANCE = 1.25

/** Whether there is any doubt, by what the prompt was estimated at. */
export const mayOverflow = (promptTokens: number, contextLength: number) =>
  promptTokens * BYTES_PER_TOKEN > contextLength

/** Whether a prompt of so many tokens, counted by us, certainly does not fit. */
export const overflows = (counted: number, contextLength: number) => counted > contextLength * TOLERANCE
