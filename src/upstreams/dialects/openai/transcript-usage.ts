/** Usage of a transcription: reported seconds or tokens, else the duration in the response, else the measured duration of the file. */
import type { AnswerEvent } from '../../../domain/events.ts'
import { asObject, asText, type JsonObject } from '../../../domain/json.ts'
import type { Target } from '../../../domain/snapshot.ts'
import { pricesTokens } from '../../../domain/tariff.ts'
import type { TranscriptionRequest } from '../../../domain/transcriptions.ts'
import { NO_USAGE, type Usage } from '../../../domain/usage.ts'
import { findCharge, findUsage } from './usage.ts'

/** Null if the response has nothing to charge by. */
export function readTranscriptUsage(answer: JsonObject, asked: TranscriptionRequest, target: Target): Usage | null {
  const usage = asObject(answer.usage)
  const seconds = toMs(usage?.seconds, asked) ?? toMs(usage?.prompt_audio_seconds, asked)
  const tokens = usage && findTokens(answer, usage)
  // If both are reported, the one with a price counts.
  if (tokens && (usage.type === 'tokens' || seconds === null || !pricesSeconds(target))) return tokens
  const isBySecond = pricesSeconds(target) || !pricesTokens(target.pricing)
  if (seconds !== null && isBySecond) return { ...NO_USAGE, audioMs: seconds, countedBy: 'upstream' }
  const stated = toMs(answer.duration, asked)
  return stated === null || !(pricesSeconds(target) || isFree(target))
    ? null
    : { ...NO_USAGE, audioMs: stated, countedBy: 'answer' }
}

/** Null for zeros, which some servers always report. */
function findTokens(answer: JsonObject, usage: JsonObject): Usage | null {
  const details = usage.input_token_details ?? usage.input_tokens_details
  const read = details === undefined ? answer : { usage: { ...usage, input_tokens_details: details } }
  const found = findUsage(read)
  return found && { ...found, countedBy: 'upstream' }
}

/** Lowest bit rate of encoded speech. A reported duration that needs a lower one is invalid. */
const LEAST_BYTES_PER_SECOND = 750

/** Milliseconds from seconds, which may be text. Null if missing or impossible. */
function toMs(value: unknown, { form, length }: TranscriptionRequest): number | null {
  const seconds = typeof value === 'number' ? value : asText(value).trim() === '' ? Number.NaN : Number(asText(value))
  const most = Math.max((form.bytes.length / LEAST_BYTES_PER_SECOND) * 1_000, length.ms) * 1.1 + 10_000
  const ms = Math.round(seconds * 1_000)
  return ms > 0 && ms <= most ? ms : null
}

export const pricesSeconds = ({ pricing }: Pick<Target, 'pricing'>): boolean =>
  pricing.some(({ audio_second: price }) => price !== undefined)

const isFree = ({ pricing }: Pick<Target, 'pricing'>) => pricing.length === 0

/**
 * Events of the reported usage. Otherwise the measured seconds (`EndpointRequest.counted`) or counted tokens, whichever has a price.
 * @param text source of `answer`.
 */
export function toUsageEvents(
  reported: Usage | null,
  { length }: TranscriptionRequest,
  target: Target,
  answer: JsonObject | null,
  text: string,
): AnswerEvent[] {
  const events: AnswerEvent[] = []
  const usage: Usage | null =
    reported ??
    (isFree(target)
      ? { ...NO_USAGE, audioMs: length.ms, countedBy: 'file' }
      : pricesSeconds(target)
        ? { ...NO_USAGE, countedBy: 'file' }
        : null)
  if (usage) events.push({ kind: 'usage', usage })
  const nanoUsd = answer && findCharge(answer, text, target.upstream.options.cost)
  if (nanoUsd !== null) events.push({ kind: 'charged', nanoUsd })
  return events
}
