/** A request in any client format, as routing, limits, accounting, and delivery see it. Embeddings requests are defined here, chat requests in `request.ts`. */

import type { PassthroughEndpoint } from './dialects.ts'
import { type Decision, GatewayError } from './error.ts'
import type { JsonObject } from './json.ts'
import type { CanonicalRequest } from './request.ts'

/** A text, or token numbers of the model's vocabulary. */
export type EmbeddingInput = string | readonly number[]

/** A class, so that no field of a chat request can be mistaken for one. */
export class EmbeddingsRequest {
  /** Embeddings have no output tokens. */
  readonly max_tokens = 0

  /**
   * @param model as the client named it.
   * @param inputs never empty, and none is empty.
   * @param dimensions length of a vector; null = the model's default.
   * @param encoding numbers, or the base64 of little-endian 32-bit floats.
   * @param user as reported by the client.
   * @param extras fields that only the upstream may know.
   */
  constructor(
    readonly model: string,
    readonly inputs: readonly EmbeddingInput[],
    readonly dimensions: number | null,
    readonly encoding: 'float' | 'base64',
    readonly user: string | null,
    readonly extras: Readonly<JsonObject>,
  ) {}

  /** The same with other inputs. */
  of(inputs: readonly EmbeddingInput[]): EmbeddingsRequest {
    const { model, dimensions, encoding, user, extras } = this
    return new EmbeddingsRequest(model, inputs, dimensions, encoding, user, extras)
  }
}

/** As the upstream wrote it: numbers keep all digits. Always finite. */
export type Vector = Float32Array | readonly number[]

/** Path of each client format, by its name in the ledger. */
export const ENDPOINT_PATHS = {
  chat: '/v1/chat/completions',
  messages: '/v1/messages',
  responses: '/v1/responses',
  completions: '/v1/completions',
  embeddings: '/v1/embeddings',
} as const
export type Endpoint = keyof typeof ENDPOINT_PATHS

/** Paths that count a request's tokens. */
export const COUNT_PATHS = {
  messages: '/v1/messages/count_tokens',
  responses: '/v1/responses/input_tokens',
} as const satisfies Partial<Record<Endpoint, string>>

/** `native`: passed through unchanged; `translated`: parsed to events and written in the client's format. */
export type Lane = 'native' | 'translated'

/** The original request, for what a format needs besides the parsed body. */
export interface RawRequest {
  /** The body's JSON. */
  text: string
  /** By lowercase name. */
  headers: Readonly<Record<string, string | undefined>>
}

/** A request that can pass through to upstreams of its client's format. */
export interface PassthroughRequest extends RawRequest {
  endpoint: PassthroughEndpoint
  /** The parsed text, without duplicate names in any object. */
  json: JsonObject
}

export interface ChatTask extends TaskFacts {
  endpoint: Exclude<Endpoint, 'embeddings'>
  /** The canonical request. */
  body: CanonicalRequest
  /** Set if the request can pass through; never for chats. */
  passthrough?: PassthroughRequest
  /** Set if it cannot be translated: why it can only pass through. */
  untranslatable?: GatewayError
  /** Set if its schemas exceed OpenAI's strict mode; local engines enforce any schema. */
  beyondStrict?: GatewayError
  /** True if the client sends the same to every model, as agents built for one vendor do: features that a model lacks are then removed rather than rejected. */
  isForAnyModel?: true
  /** Private data of the format, for writing the response. */
  own?: object
}

export interface EmbeddingsTask extends TaskFacts {
  endpoint: 'embeddings'
  body: EmbeddingsRequest
}

export type Task = ChatTask | EmbeddingsTask

/** Common to both kinds of requests. */
interface TaskFacts {
  /** Model ID or alias, as requested. */
  model: string
  /** True if the client wants a stream. */
  stream: boolean
  /** The client's output cap per choice, in tokens; null if none. */
  cap: number | null
  /** Prompt tokens, estimated from bytes. */
  promptTokens: number
  /** Upper bound of the same: one token per byte. */
  maxPromptTokens: number
  /** As reported by the client; null if not. */
  user: string | null
  /** The part that stays the same during a conversation, so that its requests go to one target. Computed on demand. */
  affinity(): string
}

/**
 * Marks a request whose client ignores reasoning because it did not ask for any, though the model may reason. A symbol, so that no client field has this name.
 */
export const UNREQUESTED_REASONING: unique symbol = Symbol('unasked thoughts')

/** Known types of content parts; others are passed to the upstream. */
export const PART_TYPES: ReadonlySet<unknown> = new Set(['text', 'image_url', 'input_audio', 'file', 'refusal'])

/*
 * Loop detection: each Tollgate server adds its ID to a header of its upstream requests, and rejects requests that carry its own ID; otherwise a loop would run
 * until file descriptors run out. The ID is random per run, and reveals nothing.
 */

export const HOPS_HEADER = 'x-tollgate-hops'

/** Tollgate servers in a row. */
const MAX_HOPS = 8

/** An item of the header; anything else is dropped. */
const HOP = /^[\w-]{1,64}$/

/** Header value to send: the passed servers and this one. Returns the error of a loop. */
export function addHop(passed: string | undefined, own: string): Decision<string> {
  if (passed === undefined) return own
  const hops = passed.split(',').flatMap((each) => HOP.exec(each.trim()) ?? [])
  if (hops.includes(own))
    return new GatewayError(
      'loop_detected',
      'Loop detected: an upstream of this server leads back to this server. Correct its base_url in the catalog.',
    )
  if (hops.length >= MAX_HOPS)
    return new GatewayError(
      'loop_detected',
      `The request passed through ${hops.length} Tollgate servers; at most ${MAX_HOPS} can be chained. Correct the base_url of their upstreams in the catalogs.`,
    )
  return [...hops, own].join(',')
}
