/** Says why Ollama did not answer: `{ "error": "…" }`, as the body of a status, or as a line of a stream. Pure. */
import { UpstreamError } from '../../../domain/error.ts'
import { asObject, asText, parseJson } from '../../../domain/json.ts'
import type { Target } from '../../../domain/snapshot.ts'
import { toEngineFault } from '../../engine-errors.ts'
import { toPublic } from '../../failure.ts'
import { OVERFLOW_CODE, toOverflow } from '../../overflow.ts'

/** Reads the body of an error status. Markup is a proxy's page and nothing for a client; plain text is quoted. */
export function toBodyError(status: number, body: string, target: Target, retryAfterMs?: number): UpstreamError {
  return toUpstreamError(status, readSentence(body), target, retryAfterMs)
}

function readSentence(body: string): string {
  try {
    return toSentence(parseJson(body))
  } catch {
    return body.trimStart().startsWith('<') ? '' : body.trim()
  }
}

/** What is wrong, from an answer that has an `error`; '' where it has none. Of what it hands on, the engine's own words. */
export function toSentence(answer: unknown): string {
  const error = asObject(answer)?.error
  return asText(error) || asText(asObject(error)?.message)
}

const RETRYABLE = new Set([408, 409, 429])

/** @param status of the response; null for an error inside of one that said 200. */
export function toUpstreamError(
  status: number | null,
  sentence: string,
  { upstream, contextLength }: Target,
  retryAfterMs?: number,
): UpstreamError {
  const overflow = toOverflow(status, '', sentence, contextLength)
  const effective = overflow === null ? (status ?? 500) : 400
  return new UpstreamError('status', toPublic(overflow ?? (sentence || 'gave no reason'), upstream), {
    status: effective,
    code: overflow === null ? null : OVERFLOW_CODE,
    param: overflow === null ? null : 'messages',
    retryable: effective >= 500 || RETRYABLE.has(effective),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...toEngineFault(effective, toInner(sentence)),
  })
}

/** The engine's words, where it hands on its whole answer. */
function toInner(sentence: string): string {
  try {
    return toSentence(parseJson(sentence)) || sentence
  } catch {
    return sentence
  }
}
