/** Paths of Gemini's API: the version, the model, and the method after the last colon. Also its model list. */
import { GatewayError } from '../../domain/error.ts'
import { endpointsOf, type Model } from '../../domain/models.ts'

export const GEMINI_METHODS = [
  'generateContent',
  'streamGenerateContent',
  'countTokens',
  'embedContent',
  'batchEmbedContents',
] as const
export type GeminiMethod = (typeof GEMINI_METHODS)[number]

export interface GeminiCall {
  model: string
  method: GeminiMethod
}

const PATH = /^\/v1(?:beta)?\/models\/(.+)(?::|%3a)(\w+)$/i

const METHOD_WITHIN = new RegExp(`(?::|%3a)(?:${GEMINI_METHODS.join('|')})\\b`, 'i')

/** The allowed HTTP method: POST at a method of a model, GET at a model. Null for other paths. */
export const toAllowed = (path: string): 'GET' | 'POST' | null => {
  if (!/^\/v1(?:beta)?\/models\/./.test(path)) return null
  return toGeminiCall(path) === null ? 'GET' : 'POST'
}

/** Parses the path. Null for an unknown method or a malformed name. */
export function toGeminiCall(path: string): GeminiCall | null {
  const [, name = '', word = ''] = PATH.exec(path) ?? []
  const method = GEMINI_METHODS.find((known) => known === word)
  const model = toModelId(name)
  return method && model ? { model, method } : null
}

/** Explains a call of a method that isn't supported, such as Imagen's `predict`; null for any other path. */
export function explainMethod({ method }: Request, path: string): GatewayError | null {
  const [, , word] = (method === 'POST' && PATH.exec(path)) || []
  if (!path.startsWith('/v1beta/') || word === undefined || GEMINI_METHODS.some((known) => known === word)) return null
  const why = `The method \`${word.slice(0, 40)}\` is not supported. Use ${GEMINI_METHODS.join(', ')}.`
  return new GatewayError('unknown_url', why)
}

/** The model ID of a name, which may be escaped and begin with `models/`; null if it is malformed. */
export function toModelId(name: string): string | null {
  try {
    return decodeURIComponent(name).replace(/^models\//, '') || null
  } catch {
    return null
  }
}

/**
 * True if a request is in Gemini's API format. Google's current clients also use `/v1/models`, where the header of their
 * key identifies them.
 */
export function isGeminis(request: Request, path: string): boolean {
  if (path.startsWith('/v1beta/')) return true
  if (path !== '/v1/models' && !path.startsWith('/v1/models/')) return false
  return request.headers.has('x-goog-api-key') || METHOD_WITHIN.test(path)
}

type ListedFacts = 'name' | 'context_length' | 'max_output_length' | 'output_modalities' | 'supported_features'

/** Methods of a model. Empty if Gemini's API can't call the model, such as a speech model. */
export function toMethods({ output_modalities: made }: Pick<Model, 'output_modalities'>): GeminiMethod[] {
  const able = endpointsOf(made)
  return [
    ...(able.includes('chat') ? (['generateContent', 'countTokens'] as const) : []),
    ...(able.includes('embeddings') ? (['embedContent'] as const) : []),
  ]
}

/** A model in Google's list format (ai.google.dev/api/models). @param id its model ID or an alias */
export function toGeminiModel(facts: Pick<Model, ListedFacts>, id: string): object {
  return {
    name: `models/${id}`,
    version: '',
    displayName: facts.name,
    inputTokenLimit: facts.context_length,
    outputTokenLimit: facts.max_output_length,
    supportedGenerationMethods: toMethods(facts),
    thinking: facts.supported_features.includes('reasoning'),
  }
}

/** The key that some clients send in the URL. It must not reach a log. */
export const keyInUrl = (request: Request): string | null =>
  request.url.includes('key=') ? (URL.parse(request.url)?.searchParams.get('key') ?? null) : null
