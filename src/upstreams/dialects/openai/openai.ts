/**
 * The OpenAI dialect: the public chat-completions format itself, so near the identity. Pure. Whatever servers that
 * claim to speak it get wrong about an answer is put right here, where it becomes events.
 */

import type { UpstreamOptions } from '../../../domain/dialects.ts'
import { isPassed, isRouting } from '../../../domain/fields.ts'
import { asObject } from '../../../domain/json.ts'
import type { CanonicalRequest } from '../../../domain/request.ts'
import type { Target } from '../../../domain/snapshot.ts'
import { sourceTextOf } from '../../../domain/source-text.ts'
import { toAuthHeaders } from '../../auth.ts'
import type { Dialect } from '../../backend.ts'
import { toChatPath } from '../../chat-path.ts'
import { toListReadiness, toRetryAfterMs } from '../../failure.ts'
import { toChanged, toChanges } from './changes.ts'
import { toOwnConversation } from './conversation.ts'
import { AnswerDecoder } from './decoder.ts'
import { readEmbeddings, toEmbeddingBody } from './embeddings.ts'
import { askFurther } from './engine-facts.ts'
import { toBodyError } from './error.ts'
import { readModels } from './models.ts'
import { completions, responses } from './native.ts'
import { sayThinking } from './thinking.ts'
import { leaveChoice } from './tool-choice.ts'

export const openai: Dialect = {
  probe: { path: ({ options }) => `/models${toQuery(options)}`, readiness: toListReadiness },

  models: { path: ({ options }) => `/models${toQuery(options)}`, read: readModels, further: askFurther },

  headers: (upstream) => toAuthHeaders(upstream, upstream.options.auth ?? 'bearer'),

  requestIdHeader: 'x-request-id',

  request: (body, target) => ({ path: toPath(target), body: write(toSent(body, target)) }),

  whole: (json, expected, text) => new AnswerDecoder(expected).whole(asObject(json) ?? {}, text),

  decoder: (expected) => new AnswerDecoder(expected),

  native: { responses, completions },

  embeddings: {
    request: (body, embedding, target) => ({
      path: toEmbeddingPath(target),
      body: JSON.stringify(toEmbeddingBody(body, embedding, target)),
    }),
    whole: readEmbeddings,
  },

  failure: (status, body, headers, target) => toBodyError(status, body, target, toRetryAfterMs(headers)),
}

function toPath({ upstream: { options }, upstreamModel }: Target): string {
  const path = toChatPath(options, upstreamModel, CHATS)
  return options.query === undefined ? path : `${path}${toQuery(options)}`
}

const CHATS = '/chat/completions'

/** Beside the chats, where their path is of the usual make. */
function toEmbeddingPath({ upstream: { options }, upstreamModel }: Target): string {
  const path = toChatPath(options, upstreamModel, CHATS)
  const before = path.endsWith(CHATS) ? path.slice(0, -CHATS.length) : ''
  return `${before}/embeddings${toQuery(options)}`
}

const toQuery = ({ query }: UpstreamOptions): string => (query ? `?${new URLSearchParams(query)}` : '')

/** Changes what the upstream would not understand, by its settings; everything else goes as it came. */
function toSent(body: CanonicalRequest, target: Target): Record<string, unknown> {
  const { upstream, upstreamModel, features, options: ofModel } = target
  const { options } = upstream
  // JSON leaves out what is undefined.
  const sent: Record<string, unknown> = { ...body, model: upstreamModel }
  sent.messages = toOwnConversation(body.messages, target)
  for (const name in body) if (isRouting(name) && !isPassed(options.pass, name)) sent[name] = undefined
  if (body.metadata) sent.metadata = toLabels(body.metadata, options.pass)
  // Text is what every model writes; one that knows no other format may not know the field.
  const knowsFormats = features.includes('json_mode') || features.includes('structured_outputs')
  if (body.response_format?.type === 'text' && !knowsFormats) sent.response_format = undefined
  if (!options.user) sent.user = undefined
  if (!options.n) sent.n = undefined
  // Usage is always asked for: a stream without it could only be billed by an estimate.
  const isAsked = body.stream && options.stream_options !== false
  sent.stream_options = isAsked ? { ...body.stream_options, include_usage: true } : undefined
  if (ofModel.sampling === false) for (const name of SAMPLING) sent[name] = undefined
  sayThinking(sent, body, ofModel, options.effort_fields)
  if (options.tool_choice === 'auto') leaveChoice(sent, body)
  const own = toChanged(sent, toChanges(options).fields)
  if (options.extra_body) Object.assign(own, options.extra_body)
  const field = options.max_tokens_field
  const cap = body.max_completion_tokens ?? body.max_tokens ?? undefined
  if (field === null || cap === undefined) return own
  own.max_tokens = undefined
  own.max_completion_tokens = undefined
  own[field] = cap
  return own
}

const SAMPLING = ['temperature', 'top_p', 'top_k']

/** Writes JSON; a long conversation that nothing was changed in as it came. */
function write(sent: Record<string, unknown>): string {
  const { messages } = sent
  const text = typeof messages === 'object' && messages !== null ? sourceTextOf(messages) : undefined
  if (text === undefined) return JSON.stringify(sent)
  return `${JSON.stringify({ ...sent, messages: undefined }).slice(0, -1)},"messages":${text}}`
}

/** Some gateways read more than labels from it; texts are labels. */
function toLabels(metadata: Record<string, unknown>, pass: readonly string[]): Record<string, unknown> {
  const isLabel = ([name, value]: [string, unknown]) =>
    typeof value === 'string' || !isRouting(name) || isPassed(pass, name)
  return Object.fromEntries(Object.entries(metadata).filter(isLabel))
}
