/** A request in any client format. Embeddings are here, chats in `request.ts`. */

import type { PassthroughEndpoint } from './dialects.ts'
import { type EndpointInput, EndpointRequest } from './endpoint-request.ts'
import { type Decision, GatewayError } from './error.ts'
import { type JsonObject, keysOf } from './json.ts'
import type { CanonicalRequest } from './request.ts'

/** Or token numbers. */
export type EmbeddingInput = EndpointInput

export class EmbeddingsRequest extends EndpointRequest {
  readonly endpoint = 'embeddings'

  /**
   * @param inputs never empty, nor is any of them.
   * @param dimensions null = the model's default.
   * @param encoding `base64`: little-endian 32-bit floats.
   * @param extras fields that only the upstream may know.
   */
  constructor(
    readonly model: string,
    readonly inputs: readonly EmbeddingInput[],
    readonly dimensions: number | null,
    readonly encoding: 'float' | 'base64',
    readonly user: string | null,
    readonly extras: Readonly<JsonObject>,
  ) {
    super()
  }

  of(inputs: readonly EmbeddingInput[]): EmbeddingsRequest {
    const { model, dimensions, encoding, user, extras } = this
    return new EmbeddingsRequest(model, inputs, dimensions, encoding, user, extras)
  }
}

/** Numbers keep all digits; always finite. */
export type Vector = Float32Array | readonly number[]

/** By name in the ledger. */
export const ENDPOINT_PATHS = {
  chat: '/v1/chat/completions',
  messages: '/v1/messages',
  responses: '/v1/responses',
  completions: '/v1/completions',
  gemini: '/v1beta/models/{model}:generateContent',
  embeddings: '/v1/embeddings',
  rerank: '/v1/rerank',
  moderations: '/v1/moderations',
  transcriptions: '/v1/audio/transcriptions',
  translations: '/v1/audio/translations',
  speech: '/v1/audio/speech',
  images: '/v1/images/generations',
  image_edits: '/v1/images/edits',
} as const
export type Endpoint = keyof typeof ENDPOINT_PATHS

/** A WebSocket. Each turn is a request in the ledger. */
export const REALTIME_PATH = '/v1/realtime'

/** As in the ledger. */
export const RECORDED_PATHS = { ...ENDPOINT_PATHS, realtime: REALTIME_PATH } as const
export type RecordedEndpoint = keyof typeof RECORDED_PATHS
export const RECORDED_ENDPOINTS = keysOf(RECORDED_PATHS)

/** Alternative paths. Cohere's clients use this one. */
export const MORE_PATHS = { rerank: ['/v2/rerank'] } as const satisfies Partial<Record<Endpoint, readonly string[]>>

export const CHAT_ENDPOINTS = ['chat', 'messages', 'responses', 'completions', 'gemini'] as const satisfies Endpoint[]
export type ChatEndpoint = (typeof CHAT_ENDPOINTS)[number]
export type OtherEndpoint = Exclude<Endpoint, ChatEndpoint>

/** For counting tokens. */
export const COUNT_PATHS = {
  messages: '/v1/messages/count_tokens',
  responses: '/v1/responses/input_tokens',
} as const satisfies Partial<Record<Endpoint, string>>

/** `native`: unchanged; `translated`: parsed and rewritten. */
export type Lane = 'native' | 'translated'

export interface RawRequest {
  /** JSON. */
  text: string
  /** By lowercase name. */
  headers: Readonly<Record<string, string | undefined>>
}

export interface PassthroughRequest extends RawRequest {
  endpoint: PassthroughEndpoint
  /** Without duplicate names. */
  json: JsonObject
}

export interface ChatTask extends TaskFacts {
  endpoint: ChatEndpoint
  body: CanonicalRequest
  /** Never for chats. */
  passthrough?: PassthroughRequest
  /** Why it can only pass through. */
  untranslatable?: GatewayError
  /** Exceeds OpenAI's strict mode; local engines enforce any schema. */
  beyondStrict?: GatewayError
  /** Agents built for one vendor send the same features to every model: unsupported ones are removed, not rejected. */
  isForAnyModel?: true
  /** Data that the format needs to write the response. */
  own?: object
}

/** For any other endpoint. */
export interface EndpointTask<Body extends EndpointRequest = EndpointRequest> extends TaskFacts {
  endpoint: OtherEndpoint
  body: Body
}

export type EmbeddingsTask = EndpointTask<EmbeddingsRequest>

export type Task = ChatTask | EndpointTask

export const isChat = (task: Task): task is ChatTask => !(task.body instanceof EndpointRequest)

interface TaskFacts {
  /** ID or alias, as requested. */
  model: string
  stream: boolean
  /** Output tokens per choice; null if none. */
  cap: number | null
  /** Estimated from bytes. */
  promptTokens: number
  /** One token per byte. */
  maxPromptTokens: number
  /** As reported by the client. */
  user: string | null
  /** Constant during a conversation, whose requests go to one target. Computed on demand. */
  affinity(): string
}

/** The client ignores reasoning, as it did not ask for any. A symbol, so that no client field has this name. */
export const UNREQUESTED_REASONING: unique symbol = Symbol('unrequested reasoning')

/** Other types are passed on. */
export const PART_TYPES: ReadonlySet<unknown> = new Set(['text', 'image_url', 'input_audio', 'file', 'refusal'])

/* Loop detection: each server adds its ID to a header, and rejects requests with its own ID, before file descriptors run out. The ID is random per run. */

export const HOPS_HEADER = 'x-tollgate-hops'

/** In a row. */
const MAX_HOPS = 8

/** Others are dropped. */
const HOP = /^[\w-]{1,64}$/

/** Returns the header to send, or the error of a loop. */
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
