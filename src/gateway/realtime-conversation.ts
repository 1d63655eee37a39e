/** Size and settings of a realtime conversation so far. Reservations and estimates are based on them. */
import { asObject, asText, type JsonObject } from '../domain/json.ts'
import { chargeBy } from '../domain/price.ts'
import type { Target } from '../domain/snapshot.ts'
import { pricesTokens, toMaxTariff } from '../domain/tariff.ts'
import { NO_USAGE, type Usage } from '../domain/usage.ts'
import { bytesPerSecond } from '../upstreams/realtime.ts'

/** Tokens per second of input and output audio (platform.openai.com/docs/guides/realtime-costs). */
const HEARD_PER_SECOND = 10
const SPOKEN_PER_SECOND = 20
/** Input tokens that a turn reserves beyond the conversation so far. */
const SPARE_TOKENS = 4_096
const BYTES_PER_TOKEN = 4
const IMAGE_TOKENS = 1_500

export interface Most {
  prompt: number
  completion: number
  nanoUsd: number
}

export class Conversation {
  /** Input tokens, as last reported or estimated. */
  tokens = 0
  /** Maximum output tokens of a response. */
  maxOutput: number
  /** The upstream's name of the transcription model; null without transcription. */
  transcriber: string | null = null
  /** Tokens of audio since the last transcription. */
  #heard = 0
  /** Tokens at the start of the current responses, which are their input. */
  #atResponse: number | null = null
  #heardRate = bytesPerSecond(null)
  #spokenRate = bytesPerSecond(null)

  constructor(
    readonly target: Target,
    readonly isTranscription: boolean,
  ) {
    this.maxOutput = target.maxOutputLength
    if (isTranscription) this.transcriber = target.upstreamModel
  }

  /** Current settings, as reported by the upstream. */
  take(session: JsonObject): void {
    const audio = asObject(session.audio) ?? {}
    const input = asObject(audio.input) ?? {}
    const output = asObject(audio.output) ?? {}
    this.#heardRate = bytesPerSecond(input.format ?? session.input_audio_format)
    this.#spokenRate = bytesPerSecond(output.format ?? session.output_audio_format)
    const transcription = asObject(input.transcription) ?? asObject(session.input_audio_transcription)
    this.transcriber = asText(transcription?.model) || (this.isTranscription ? this.target.upstreamModel : null)
    this.maxOutput = this.toMaxOutput(session.max_output_tokens ?? session.max_response_output_tokens)
    const instructions = asText(session.instructions).length + JSON.stringify(session.tools ?? []).length
    this.tokens = Math.max(this.tokens, Math.ceil(instructions / BYTES_PER_TOKEN))
  }

  toMaxOutput(most: unknown): number {
    const { maxOutputLength } = this.target
    return typeof most === 'number' && most > 0 ? Math.min(most, maxOutputLength) : maxOutputLength
  }

  /** Adds a client event. Returns its tokens. */
  add(event: JsonObject): number {
    const tokens = this.#tokensOf(event)
    this.tokens += tokens
    if (event.type === 'input_audio_buffer.append') this.#heard += tokens
    const most = asObject(event.response)?.max_output_tokens
    // Overrides the session's limit.
    if (event.type === 'response.create' && most !== undefined)
      this.maxOutput = Math.max(this.maxOutput, this.toMaxOutput(most))
    return tokens
  }

  #tokensOf(event: JsonObject): number {
    if (event.type === 'input_audio_buffer.commit') return 0
    let heard = 0
    const text = JSON.stringify(event, (name, value: unknown) => {
      if (typeof value !== 'string' || (name !== 'audio' && name !== 'image_url')) return value
      heard += name === 'audio' ? (toBytes(value) / this.#heardRate) * HEARD_PER_SECOND : IMAGE_TOKENS
      return ''
    })
    return Math.ceil(heard + (event.type === 'input_audio_buffer.append' ? 0 : text.length / BYTES_PER_TOKEN))
  }

  beginResponse(): void {
    this.#atResponse ??= this.tokens
  }

  /** Adds what was said during the response. @param isLast whether no other is running. @param isApart whether it is outside the conversation. */
  endResponse({ prompt, completion }: Usage, isLast: boolean, isApart: boolean): void {
    const since = this.tokens - (this.#atResponse ?? this.tokens)
    if (isLast) this.#atResponse = null
    if (!isApart) this.tokens = prompt + completion + since
  }

  endTranscription(): void {
    this.#heard = 0
    if (this.isTranscription) this.tokens = 0
  }

  /** Maximum tokens and cost of the next response or transcription. */
  most(): Most {
    const { target } = this
    const prompt = Math.min(target.contextLength, this.tokens + SPARE_TOKENS)
    const completion = Math.min(this.maxOutput, target.maxOutputLength)
    const usage = { ...NO_USAGE, prompt, completion, audioPrompt: prompt, audioCompletion: completion }
    const audioMs = this.isTranscription ? toMs(prompt) : 0
    return { prompt, completion, nanoUsd: mostOf(target, { ...usage, audioMs }) }
  }

  estimate(spokenBytes: number, writtenBytes: number): Usage {
    const audioCompletion = Math.ceil((spokenBytes / this.#spokenRate) * SPOKEN_PER_SECOND)
    const completion = audioCompletion + Math.ceil(writtenBytes / BYTES_PER_TOKEN)
    const prompt = Math.min(this.tokens, this.target.contextLength)
    return { ...NO_USAGE, prompt, completion, audioCompletion, countedBy: 'text' }
  }

  /** In seconds or tokens, as the transcription model is priced. */
  estimateTranscription(): Usage {
    const { target, transcriber } = this
    const prompt = this.#heard
    const isOwn = transcriber === target.upstreamModel
    const { pricing } = (isOwn ? null : target.upstream.prices.get(transcriber ?? '')) ?? target
    if (!pricesTokens(pricing)) return { ...NO_USAGE, audioMs: Math.max(1, toMs(prompt)), countedBy: 'text' }
    return { ...NO_USAGE, prompt, audioPrompt: prompt, completion: prompt, countedBy: 'text' }
  }
}

export const toBytes = (base64: string) => Math.floor((base64.length * 3) / 4)

const toMs = (heard: number) => Math.ceil((heard / HEARD_PER_SECOND) * 1_000)

export const mostOf = ({ pricing }: Target, usage: Usage): number => {
  const tariff = toMaxTariff(pricing, usage.prompt)
  return tariff ? chargeBy(tariff, usage) : 0
}
