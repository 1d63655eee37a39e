/**
 * One request, whatever format its client speaks: all that routing, limits, accounting and delivery know of it. A format
 * makes it. A request for embeddings is here too; `request.ts` has that for chat.
 */

import type { PassthroughEndpoint } from './dialects.ts'
import { type Decision, GatewayError } from './error.ts'
import type { JsonObject } from './json.ts'
import type { CanonicalRequest } from './request.ts'

/** A text, or the numbers of its tokens in the model's vocabulary. */
export type EmbeddingInput = string | readonly number[]

/** One of the two kinds of requests that models are sent; a class, so that no field which a client sends with a chat makes one. */
export class EmbeddingsRequest {
  /** It writes nothing. */
  readonly max_tokens = 0

  /**
   * @param model as the client names it.
   * @param inputs never empty, and none of them is.
   * @param dimensions how many numbers a vector is to have; null = as many as the model gives.
   * @param encoding what the client wants a vector written as: numbers, or the base64 of little-endian 32-bit floats.
   * @param user who it is for, as the client names them.
   * @param extras fields that only its upstream may know.
   */
  constructor(
    readonly model: string,
    readonly inputs: readonly EmbeddingInput[],
    readonly dimensions: number | null,
    readonly encoding: 'float' | 'base64',
    readonly user: string | null,
    readonly extras: Readonly<JsonObject>,
  ) {}

  /** The same of other inputs. */
  of(inputs: readonly EmbeddingInput[]): EmbeddingsRequest {
    const { model, dimensions, encoding, user, extras } = this
    return new EmbeddingsRequest(model, inputs, dimensions, encoding, user, extras)
  }
}

/** As its upstream has written it: what came as numbers keeps all of their digits. All of them are finite. */
export type Vector = Float32Array | readonly number[]

/** Where each of the formats that clients speak is posted, by the names that the ledger has for them. */
export const ENDPOINT_PATHS = {
  chat: '/v1/chat/completions',
  messages: '/v1/messages',
  responses: '/v1/responses',
  completions: '/v1/completions',
  embeddings: '/v1/embeddings',
} as const
export type Endpoint = keyof typeof ENDPOINT_PATHS

/** Where the tokens of a request are counted, each below the endpoint that it belongs to. */
export const COUNT_PATHS = {
  messages: '/v1/messages/count_tokens',
  responses: '/v1/responses/input_tokens',
} as const satisfies Partial<Record<Endpoint, string>>

/** `native`: client and upstream speak the same format and the bytes pass; `translated`: read as events, written anew. */
export type Lane = 'native' | 'translated'

/** A request as it came: what a format may need beside the parsed body. */
export interface RawRequest {
  /** The body's JSON. */
  text: string
  /** By lower-case name. */
  headers: Readonly<Record<string, string | undefined>>
}

/** A request that may go on as it came, to upstreams that speak its client's format. */
export interface PassthroughRequest extends RawRequest {
  endpoint: PassthroughEndpoint
  /** The text, parsed. No object in it has a name twice. */
  json: JsonObject
}

export interface ChatTask extends TaskFacts {
  endpoint: Exclude<Endpoint, 'embeddings'>
  /** The canonical request. */
  body: CanonicalRequest
  /** What may go on as it came; left out where nothing may, as of chats. */
  passthrough?: PassthroughRequest
  /** Why it can go on as it came alone; left out where it can be written anew. */
  untranslatable?: GatewayError
  /**
   * What of its schemas strict mode of OpenAI's API does not allow: engines of one's own hold models to any schema. Left out where
   * there is nothing.
   */
  beyondStrict?: GatewayError
  /**
   * Whether the client asks the same of any model, as agents do that are made for one vendor's: what a model cannot do is then
   * taken out of the request, and not refused.
   */
  isForAnyModel?: true
  /** What its format alone knows of it, and writes the answer by. */
  own?: object
}

export interface EmbeddingsTask extends TaskFacts {
  endpoint: 'embeddings'
  body: EmbeddingsRequest
}

export type Task = ChatTask | EmbeddingsTask

/** What is known of a request of either kind. */
interface TaskFacts {
  /** What the client asked for: a slug or an alias. */
  model: string
  /** Whether the client wants a stream. */
  stream: boolean
  /** The most tokens that it lets a choice have; null where it gives no cap. */
  cap: number | null
  /** Tokens of the prompt, estimated from bytes. */
  promptTokens: number
  /** The same at most: a token a byte of what the estimate reads. */
  maxPromptTokens: number
  /** Who it is for, as the client names them; null where it does not. */
  user: string | null
  /** What does not change as a conversation goes on: requests of one conversation stay with one target. Worked out on demand. */
  affinity(): string
}

/**
 * Says in a canonical request that its client reads no thoughts because it has not asked for any, though the model may think. No name
 * that a client could give a field.
 */
export const UNREQUESTED_REASONING: unique symbol = Symbol('unasked thoughts')

/** The types of the parts of a message's content that are described here; others are for the upstream, whatever they hold. */
export const PART_TYPES: ReadonlySet<unknown> = new Set(['text', 'image_url', 'input_audio', 'file', 'refusal'])

/*
 * Which Tollgate servers a request has passed. Each adds its id to a header of its requests to upstreams and refuses what it has
 * sent on itself: an upstream that leads back would be called until files run out. An id is random, of one run, and says
 * nothing of its server. Pure.
 */

export const HOPS_HEADER = 'x-tollgate-hops'

/** Tollgate servers in a row. */
const MAX_HOPS = 8

/** What stands in the header between its commas; anything else is dropped. */
const HOP = /^[\w-]{1,64}$/

/** What an upstream is sent in the header: the servers before this one, and this one. Returns the refusal of a loop. */
export function addHop(passed: string | undefined, own: string): Decision<string> {
  if (passed === undefined) return own
  const hops = passed.split(',').flatMap((each) => HOP.exec(each.trim()) ?? [])
  if (hops.includes(own))
    return new GatewayError(
      'loop_detected',
      'This server sent the request to an upstream that leads back to this server. Correct the base_url of that upstream in the catalog.',
    )
  if (hops.length >= MAX_HOPS)
    return new GatewayError(
      'loop_detected',
      `The request has passed ${hops.length} Tollgate servers, and at most ${MAX_HOPS} may be chained. Correct the base_url of their upstreams in their catalogs.`,
    )
  return [...hops, own].join(',')
}
