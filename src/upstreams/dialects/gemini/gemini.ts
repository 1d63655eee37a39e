/** The Gemini dialect: generateContent and streamGenerateContent, of Google AI Studio (v1beta) and Vertex. */
import { toDefined } from '../../../domain/changes.ts'
import { asList, asObject, asText, type JsonObject } from '../../../domain/json.ts'
import type { ListedModel } from '../../../domain/model-server.ts'
import type { Modality } from '../../../domain/models.ts'
import { isServiceAccount } from '../../auth.ts'
import { toReadiness } from '../../failure.ts'
import type { ModelPage, WireFormat } from '../dialect.ts'
import { toTitle, toTokens } from '../readings.ts'
import { AnswerDecoder } from './decoder.ts'
import { readEmbeddings, toEmbeddingRequest } from './embeddings.ts'
import { geminiErrors } from './errors.ts'
import { generate } from './generate.ts'
import { toWireRequest } from './request.ts'

export const gemini: WireFormat = {
  // A wrong key gets a 400. This request can't get a 400 for any other reason.
  probe: { path: () => '/models?pageSize=1', readiness: (status) => toReadiness('/models', status, [400, 401]) },

  models: {
    path: (_, after) => `/models?pageSize=1000${after === null ? '' : `&pageToken=${encodeURIComponent(after)}`}`,
    read: readModels,
  },

  // A key in the URL, as in Google's examples, would appear in logs.
  headers: (upstream) =>
    // A service account gets a token per request.
    upstream.credential === null || isServiceAccount(upstream) ? {} : { 'x-goog-api-key': upstream.credential },

  requestIdHeader: 'x-request-id',

  request: toWireRequest,

  whole: (json, expected, text) => new AnswerDecoder(expected).whole(json, text),

  decoder: (expected) => new AnswerDecoder(expected),

  framing: 'events',

  passthrough: { gemini: generate },

  embeddings: { request: toEmbeddingRequest, whole: readEmbeddings },

  endpoints: {
    images: async () => (await import('./images.ts')).images,
    image_edits: async () => (await import('./images.ts')).images,
  },

  errors: geminiErrors,
}

/** Gemini's model list (`GET /v1beta/models`), with token limits. */
export function readModels(json: unknown): ModelPage | null {
  const page = asObject(json)
  if (!Array.isArray(page?.models)) return null
  const next = asText(page.nextPageToken)
  return { models: page.models.map(asObject).map(toListed), next: next === '' ? null : next }
}

const EMBEDDINGS: Modality[] = ['embeddings']

function toListed(entry: JsonObject | null): ListedModel {
  const {
    name,
    displayName,
    inputTokenLimit,
    outputTokenLimit,
    supportedGenerationMethods: methods,
    thinking,
  } = entry ?? {}
  const oddities: string[] = []
  const input = toTokens(inputTokenLimit, 'inputTokenLimit', oddities)
  const embeds = asList(methods).includes('embedContent') && !asList(methods).includes('generateContent')
  const output = toTokens(outputTokenLimit, 'outputTokenLimit', oddities)
  return {
    id: asText(name).replace(/^models\//, ''),
    ...toDefined({
      name: toTitle(displayName),
      contextLength: input,
      maxOutputLength: output,
      outputModalities: embeds ? EMBEDDINGS : undefined,
      can: toDefined({ reasoning: typeof thinking === 'boolean' ? thinking : undefined }),
      canChat: Array.isArray(methods) && !asList(methods).includes('generateContent') ? false : undefined,
      oddities,
    }),
  }
}
