/**
 * Refuses a prompt that is known not to fit into its model. Text of fewer bytes than the context has tokens always fits;
 * only what is in doubt is counted, in the counter's worker.
 */
import type { Counter } from '../answer/count.ts'
import type { GatewayError } from '../error.ts'
import { BYTES_PER_TOKEN, type Estimate } from '../limits/estimate.ts'
import type { ChatRequest } from '../wire/request.ts'
import { contextOverflow } from './fit.ts'

/** The model's own tokenizer may count less than ours by this factor: what is closer is left to its upstream. */
const TOLERANCE = 1.25

interface Facts {
  context_length: number
}

/** Whether there is any doubt, by what the prompt was estimated at. */
export const mayOverflow = ({ promptTokens }: Estimate, { context_length: contextLength }: Facts) =>
  promptTokens * BYTES_PER_TOKEN > contextLength

/** Counts a prompt and returns its refusal, if it certainly does not fit. */
export async function checkContext(
  counter: Counter,
  body: ChatRequest,
  { context_length: contextLength }: Facts,
): Promise<GatewayError | null> {
  const counted = await counter.prompt(body)
  return counted !== null && counted > contextLength * TOLERANCE ? contextOverflow(contextLength, counted) : null
}
