/** OpenAPI 3.1 of the model endpoints: requests, responses, and errors. */

import { Type } from '@sinclair/typebox'
import { Count, Text } from '../../documents/fields.ts'
import { RequestSchema } from '../../domain/request.ts'
import type { COUNT_PATHS, Endpoint } from '../../domain/task.ts'
import { EmbeddingSchema } from '../../formats/embeddings/schema.ts'
import { GeminiSchema } from '../../formats/gemini/schema.ts'
import { EditsSchema, ImagesSchema } from '../../formats/images/schema.ts'
import { CountSchema, MessagesSchema } from '../../formats/messages/schema.ts'
import { ModerationsSchema } from '../../formats/moderations/schema.ts'
import { RerankSchema } from '../../formats/rerank/schema.ts'
import { ResponsesSchema } from '../../formats/responses/schema.ts'
import { SpeechSchema } from '../../formats/speech/schema.ts'
import { MAX_BODY_BYTES } from '../../gateway/read.ts'
import {
  AudioForm,
  CompletionRequest,
  EditsForm,
  EmbeddingList,
  GeminiResponse,
  ImageList,
  Message,
  MODEL_IN_PATH,
  ModerationList,
  RankedList,
  Response,
} from './bodies.ts'
import { ApiError, ChatCompletion } from './schemas.ts'

interface Operation {
  operationId: string
  summary: string
  tags: [string]
  parameters?: readonly object[]
  requestBody: object
  responses: Readonly<Record<string, unknown>>
}

const text = { schema: { type: 'string' } }

export const json = (schema: object) => ({ 'application/json': { schema } })

type Statuses = Readonly<Record<number, string>>

const toErrorsOf = (schema: object, statuses: Statuses) =>
  Object.fromEntries(
    Object.entries(statuses).map(([status, description]) => [status, { description, content: json(schema) }]),
  )

export const toErrors = (statuses: Statuses) => toErrorsOf(ApiError, statuses)

export const NO_KEY = toErrors({
  401: 'Missing or invalid API key.',
  403: 'The key is not allowed from this IP address: `ip_not_allowed`.',
})

const FAILURES = {
  400: 'Invalid request: `param` names the field. If the prompt is too long: `context_length_exceeded`.',
  404: 'Unknown model, or not allowed for this key: `model_not_found`.',
  408: 'Timed out receiving the request body.',
  413: 'Request body too large.',
  429: 'Rate limit, budget (`insufficient_quota`), or fair-share limit reached. See `retry-after`.',
  500: 'Internal error. See the server log for this `x-request-id`.',
  502: 'The provider failed, or its output did not match the schema.',
  503: 'The model is not ready, or the server is overloaded or shutting down. Try again.',
  504: 'The provider timed out.',
  508: 'Loop: an upstream leads back to a Tollgate server the request has passed through.',
}
const errors = { ...toErrors(FAILURES), ...NO_KEY }

const { 503: unavailable, ...others } = FAILURES
const messagesErrors = toErrorsOf(
  Type.Object({ type: Type.Literal('error'), error: Type.Object({ type: Text, message: Text }), request_id: Text }),
  {
    ...others,
    401: 'Missing or invalid API key.',
    403: 'The key is not allowed from this IP address.',
    400: 'Invalid request: the message starts with the field, or is `prompt is too long: …`.',
    404: 'Unknown model, or not allowed for this key.',
    529: unavailable,
  },
)

export const geminiErrors = toErrorsOf(
  Type.Object({
    error: Type.Object({
      code: Count,
      message: Text,
      status: Text,
      details: Type.Array(Type.Object({ '@type': Text })),
    }),
  }),
  {
    ...FAILURES,
    401: 'Missing or invalid API key.',
    403: 'The key is not allowed from this IP address.',
    400: 'Invalid request: the message starts with the field.',
    404: 'Unknown method or model, or not allowed for this key.',
  },
)

export const headers = {
  'x-request-id': { description: 'Request ID, as in the request history.', ...text },
  'x-tollgate-upstream': { description: 'Upstream that responded.', ...text },
  'x-tollgate-attempts': { description: 'Number of calls made.', schema: { type: 'integer' } },
  'x-tollgate-passthrough': {
    description: "`true`: the upstream's own response, passed through. `false`: translated from another API format.",
    schema: { type: 'string', enum: ['true', 'false'] },
  },
  'x-tollgate-output-cap': {
    description:
      'Output cap in tokens per choice, set because the budget does not cover the maximum output. Absent otherwise.',
    schema: { type: 'integer' },
  },
  'x-tollgate-limits': {
    description:
      "`share`: this node of a cluster can't reach the limits of all nodes, and enforces its share. Absent otherwise.",
    schema: { type: 'string', enum: ['share'] },
  },
}

export const toBody = (description: string, schema: object) => ({
  required: true,
  description: `JSON of at most ${MAX_BODY_BYTES / 1024 ** 2} MiB${description}`,
  content: json(schema),
})

const toStreamed = (description: string, schema: object) => ({
  200: { description, headers, content: { ...json(schema), 'text/event-stream': text } },
})

const toImages = (kind: string) =>
  toStreamed(
    `The images, as URLs or base64, as the provider returns them. With \`stream: true\`, events \`${kind}.partial_image\`, and last \`${kind}.completed\` with the usage.`,
    ImageList,
  )

function toAudio(operationId: string, summary: string, form: object, streamed: object): Operation {
  return {
    ...{ operationId, summary, tags: ['audio'] },
    requestBody: {
      required: true,
      description: `A form of at most ${MAX_BODY_BYTES / 1024 ** 2} MiB. Forwarded unchanged, except for the model.`,
      content: { 'multipart/form-data': { schema: form } },
    },
    responses: {
      200: {
        description: "The provider's response in the requested format.",
        headers,
        content: { ...json(Type.Object({ text: Text })), 'text/plain': text, ...streamed },
      },
      ...errors,
    },
  }
}

export const toCounted = (schema: object) => ({
  200: {
    description: 'Number of tokens in the request, counted without calling the provider. Free.',
    content: json(schema),
  },
})

const OF_ANTHROPIC =
  ", in Anthropic's format. Fields and blocks not listed here are dropped, and so are tools that only their provider can run."
const OF_GEMINI =
  ", in Gemini's format, with names in camel case or snake case. Fields not listed here are dropped unless the upstream has this API, too. Tools that only Google can run are rejected for other upstreams."
const OF_RESPONSES =
  ", in OpenAI's format. Fields and items not listed here are dropped, and so are tools that only their provider can run. Nothing is stored: `previous_response_id`, `conversation`, `prompt`, and `background` are rejected."

export const OPERATIONS: Readonly<Record<Endpoint, Operation>> = {
  chat: {
    operationId: 'createChatCompletion',
    summary: 'Create a chat completion',
    tags: ['chat'],
    requestBody: toBody(
      ", in OpenAI's format. Null means absent. Fields not listed here are sent to the model's provider.",
      RequestSchema,
    ),
    responses: {
      ...toStreamed(
        'The completion. With `stream: true`, server-sent events: each `data:` is a ChatCompletionChunk, the last is `[DONE]`, and comments are keep-alives. If the stream fails, its last event has an `error`.',
        ChatCompletion,
      ),
      ...errors,
    },
  },
  responses: {
    operationId: 'createResponse',
    summary: 'Create a response',
    tags: ['responses'],
    requestBody: toBody(OF_RESPONSES, ResponsesSchema),
    responses: {
      ...toStreamed(
        "The response, which repeats the request's fields. With `stream: true`, the numbered events of this API, the last of them `response.completed`, `response.incomplete`, or `response.failed`; comments are keep-alives.",
        Response,
      ),
      ...errors,
    },
  },
  messages: {
    operationId: 'createMessage',
    summary: 'Create a message',
    tags: ['messages'],
    requestBody: toBody(OF_ANTHROPIC, MessagesSchema),
    responses: {
      ...toStreamed(
        'The message. With `stream: true`, the events of this API, from `message_start` to `message_stop`. Keep-alives are pings, or comments before the first event. If the stream fails, its last event is `error`.',
        Message,
      ),
      ...messagesErrors,
    },
  },
  completions: {
    operationId: 'createCompletion',
    summary: 'Create a legacy completion',
    tags: ['chat'],
    requestBody: toBody('. Passed through unchanged, with fields not listed here.', CompletionRequest),
    responses: {
      ...toStreamed(
        'The response, passed through from the upstream. With `stream: true`, server-sent events. If the stream fails, its last event has an `error`.',
        Type.Object({ id: Type.String(), model: Type.String() }),
      ),
      ...errors,
    },
  },
  gemini: {
    operationId: 'generateContent',
    summary: "Generate content in Gemini's format",
    tags: ['gemini'],
    parameters: [MODEL_IN_PATH],
    requestBody: toBody(OF_GEMINI, GeminiSchema),
    responses: {
      200: { description: 'The response. Its `usageMetadata` has the cost.', headers, content: json(GeminiResponse) },
      ...geminiErrors,
    },
  },
  embeddings: {
    operationId: 'createEmbedding',
    summary: 'Create embeddings',
    tags: ['embeddings'],
    requestBody: toBody(
      ". Fields not listed here are sent to the model's provider if it uses this format.",
      EmbeddingSchema,
    ),
    responses: {
      200: { description: 'One vector per input, in order.', headers, content: json(EmbeddingList) },
      ...errors,
    },
  },
  rerank: {
    operationId: 'rerank',
    summary: 'Rank documents',
    tags: ['rerank'],
    requestBody: toBody(", in Cohere's format. Fields not listed here are sent to the model's provider.", RerankSchema),
    responses: {
      200: {
        description:
          'All documents, best first, or the best `top_n`. `index` is the position in the request. Also at `/v2/rerank`.',
        headers,
        content: json(RankedList),
      },
      ...errors,
    },
  },
  speech: {
    operationId: 'createSpeech',
    summary: 'Create speech',
    tags: ['audio'],
    requestBody: toBody(". Fields not listed here are sent to the model's provider.", SpeechSchema),
    responses: {
      200: {
        description:
          'Audio in the requested format, from its first bytes on. With `stream_format: sse`, events `speech.audio.delta`, and last `speech.audio.done` with the usage.',
        headers,
        content: {
          'audio/*': { schema: { type: 'string', format: 'binary' } },
          'text/event-stream': text,
        },
      },
      ...errors,
    },
  },
  moderations: {
    operationId: 'createModeration',
    summary: 'Classify texts and images',
    tags: ['moderations'],
    requestBody: toBody(". Fields not listed here are sent to the model's provider.", ModerationsSchema),
    responses: {
      200: { description: 'One result per input, in order.', headers, content: json(ModerationList) },
      ...errors,
    },
  },
  images: {
    operationId: 'createImage',
    summary: 'Generate images',
    tags: ['images'],
    requestBody: toBody(". Fields not listed here are sent to the model's provider.", ImagesSchema),
    responses: { ...toImages('image_generation'), ...errors },
  },
  image_edits: {
    operationId: 'editImage',
    summary: 'Edit images',
    tags: ['images'],
    requestBody: {
      required: true,
      description:
        "A form with files, of at most 256 MiB, or JSON with the URLs of images. Fields not listed here are sent to the model's provider.",
      content: { 'multipart/form-data': { schema: EditsForm }, ...json(EditsSchema) },
    },
    responses: { ...toImages('image_edit'), ...errors },
  },
  transcriptions: toAudio(
    'createTranscription',
    'Transcribe audio',
    Type.Object({ ...AudioForm.properties, stream: Type.Optional(Type.Boolean()) }),
    { 'text/event-stream': text },
  ),
  translations: toAudio('createTranslation', 'Translate audio into English', AudioForm, {}),
}

const { input, ...fields } = ResponsesSchema.properties

export const COUNT_OPERATIONS: Readonly<Record<keyof typeof COUNT_PATHS, Operation>> = {
  messages: {
    operationId: 'countMessageTokens',
    summary: 'Count tokens',
    tags: ['messages'],
    requestBody: toBody(OF_ANTHROPIC, CountSchema),
    responses: { ...toCounted(Type.Object({ input_tokens: Count })), ...messagesErrors },
  },
  responses: {
    operationId: 'countResponseInputTokens',
    summary: 'Count input tokens',
    tags: ['responses'],
    requestBody: toBody(OF_RESPONSES, Type.Object({ ...fields, input: Type.Optional(input) })),
    responses: {
      ...toCounted(Type.Object({ object: Type.Literal('response.input_tokens'), input_tokens: Count })),
      ...errors,
    },
  },
}

/** For requests without authentication. */
export function toUnkeyed(endpoint: Endpoint): Pick<Operation, 'requestBody' | 'responses'> {
  const { requestBody, responses } = OPERATIONS[endpoint]
  const { 401: _, 403: __, ...rest } = { 401: null, 403: null, ...responses }
  return { requestBody, responses: rest }
}
