/** Bodies of every endpoint that isn't a chat: what their model reads, and the most that a call may use. */
import type { JsonObject } from './json.ts'
import type { OtherEndpoint } from './task.ts'
import { MOST_UNITS, type UnitCounts } from './units.ts'

/** Text, or token numbers. */
export type EndpointInput = string | readonly number[]

/** Tokens that `inputs` don't show: likely, and at most in any vocabulary. */
export interface TokensBeside {
  likely: number
  most: number
}

/** Tokens of audio and images, which may have prices of their own. */
export interface MediaTokens {
  audio: number
  images: number
}

/** A class, so that no chat field can imitate it. Wrappers of a dispatch never change it. */
export abstract class EndpointRequest {
  abstract readonly endpoint: OtherEndpoint
  abstract readonly model: string
  /** Read by the model, and counted if the upstream doesn't. */
  abstract readonly inputs: readonly EndpointInput[]
  /** Fields that only the upstream may know; refused ones are found here (`domain/fields.ts`). */
  abstract readonly extras: Readonly<JsonObject>
  readonly beside: TokensBeside = { likely: 0, most: 0 }
  readonly media: MediaTokens = { audio: 0, images: 0 }
  /** Most output tokens of a call, which it reserves. */
  readonly max_tokens: number = 0
  /** Whether `max_tokens` holds whatever limit its model states: those of some endpoints seldom state one. */
  readonly hasOwnCap: boolean = false
  /** The client gets the response as it is made: server-sent events or bytes. Decides which deadlines apply. */
  readonly stream: boolean = false
  /** Set if output tokens are of audio or images. */
  readonly modalities?: readonly ('audio' | 'image')[]
  /** Of the audio it makes, whose tokens are estimated from its bytes. */
  readonly audio?: { readonly format: string }
  /** Most units of one call. */
  readonly [MOST_UNITS]: UnitCounts = {}
  /**
   * Units of a call by our own count, charged for what the upstream doesn't report. `countedBy` says from what; without `isExact` the
   * provider may count otherwise, and the call is marked as estimated.
   */
  readonly counted: UnitCounts & { isExact?: boolean } = {}
  /**
   * An upstream charges for each attempt once it has begun. After a timeout, or a connection that breaks once the request is sent, no other
   * upstream is tried; after a refused connection or an error status, but that of a timeout, it is.
   */
  readonly isCharged: boolean = false
  /** The same for models without a price per token, whose requests have none; missing: they always have. */
  withoutTokens?(): EndpointRequest
  /** After a client disconnects, how long to read on at least, ms, so that usage is booked; 0 = the upstream's setting. */
  readonly leastReadOnMs: number = 0
  /** Silence to allow at least, ms; 0 = the upstream's deadlines. */
  readonly leastSilenceMs: number = 0
}
