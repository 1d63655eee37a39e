/** The log probabilities of an answer as clients read them. Pure. */
import type { Logprob, Logprobs } from '../../../domain/events.ts'
import { asList, asObject, asText } from '../../../domain/json.ts'

/** OpenAI's figure for a token that is not among the likeliest. */
const OFF_THE_LIST = -9999

/** Reads `logprobsResult`; null where there is not one token. */
export function toLogprobs(value: unknown): Logprobs | null {
  const given = asObject(value)
  const tops = asList(given?.topCandidates)
  const content = asList(given?.chosenCandidates).map((each, place) => ({
    ...toLogprob(each),
    top_logprobs: asList(asObject(tops[place])?.candidates).map(toLogprob),
  }))
  return content.length > 0 ? { content, refusal: null } : null
}

function toLogprob(value: unknown): Logprob {
  const { token, logProbability } = asObject(value) ?? {}
  const text = asText(token)
  return {
    token: text.toWellFormed(),
    logprob: typeof logProbability === 'number' && Number.isFinite(logProbability) ? logProbability : OFF_THE_LIST,
    // Part of a character has bytes that its text does not tell.
    bytes: text.isWellFormed() && !text.includes('\uFFFD') ? [...Buffer.from(text)] : null,
  }
}
