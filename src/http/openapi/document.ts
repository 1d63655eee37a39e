/** OpenAPI 3.1 of the public API. It contains nothing of the configuration. */
import { PublicModel } from '../../documents/model.ts'
import { keysOf } from '../../domain/json.ts'
import { RequestSchema } from '../../domain/request.ts'
import { COUNT_PATHS, ENDPOINT_PATHS } from '../../domain/task.ts'
import { EmbeddingSchema } from '../../formats/embeddings/schema.ts'
import { EditsSchema, ImagesSchema } from '../../formats/images/schema.ts'
import { ModerationsSchema } from '../../formats/moderations/schema.ts'
import { RerankSchema } from '../../formats/rerank/schema.ts'
import { SpeechSchema } from '../../formats/speech/schema.ts'
import { BATCH_PATHS, Batch, BatchFile } from './batches.ts'
import { EmbeddingList, ImageList, MODEL_IN_PATH, ModerationList, RankedList } from './bodies.ts'
import { GEMINI_PATHS } from './gemini.ts'
import { COUNT_OPERATIONS, json, NO_KEY, OPERATIONS, toErrors } from './operations.ts'
import { ApiError, ChatCompletion, ChatCompletionChunk, ChatUsage, Health, ModelList } from './schemas.ts'

const ok = (description: string, schema: object) => ({ 200: { description, content: json(schema) } })

const toPaths = <Name extends string>(
  paths: Readonly<Record<Name, string>>,
  operations: Readonly<Record<Name, object>>,
) => Object.fromEntries(keysOf(paths).map((name) => [paths[name], { post: operations[name] }]))

const DOCUMENT = {
  openapi: '3.1.1',
  info: {
    title: 'Tollgate',
    version: '1',
    description:
      "OpenAI's Chat Completions, Responses, Embeddings, Images, Moderations, Files, and Batches APIs, Anthropic's Messages and Message Batches APIs, Gemini's API, and Cohere's Rerank API, for every model behind this gateway. Errors use the format of each API, and responses include their cost.",
  },
  servers: [{ url: '/' }],
  security: [{ key: [] }],
  tags: [
    'chat',
    'responses',
    'messages',
    'gemini',
    'embeddings',
    'rerank',
    'moderations',
    'audio',
    'images',
    'files',
    'batches',
    'models',
    'server',
  ].map((name) => ({
    name,
  })),
  components: {
    securitySchemes: {
      key: {
        type: 'http',
        scheme: 'bearer',
        description: 'API key, `sk-tg-…`. The headers `x-api-key`, `api-key`, and `x-goog-api-key` also work.',
      },
    },
  },
  paths: {
    ...toPaths(ENDPOINT_PATHS, OPERATIONS),
    '/v2/rerank': { post: { ...OPERATIONS.rerank, operationId: 'rerankV2' } },
    ...toPaths(COUNT_PATHS, COUNT_OPERATIONS),
    ...GEMINI_PATHS,
    ...BATCH_PATHS,
    '/v1/models': {
      get: {
        operationId: 'listModels',
        summary: 'List models available to the key',
        tags: ['models'],
        responses: { ...ok('Models, including aliases.', ModelList), ...NO_KEY },
      },
    },
    '/v1/models/{model}': {
      get: {
        operationId: 'getModel',
        summary: 'Get a model',
        tags: ['models'],
        parameters: [MODEL_IN_PATH],
        responses: {
          ...ok('The model.', PublicModel),
          ...NO_KEY,
          ...toErrors({ 404: 'Unknown model, or not allowed for this key.' }),
        },
      },
    },
    '/v1/openapi.json': {
      get: {
        operationId: 'getDescription',
        summary: 'Get this description',
        tags: ['server'],
        security: [],
        responses: ok('OpenAPI 3.1.', { type: 'object' }),
      },
    },
    '/healthz': {
      get: {
        operationId: 'getHealth',
        summary: 'Check liveness',
        tags: ['server'],
        security: [],
        responses: ok('The process is running.', Health),
      },
    },
    '/readyz': {
      get: {
        operationId: 'getReadiness',
        summary: 'Check readiness',
        tags: ['server'],
        security: [],
        responses: {
          ...ok('Accepting requests: `ok` or `degraded`.', Health),
          503: { description: 'Not accepting requests; `status` gives the reason.', content: json(Health) },
        },
      },
    },
  },
}

/** Bodies and responses, also of the playground. */
export const OF_ENDPOINTS = {
  ...{ ChatRequest: RequestSchema, ChatCompletion },
  ...{ EmbeddingRequest: EmbeddingSchema, EmbeddingList },
  ...{
    RerankRequest: RerankSchema,
    RankedList,
    SpeechRequest: SpeechSchema,
    ModerationsRequest: ModerationsSchema,
    ModerationList,
  },
  ...{ ImagesRequest: ImagesSchema, EditsRequest: EditsSchema, ImageList },
}
const NAMED = {
  ...OF_ENDPOINTS,
  ...{ Batch, File: BatchFile },
  ...{ ChatCompletionChunk, ChatUsage, Error: ApiError, Health, Model: PublicModel, ModelList },
}

export const toPublicDocument = () => withComponents(DOCUMENT, NAMED)

type Json = Readonly<Record<string, unknown>>

/** Moves the named schemas to `components` and refers to them. */
export function withComponents(document: Json, named: Readonly<Record<string, object>>): Json {
  const names = new Map(Object.entries(named).map(([name, schema]) => [schema, name]))
  const write = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(write)
    if (typeof value !== 'object' || value === null) return value
    const name = names.get(value)
    return name === undefined ? spread(value) : { $ref: `#/components/schemas/${name}` }
  }
  const spread = (value: object) =>
    toShort(Object.fromEntries(Object.entries(value).map(([field, held]) => [field, write(held)])))
  const schemas = Object.fromEntries(Object.entries(named).map(([name, schema]) => [name, spread(schema)]))
  const components = (document.components ?? {}) as Json
  return { ...spread(document), components: { ...components, schemas } }
}

/** Shortens alternatives of words to an `enum`, and those of a plain type and null to a list of types. */
function toShort(schema: Json): Json {
  const { anyOf, ...rest } = schema
  if (!Array.isArray(anyOf)) return schema
  const others = anyOf.filter(({ type }: Json) => type !== 'null')
  const isNull = others.length < anyOf.length
  const [only] = others
  if (others.every((one: Json) => typeof one.const === 'string')) {
    const words = others.map((one: Json) => one.const)
    return { ...rest, type: isNull ? ['string', 'null'] : 'string', enum: isNull ? [...words, null] : words }
  }
  if (others.length > 1 || typeof only?.type !== 'string' || only.enum !== undefined) return schema
  return isNull ? { ...rest, ...only, type: [only.type, 'null'] } : { ...rest, ...only }
}
