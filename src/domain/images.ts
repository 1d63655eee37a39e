/** A request to make images from a text. */
import { EndpointRequest } from './endpoint-request.ts'
import type { JsonObject } from './json.ts'
import { MOST_UNITS, type UnitCounts } from './units.ts'

/**
 * More output tokens than an image has: OpenAI's tables end at 408, 1,584, and 6,240 tokens (developers.openai.com, "Image generation"),
 * and larger sizes of newer models have a calculator instead.
 */
const MOST_TOKENS: Readonly<Record<string, number>> = { low: 1_000, medium: 4_000, standard: 4_000 }
const MOST_OF_ANY = 16_000

/** Images take minutes, during which nothing arrives. */
const PATIENCE_MS = 300_000

export interface AskedImages {
  prompt: string
  count: number
  /** Null if the client leaves it to the model. */
  size: string | null
  quality: string | null
  /** `response_format`; null if the client names none. */
  form: 'url' | 'b64_json' | null
  /** Fields whose names mean something else in a chat. */
  own: Readonly<JsonObject>
}

export class ImagesRequest extends EndpointRequest {
  readonly endpoint = 'images'
  readonly inputs: readonly string[]
  override readonly max_tokens: number
  override readonly modalities = ['image'] as const
  override readonly isCharged = true
  override readonly leastReadOnMs = PATIENCE_MS
  override readonly leastSilenceMs = PATIENCE_MS
  override readonly [MOST_UNITS]: UnitCounts

  /** @param hasTokens false for a model without a price per token. */
  constructor(
    readonly model: string,
    readonly asked: AskedImages,
    readonly extras: Readonly<JsonObject>,
    hasTokens = true,
  ) {
    super()
    const { prompt, count, quality } = asked
    this.inputs = hasTokens ? [prompt] : []
    this.max_tokens = hasTokens ? count * (MOST_TOKENS[quality ?? ''] ?? MOST_OF_ANY) : 0
    this[MOST_UNITS] = { images: count }
  }

  override withoutTokens(): ImagesRequest {
    return new ImagesRequest(this.model, this.asked, this.extras, false)
  }
}

/** At least one of `b64` and `url`. */
export interface Image {
  b64: string | null
  url: string | null
  revisedPrompt: string | null
}

export interface MadeImages {
  of: 'images'
  images: readonly Image[]
  /** What the upstream says of all of them, such as `size` and `quality`. */
  facts: Readonly<Record<string, string>>
  /** Seconds since 1970; null if the upstream doesn't say. */
  created: number | null
}
