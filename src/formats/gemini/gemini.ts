/** Gemini's own API as a client format. The model and the method are in the path, so each request has its own format. */
import { GatewayError } from '../../domain/error.ts'
import { asObject } from '../../domain/json.ts'
import type { CanonicalRequest } from '../../domain/request.ts'
import type { ChatTask } from '../../domain/task.ts'
import { measurePrompt } from '../../tokens/estimate.ts'
import { toPassthroughRequest } from '../../upstreams/dialects/passthrough.ts'
import { toAffinity } from '../chat/chat.ts'
import { type CountingFormat, type Format, KEEP_ALIVE, type PassthroughWriters } from '../format.ts'
import { toPassthroughWriters, withPassthrough } from '../passthrough.ts'
import { ArrayWriter, GeminiWriter, PassthroughArrayWriter, toErrorFrame, toGeminiJson } from './answer.ts'
import { createEmbeddings } from './embeddings.ts'
import { geminiErrors } from './errors.ts'
import type { GeminiMethod } from './path.ts'
import { findUntranslatable, toCanonical, validate } from './request.ts'

const events = toPassthroughWriters({
  toNames: ({ id, model }) => ({ responseId: JSON.stringify(id), modelVersion: JSON.stringify(model) }),
  keepAlive: KEEP_ALIVE,
  failure: toErrorFrame,
})

const arrays: PassthroughWriters = {
  ...events,
  writer: (identity) => new PassthroughArrayWriter(events.writer(identity)),
}

/** @param isEvents false for a stream as one JSON array. */
const createGenerating = (model: string, stream: boolean, isEvents: boolean): Format => ({
  ...geminiErrors,
  toTask(body, raw) {
    const request = validate(body)
    if (request instanceof GatewayError) return request
    const canonical = toCanonical(model, stream, request)
    if (canonical instanceof GatewayError) return canonical
    const untranslatable = findUntranslatable(request)
    const task = { ...toTask(canonical), ...(untranslatable ? { untranslatable } : {}) }
    return withPassthrough(task, toPassthroughRequest('gemini', body, raw))
  },
  passthrough: isEvents ? events : arrays,
  whole: (task, identity, said, receipt) => toGeminiJson(task as ChatTask, identity, said, receipt),
  writer(task, identity) {
    const writer = new GeminiWriter(task as ChatTask, identity)
    return isEvents ? writer : new ArrayWriter(writer)
  },
})

const createCounting = (model: string): CountingFormat => ({
  ids: geminiErrors.ids,
  answer: (totalTokens) => ({ totalTokens }),
  toTask(body) {
    const { generateContentRequest, generate_content_request, ...rest } = asObject(body) ?? {}
    const request = validate(generateContentRequest ?? generate_content_request ?? rest)
    if (request instanceof GatewayError) return request
    const canonical = toCanonical(model, false, request)
    return canonical instanceof GatewayError ? canonical : toTask(canonical)
  },
})

const toTask = (body: CanonicalRequest): ChatTask => ({
  endpoint: 'gemini',
  model: body.model,
  body,
  stream: body.stream === true,
  cap: body.max_tokens ?? null,
  ...measurePrompt(body),
  user: null,
  affinity: () => toAffinity(body.messages),
  isForAnyModel: true,
})

export type GeminiFormat = { format: Format } | { counting: CountingFormat }

const METHODS: Readonly<Record<GeminiMethod, (model: string, isEvents: boolean) => GeminiFormat>> = {
  generateContent: (model) => ({ format: createGenerating(model, false, true) }),
  streamGenerateContent: (model, isEvents) => ({ format: createGenerating(model, true, isEvents) }),
  countTokens: (model) => ({ counting: createCounting(model) }),
  embedContent: (model) => ({ format: createEmbeddings(model, false) }),
  batchEmbedContents: (model) => ({ format: createEmbeddings(model, true) }),
}

/** @param isEvents whether a stream is sent as events (`alt=sse`). */
export const createGemini = (model: string, method: GeminiMethod, isEvents: boolean): GeminiFormat =>
  METHODS[method](model, isEvents)
