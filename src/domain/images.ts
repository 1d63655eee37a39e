/** Requests to generate images from a text, or to edit images. */
import { EndpointRequest, type MediaTokens, type TokensBeside } from './endpoint-request.ts'
import type { JsonObject } from './json.ts'
import type { Form } from './multipart.ts'
import { MOST_UNITS, type UnitCounts } from './units.ts'

/**
 * Upper bound of output tokens per image. OpenAI's tables end at 408, 1,584, and 6,240 tokens (developers.openai.com, "Image generation").
 * For larger sizes, newer models have a calculator instead.
 */
const MOST_TOKENS: Readonly<Record<string, number>> = { low: 1_000, medium: 4_000, standard: 4_000 }
const MOST_OF_ANY = 16_000
/** Upper bound of input tokens per image at high fidelity. Doubled, since image tokens may cost more than text. */
const MOST_READ = 16_000
/** From the same page. */
export const TOKENS_PER_PARTIAL = 100

/** Images take minutes, during which nothing arrives. */
const PATIENCE_MS = 300_000

export interface AskedImages {
  prompt: string
  count: number
  /** Null if the client doesn't set it. */
  size: string | null
  quality: string | null
  /** `response_format`; null if the client doesn't set it. */
  form: 'url' | 'b64_json' | null
  /** Null: a whole response. Otherwise a stream of events with at most this many partial images. */
  partials: number | null
  /** Fields whose names mean something else in a chat. */
  own: Readonly<JsonObject>
}

/** A `data:` URL or one that the upstream fetches, or a file. */
export type InputImage = { url: string } | { type: string; bytes: Uint8Array }

export interface EditedImages {
  /** 1 to 16. */
  images: readonly InputImage[]
  mask: InputImage | null
  /** The client's form, unchanged; null for JSON. */
  form: Form | null
  /** Likely input tokens of all images. */
  tokens: number
}

export class ImagesRequest extends EndpointRequest {
  readonly endpoint: 'images' | 'image_edits'
  readonly inputs: readonly string[]
  override readonly stream: boolean
  override readonly media: MediaTokens
  override readonly beside: TokensBeside
  override readonly max_tokens: number
  override readonly hasOwnCap = true
  override readonly modalities = ['image'] as const
  override readonly isCharged = true
  override readonly leastReadOnMs = PATIENCE_MS
  override readonly leastSilenceMs = PATIENCE_MS
  override readonly [MOST_UNITS]: UnitCounts

  /**
   * @param edited null to generate images from the prompt only.
   * @param hasTokens false for a model without a price per token.
   */
  constructor(
    readonly model: string,
    readonly asked: AskedImages,
    readonly extras: Readonly<JsonObject>,
    readonly edited: EditedImages | null = null,
    hasTokens = true,
  ) {
    super()
    const { prompt, count, quality, partials } = asked
    const perImage = (MOST_TOKENS[quality ?? ''] ?? MOST_OF_ANY) + (partials ?? 0) * TOKENS_PER_PARTIAL
    this.endpoint = edited ? 'image_edits' : 'images'
    this.stream = partials !== null
    this.inputs = hasTokens ? [prompt] : []
    this.media = { audio: 0, images: hasTokens ? (edited?.tokens ?? 0) : 0 }
    const inputs = edited && hasTokens ? edited.images.length + (edited.mask ? 1 : 0) : 0
    this.beside = { likely: 0, most: inputs * MOST_READ }
    this.max_tokens = hasTokens ? count * perImage : 0
    this[MOST_UNITS] = { images: count }
  }

  override withoutTokens(): ImagesRequest {
    return new ImagesRequest(this.model, this.asked, this.extras, this.edited, false)
  }
}

/** Many MB of base64, as bytes from the upstream, in pieces. As text, each step would copy it. */
export class Base64Pieces {
  readonly length: number

  constructor(readonly pieces: readonly Uint8Array[]) {
    this.length = pieces.reduce((sum, piece) => sum + piece.length, 0)
  }

  toString(): string {
    return Buffer.concat(this.pieces).toString()
  }

  toJSON(): string {
    return this.toString()
  }
}

/** At least one of `b64` and `url`. */
export interface Image {
  b64: string | Base64Pieces | null
  url: string | null
  revisedPrompt: string | null
}

export interface MadeImages {
  of: 'images'
  images: readonly Image[]
  /** Facts about all images as the upstream reports them, such as `size` and `quality`. */
  facts: Readonly<Record<string, string>>
  /** Seconds since 1970; null if the upstream doesn't report it. */
  created: number | null
}
