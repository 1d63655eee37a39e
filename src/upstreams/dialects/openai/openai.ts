/** The OpenAI dialect, nearly the identity. Servers' deviations from the format are corrected here, where responses become events. */
import type { Target } from '../../../domain/snapshot.ts'
import { CHATS, toAuthHeaders, toChatPath, toEndpointPath, toQuery } from '../../auth.ts'
import { toListReadiness } from '../../failure.ts'
import type { WireFormat } from '../dialect.ts'
import { completions } from './completions.ts'
import { AnswerDecoder } from './decoder.ts'
import { readEmbeddings, toEmbeddingBody } from './embeddings.ts'
import { openAiErrors } from './errors.ts'
import { askFurther, readModels } from './models.ts'
import { toRequestText } from './request.ts'
import { responses } from './responses.ts'

export const openai: WireFormat = {
  probe: { path: ({ options }) => `/models${toQuery(options)}`, readiness: toListReadiness },

  models: { path: ({ options }) => `/models${toQuery(options)}`, read: readModels, further: askFurther },

  headers: (upstream) => toAuthHeaders(upstream, upstream.options.auth ?? 'bearer'),

  requestIdHeader: 'x-request-id',

  request: (body, target) => ({ path: toPath(target), ...toRequestText(body, target) }),

  whole: (json, expected, text) => new AnswerDecoder(expected).whole(json, text),

  decoder: (expected) => new AnswerDecoder(expected),

  framing: 'events',

  passthrough: { responses, completions },

  embeddings: {
    request: (asked, target) => ({
      path: toEmbeddingPath(target),
      body: JSON.stringify(toEmbeddingBody(asked, target)),
    }),
    whole: readEmbeddings,
  },

  endpoints: {
    rerank: async () => (await import('./rerank.ts')).rerank,
    speech: async () => (await import('./speech.ts')).speech,
    moderations: async () => (await import('./moderations.ts')).moderations,
    transcriptions: async () => (await import('./transcriptions.ts')).transcriptions,
    images: async () => (await import('./images.ts')).images,
    image_edits: async () => (await import('./images.ts')).images,
    translations: async () => (await import('./transcriptions.ts')).transcriptions,
  },

  errors: openAiErrors,
}

function toPath({ upstream: { options }, upstreamModel }: Target): string {
  const path = toChatPath(options, upstreamModel, CHATS)
  return options.query === undefined ? path : `${path}${toQuery(options)}`
}

const toEmbeddingPath = (target: Target) => toEndpointPath(target, '/embeddings')
