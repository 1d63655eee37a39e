/**
 * The demo model's `logprobs`, in the contract's shape (section 3a). The figures are made up and add up: each token
 * had a chance of one half, the next likeliest one of a quarter, and so on. Pure.
 */
import type { Logprobs, TokenLogprob } from '../domain/answer.ts'
import type { CanonicalRequest } from '../domain/request.ts'

/** What the model might have written instead; one more than a request may ask for besides the token itself. */
const ALTERNATIVES =
  ' the, a, demo, model, it, is, and, says, what, you, wrote, token, gate, this, that, of, to, in, not, or'.split(',')

/** Converts tokens of one part to its `logprobs`; null where the request does not ask, or there is nothing to rate. */
export function toLogprobs(body: CanonicalRequest, kind: string, tokens: readonly string[]): Logprobs | null {
  if (!body.logprobs || tokens.length === 0) return null
  if (kind !== 'content' && kind !== 'refusal') return null
  const rated = tokens.map((token) => rate(token, body.top_logprobs ?? 0))
  return { content: null, refusal: null, [kind]: rated }
}

function rate(token: string, count: number): TokenLogprob {
  const others = ALTERNATIVES.filter((other) => other !== token)
  const top = [token, ...others].slice(0, count)
  return { ...toRanked(token, 0), top_logprobs: top.map(toRanked) }
}

const toRanked = (token: string, rank: number) => ({
  token,
  logprob: -(rank + 1) * Math.LN2,
  bytes: [...Buffer.from(token)],
})
