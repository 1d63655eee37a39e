/** Transcriptions and translations of audio: a form with a file. Only the model's name is changed before it is sent. */
import { EndpointRequest, type MediaTokens } from './endpoint-request.ts'
import type { JsonObject } from './json.ts'
import type { Form } from './multipart.ts'
import { MOST_UNITS, type UnitCounts } from './units.ts'

export interface AudioLength {
  /** At least 1. */
  ms: number
  /** `size`: the format is unknown or can't be measured, so the length is the maximum for this file size. */
  from: 'contents' | 'size'
}

export interface TranscriptionFields {
  model: string
  /** As sent; null if absent, which is JSON. */
  format: string | null
  stream: boolean
  /** '' if absent. */
  prompt: string
  user: string | null
  /** Text of fields that only the upstream may know. */
  extras: Readonly<JsonObject>
}

/** As for OpenAI's models: ten input tokens per second. */
const TOKENS_PER_SECOND = 10
/** Twice that of fast speech. */
const WRITTEN_PER_SECOND = 10
const LEAST_WRITTEN = 1_000

export class TranscriptionRequest extends EndpointRequest {
  readonly model: string
  readonly inputs: readonly string[]
  readonly extras: Readonly<JsonObject>
  readonly user: string | null
  override readonly stream: boolean
  override readonly media: MediaTokens
  override readonly max_tokens: number
  override readonly [MOST_UNITS]: UnitCounts
  override readonly counted: UnitCounts

  constructor(
    readonly endpoint: 'transcriptions' | 'translations',
    readonly fields: TranscriptionFields,
    readonly form: Form,
    readonly length: AudioLength,
    hasTokens = true,
  ) {
    super()
    const { model, prompt, extras, user, stream } = fields
    const seconds = Math.ceil(length.ms / 1_000)
    this.model = model
    this.inputs = prompt === '' || !hasTokens ? [] : [prompt]
    this.extras = extras
    this.user = user
    this.stream = stream
    this.media = { audio: hasTokens ? seconds * TOKENS_PER_SECOND : 0, images: 0 }
    this.max_tokens = hasTokens ? LEAST_WRITTEN + seconds * WRITTEN_PER_SECOND : 0
    this[MOST_UNITS] = { audioMs: length.ms }
    this.counted = { audioMs: length.ms, countedBy: 'file' }
  }

  override withoutTokens(): TranscriptionRequest {
    return new TranscriptionRequest(this.endpoint, this.fields, this.form, this.length, false)
  }
}

/** A whole response. */
export interface Transcript {
  of: 'transcript'
  /** From the upstream, with the catalog's model name; null if it is text. */
  json: JsonObject | null
  /** Transcribed text, or subtitles. */
  text: string
}

/** Returned as plain text, without usage. */
const TEXT_FORMATS: ReadonlySet<string | null> = new Set(['text', 'srt', 'vtt'])
export const isOfText = ({ fields: { format } }: TranscriptionRequest): boolean => TEXT_FORMATS.has(format)
