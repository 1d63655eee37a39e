/** OpenAPI 3.1 of Gemini's other methods, and of its model list. */
import { Type } from '@sinclair/typebox'
import { Count, Text } from '../../documents/fields.ts'
import { ENDPOINT_PATHS } from '../../domain/task.ts'
import { GEMINI_METHODS, type GeminiMethod } from '../../formats/gemini/path.ts'
import { GeminiSchema } from '../../formats/gemini/schema.ts'
import { MODEL_IN_PATH } from './bodies.ts'
import { geminiErrors, headers, json, OPERATIONS, toBody, toCounted } from './operations.ts'

const { contents, ...fields } = GeminiSchema.properties
const Usage = Type.Object({ promptTokenCount: Count, totalTokenCount: Count, cost: Type.Number() })
const Vector = Type.Object({ values: Type.Array(Type.Number()) })
const EmbedRequest = Type.Object({
  content: Type.Object({ parts: Type.Array(Type.Object({ text: Text })) }),
  taskType: Type.Optional(Text),
  outputDimensionality: Type.Optional(Type.Integer({ minimum: 1 })),
})
const Model = Type.Object({
  name: Type.String({ description: '`models/` and the model ID or alias.' }),
  ...{ version: Text, displayName: Text, inputTokenLimit: Count, outputTokenLimit: Count },
  supportedGenerationMethods: Type.Array(Text),
  thinking: Type.Boolean(),
})

const { parameters = [], responses } = OPERATIONS.gemini
const own = { tags: ['gemini'], parameters }
const toAnswer = (description: string, schema: object, more: object = { headers }) => ({
  ...geminiErrors,
  200: { description, ...more, content: json(schema) },
})

const METHODS: Readonly<Record<Exclude<GeminiMethod, 'generateContent'>, object>> = {
  streamGenerateContent: {
    ...OPERATIONS.gemini,
    operationId: 'streamGenerateContent',
    summary: "Stream content in Gemini's format",
    parameters: [
      ...parameters,
      {
        ...{ name: 'alt', in: 'query', schema: { type: 'string', enum: ['sse'] } },
        description: '`sse`: server-sent events. Otherwise, the response is one JSON array.',
      },
    ],
    responses: {
      ...responses,
      200: {
        description: 'Parts of the response. The last has the finish reason, the usage, and the cost.',
        headers,
        content: { ...json({ type: 'array', items: { type: 'object' } }), 'text/event-stream': { schema: Text } },
      },
    },
  },
  countTokens: {
    ...own,
    operationId: 'countGeminiTokens',
    summary: "Count tokens in Gemini's format",
    requestBody: toBody(
      ', of a request with `contents`, or with a whole one in `generateContentRequest`.',
      Type.Object({
        ...{ contents: Type.Optional(contents), ...fields },
        generateContentRequest: Type.Optional(GeminiSchema),
      }),
    ),
    responses: { ...geminiErrors, ...toCounted(Type.Object({ totalTokens: Count })) },
  },
  embedContent: {
    ...own,
    operationId: 'embedContent',
    summary: "Create an embedding in Gemini's format",
    requestBody: toBody(", in Gemini's format.", EmbedRequest),
    responses: toAnswer('The vector.', Type.Object({ embedding: Vector, usageMetadata: Usage })),
  },
  batchEmbedContents: {
    ...own,
    operationId: 'batchEmbedContents',
    summary: "Create embeddings in Gemini's format",
    requestBody: toBody(
      ", in Gemini's format. All requests have the same settings.",
      Type.Object({ requests: Type.Array(EmbedRequest, { minItems: 1 }) }),
    ),
    responses: toAnswer(
      'A vector for each request, in order.',
      Type.Object({ embeddings: Type.Array(Vector), usageMetadata: Usage }),
    ),
  },
}

const toPath = (method: GeminiMethod) => ENDPOINT_PATHS.gemini.replace('generateContent', method)

/** Also below `/v1/models`. */
export const GEMINI_PATHS = {
  ...Object.fromEntries(
    GEMINI_METHODS.flatMap((method) =>
      method === 'generateContent' ? [] : [[toPath(method), { post: METHODS[method] }]],
    ),
  ),
  '/v1beta/models': {
    get: {
      ...{ operationId: 'listGeminiModels', tags: ['gemini'] },
      summary: "List models that Gemini's methods can call",
      responses: toAnswer("Models in Gemini's format.", Type.Object({ models: Type.Array(Model) }), {}),
    },
  },
  '/v1beta/models/{model}': {
    get: {
      ...{ operationId: 'getGeminiModel', tags: ['gemini'], parameters: [MODEL_IN_PATH] },
      summary: "Get a model in Gemini's format",
      responses: toAnswer('The model.', Model, {}),
    },
  },
}
