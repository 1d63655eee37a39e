/**
 * Speech in the OpenAI format: bytes as they arrive, events with base64, or Mistral's JSON. Byte responses have no usage. So for a model
 * that is charged by token, Tollgate requests events, and converts them to the client's format.
 */
import { UpstreamError } from '../../../domain/error.ts'
import type { AnswerEvent } from '../../../domain/events.ts'
import { asObject, asText, type JsonObject, tryJson } from '../../../domain/json.ts'
import type { Target } from '../../../domain/snapshot.ts'
import type { SpeechRequest } from '../../../domain/speech.ts'
import { pricesTokens } from '../../../domain/tariff.ts'
import { NO_USAGE, type Usage } from '../../../domain/usage.ts'
import { toEndpointPath } from '../../auth.ts'
import type { SseEvent } from '../../framing.ts'
import type { BytesDecoder, Decoder, EndpointFormat } from '../dialect.ts'
import { openAiErrors } from './errors.ts'
import { toEndpointBody } from './field-changes.ts'
import { findUsage } from './usage.ts'

const EVENT_STREAM = 'text/event-stream'

export const speech: EndpointFormat<SpeechRequest> = {
  request(asked, target) {
    const { input, voice, instructions, format, speed } = asked.text
    const sent: JsonObject = { model: target.upstreamModel, input, voice, instructions, response_format: format, speed }
    for (const [name, value] of Object.entries(sent)) if (value === null) delete sent[name]
    if (isByToken(target)) sent.stream_format = 'sse'
    const body = toEndpointBody(sent, asked.extras, target.upstream.options)
    return { path: toEndpointPath(target, '/audio/speech'), body: JSON.stringify(body) }
  },

  accept: () => '*/*',

  whole(json, asked, target) {
    const answer = asObject(json) ?? {}
    const audio = answer.audio_data ?? answer.audio
    const error = typeof audio === 'string' ? null : openAiErrors.find(answer)
    if (error) throw openAiErrors.read(null, error, target)
    const bytes = toBytes(audio)
    if (bytes === null) throw new UpstreamError('broken', 'returned 200 with something that is not audio')
    return [{ kind: 'bytes', bytes }, ...toUsageEvents(answer, asked, target), { kind: 'done' }]
  },

  stream(mediaType, asked, target) {
    if (mediaType === EVENT_STREAM) return { framing: 'events', decoder: new SpeechDecoder(asked, target) }
    return BYTES.test(mediaType) ? { framing: 'bytes', decoder: new AudioDecoder(asked, target) } : null
  },

  // A second of PCM is 64 kB of base64, and some providers send all audio in one event.
  maxEventBytes: 32 * 1024 * 1024,
}

const BYTES = /^(?:audio\/|(?:application|binary)\/octet-stream$|$)/

const isPriced = (price: string | undefined) => price !== undefined && /[1-9]/.test(price)

/** True if audio tokens have a price and characters have none. `tts-1` can't send events. */
const isByToken = ({ pricing, upstreamModel }: Target): boolean =>
  !/(?:^|\/)tts-1/.test(upstreamModel) &&
  !pricing.some(({ character }) => isPriced(character)) &&
  pricing.some(({ completion, audio, audio_completion: spoken }) => [completion, audio, spoken].some(isPriced))

function toBytes(base64: unknown): Uint8Array | null {
  if (typeof base64 !== 'string' || base64 === '') return null
  const bytes = Buffer.from(base64, 'base64')
  return bytes.length === 0 ? null : bytes
}

/**
 * Reported tokens, else characters if they have a price. Characters are exact if all providers count the text alike. A model without a
 * price per token counts as having used none.
 */
function toUsageEvents(answer: JsonObject | null, { text }: SpeechRequest, target: Target): AnswerEvent[] {
  const { pricing } = target
  const found = answer && findUsage(answer)
  if (found) {
    const hasOwn = pricing.some((item) => item.audio_completion !== undefined || item.audio !== undefined)
    const usage: Usage = { ...found, countedBy: 'upstream' }
    if (hasOwn && found.audioCompletion === 0) usage.audioCompletion = found.completion
    return [{ kind: 'usage', usage }]
  }
  const isByCharacter = pricing.some(({ character }) => isPriced(character))
  if (!isByCharacter && pricesTokens(pricing)) return []
  const isExact = isByCharacter && !/[\ud800-\udfff]/.test(text.input)
  return [
    { kind: 'usage', usage: { ...NO_USAGE, ...(isExact && { characters: text.input.length }), countedBy: 'text' } },
  ]
}

class AudioDecoder implements BytesDecoder {
  #isEmpty = true

  constructor(
    private readonly asked: SpeechRequest,
    private readonly target: Target,
  ) {}

  bytes(bytes: Uint8Array, out: AnswerEvent[]): void {
    if (bytes.length === 0) return
    this.#isEmpty = false
    out.push({ kind: 'bytes', bytes: bytes.slice() })
  }

  end(out: AnswerEvent[]): void {
    if (this.#isEmpty) out.push({ kind: 'failure', error: new UpstreamError('broken', 'returned 200 without audio') })
    else out.push(...toUsageEvents(null, this.asked, this.target), { kind: 'done' })
  }
}

class SpeechDecoder implements Decoder {
  #isEmpty = true
  #isDone = false

  constructor(
    private readonly asked: SpeechRequest,
    private readonly target: Target,
  ) {}

  take(): number {
    return 0
  }

  event({ data }: SseEvent, out: AnswerEvent[]): void {
    if (this.#isDone) return
    if (data === '[DONE]') {
      this.#finish(null, out)
      return
    }
    const json = asObject(tryJson(data))
    if (json === null) {
      this.#isDone = true
      out.push({ kind: 'failure', error: new UpstreamError('broken', 'sent an event that is not JSON') })
      return
    }
    const type = asText(json.type)
    const bytes = toBytes(json.audio ?? json.audio_data ?? json.b64)
    if (bytes) {
      this.#isEmpty = false
      out.push({ kind: 'bytes', bytes })
    }
    const error = bytes ? null : openAiErrors.find(json)
    if (error) {
      this.#isDone = true
      out.push({ kind: 'failure', error: openAiErrors.read(null, error, this.target) })
    } else if (type.endsWith('.done')) this.#finish(json, out)
  }

  end(out: AnswerEvent[]): void {
    if (this.#isDone) return
    this.#isDone = true
    const error = new UpstreamError('broken', 'ended its stream before the speech was complete')
    out.push({ kind: 'failure', error })
  }

  #finish(answer: JsonObject | null, out: AnswerEvent[]): void {
    this.#isDone = true
    if (this.#isEmpty) out.push({ kind: 'failure', error: new UpstreamError('broken', 'returned 200 without audio') })
    else out.push(...toUsageEvents(answer, this.asked, this.target), { kind: 'done' })
  }
}
