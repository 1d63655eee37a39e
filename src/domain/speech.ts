/** A request to convert text to speech. */
import { EndpointRequest } from './endpoint-request.ts'
import type { JsonObject } from './json.ts'
import { MOST_UNITS, type UnitCounts } from './units.ts'

/** Slow speech. Typical is 15 characters per second; languages with more sound per character are slower. */
const CHARS_PER_SECOND = 8
/** OpenAI's models make about 21 tokens per second. */
const TOKENS_PER_SECOND = 21
const TOKENS_BESIDE = 64

export interface SpokenText {
  input: string
  /** As the client sent it: a name, or an object with an ID. */
  voice: unknown
  instructions: string | null
  /** Such as `mp3`. */
  format: string
  speed: number | null
}

export class SpeechRequest extends EndpointRequest {
  readonly endpoint = 'speech'
  readonly inputs: readonly string[]
  override readonly stream = true
  override readonly modalities = ['audio'] as const
  override readonly audio: { readonly format: string }
  override readonly isCharged = true
  override readonly leastSilenceMs = 60_000
  override readonly max_tokens: number
  override readonly hasOwnCap = true
  override readonly [MOST_UNITS]: UnitCounts
  override readonly counted: UnitCounts

  /** @param asEvents whether the client wants server-sent events in place of bytes. */
  constructor(
    readonly model: string,
    readonly text: SpokenText,
    readonly asEvents: boolean,
    readonly extras: Readonly<JsonObject>,
    hasTokens = true,
  ) {
    super()
    const { input, instructions, format, speed } = text
    this.inputs = hasTokens ? [input, instructions].filter((each) => each !== null) : []
    const seconds = Math.ceil(input.length / CHARS_PER_SECOND / Math.min(1, speed ?? 1))
    this.max_tokens = hasTokens ? seconds * TOKENS_PER_SECOND + TOKENS_BESIDE : 0
    this.audio = { format: format === 'pcm' ? 'pcm16' : format }
    // Upper bound: providers count UTF-16 units or code points, which are fewer.
    const units = { characters: input.length, audioMs: seconds * 1_000 }
    this[MOST_UNITS] = units
    this.counted = { ...units, countedBy: 'text' }
  }

  override withoutTokens(): SpeechRequest {
    return new SpeechRequest(this.model, this.text, this.asEvents, this.extras, false)
  }
}
