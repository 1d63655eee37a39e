/** Request bodies of all endpoints but chats: the model's input, and the maximum usage of a call. */
import type { JsonObject } from './json.ts'
import type { OtherEndpoint } from './task.ts'
import { MOST_UNITS, type UnitCounts } from './units.ts'

/** Text, or token numbers. */
export type EndpointInput = string | readonly number[]

/** Tokens not in `inputs`: a likely number, and the maximum in any vocabulary. */
export interface TokensBeside {
  likely: number
  most: number
}

/** Tokens of audio and images, which may have prices of their own. */
export interface MediaTokens {
  audio: number
  images: number
}

/** A class, so that no chat field can imitate it. Wrappers of a dispatch don't change it. */
export abstract class EndpointRequest {
  abstract readonly endpoint: OtherEndpoint
  abstract readonly model: string
  /** Input of the model, counted if the upstream doesn't. */
  abstract readonly inputs: readonly EndpointInput[]
  /** Fields that only the upstream may know; refused ones are found here (`domain/fields.ts`). */
  abstract readonly extras: Readonly<JsonObject>
  readonly beside: TokensBeside = { likely: 0, most: 0 }
  readonly media: MediaTokens = { audio: 0, images: 0 }
  /** Maximum output tokens of a call, which are reserved. */
  readonly max_tokens: number = 0
  /** Whether `max_tokens` may exceed the model's stated limit, which some endpoints' models seldom have. */
  readonly hasOwnCap: boolean = false
  /** The response is streamed to the client, as server-sent events or bytes. Decides which deadlines apply. */
  readonly stream: boolean = false
  /** Set if output tokens are of audio or images. */
  readonly modalities?: readonly ('audio' | 'image')[]
  /** Format of output audio, whose tokens are estimated from its size. */
  readonly audio?: { readonly format: string }
  /** Maximum units of one call. */
  readonly [MOST_UNITS]: UnitCounts = {}
  /**
   * Units of a call by our own count, charged if the upstream doesn't report them. `countedBy` is their source. Without `isExact`, the
   * provider may count otherwise, and the call is marked as estimated.
   */
  readonly counted: UnitCounts & { isExact?: boolean } = {}
  /**
   * The upstream charges for each attempt that has begun. After a timeout, or if the connection breaks after the request was sent, no other
   * upstream is tried. After a refused connection or an error status other than a timeout's, one is.
   */
  readonly isCharged: boolean = false
  /** The same request without tokens, for models without a price per token; missing if it always has tokens. */
  withoutTokens?(): EndpointRequest
  /** Minimum time, in ms, to read usage after a client disconnects; 0 = the upstream's setting. */
  readonly leastReadOnMs: number = 0
  /** Minimum idle timeout, ms; 0 = the upstream's deadlines. */
  readonly leastSilenceMs: number = 0
}
