/**
 * Completes the log probabilities of an answer, so that typed clients can read them: every key, every number finite, every
 * list a list. What has not the shape of a token is left out. Pure.
 */
import type { Logprob, Logprobs, TokenLogprob } from '../../../domain/events.ts'
import { asList, asObject, type JsonObject } from '../../../domain/json.ts'

/** OpenAI's figure for a token that is not among the likeliest. */
const OFF_THE_LIST = -9999

/** Returns null where there is not one token. */
export function toLogprobs(value: unknown): Logprobs | null {
  const given = asObject(value)
  if (!given) return null
  const content = toTokens(given.content)
  const refusal = toTokens(given.refusal)
  return content || refusal ? { content, refusal } : null
}

function toTokens(value: unknown): TokenLogprob[] | null {
  const tokens = asList(value).flatMap((each): TokenLogprob[] => {
    const item = asObject(each)
    const token = item && toToken(item)
    return token ? [{ ...token, top_logprobs: toLikeliest(item.top_logprobs) }] : []
  })
  return tokens.length > 0 ? tokens : null
}

function toLikeliest(value: unknown): Logprob[] {
  const map = asObject(value)
  const items = map ? Object.entries(map).map(([token, logprob]) => ({ token, logprob })) : asList(value)
  return items.flatMap((each) => {
    const item = asObject(each)
    return (item && toToken(item)) ?? []
  })
}

function toToken({ token, logprob, bytes }: JsonObject): Logprob | null {
  if (typeof token !== 'string') return null
  return { token: token.toWellFormed(), logprob: toFinite(logprob), bytes: toBytes(token, bytes) }
}

const toFinite = (value: unknown) => (typeof value === 'number' && Number.isFinite(value) ? value : OFF_THE_LIST)

/** A token that is only a part of a character has bytes that its text does not tell. */
function toBytes(token: string, given: unknown): number[] | null {
  if (Array.isArray(given)) return given.every(isByte) ? given : null
  return given === null || token.includes('\uFFFD') ? null : [...Buffer.from(token)]
}

const isByte = (value: unknown) => Number.isInteger(value) && (value as number) >= 0 && (value as number) <= 255
