/** OpenAPI 3.1 of files and batches. */
import { Type } from '@sinclair/typebox'
import { Count, orNull, Text, TextOrNull, wordOf } from '../../documents/fields.ts'
import { BATCH_ENDPOINTS, BATCH_STATES } from '../../domain/batches.ts'
import { ENDPOINT_PATHS } from '../../domain/task.ts'
import { json, NO_KEY, toErrors } from './operations.ts'

const Time = Type.Integer({ description: 'Unix seconds.' })
const TimeOrNull = orNull(Time)
const page = (item: object) =>
  Type.Object({
    object: Type.Literal('list'),
    data: Type.Array(Type.Unsafe(item)),
    first_id: TextOrNull,
    last_id: TextOrNull,
    has_more: Type.Boolean(),
  })

export const BatchFile = Type.Object({
  id: Text,
  object: Type.Literal('file'),
  bytes: Count,
  created_at: Time,
  expires_at: TimeOrNull,
  filename: Text,
  purpose: wordOf(['batch', 'batch_output'] as const),
  status: Type.Literal('processed'),
})

const Problem = Type.Object({ code: Text, message: Text, param: TextOrNull, line: orNull(Count) })
export const Batch = Type.Object({
  id: Text,
  object: Type.Literal('batch'),
  endpoint: Text,
  model: Type.Union([Type.String(), Type.Null()], { description: 'The model of all requests; null if they differ.' }),
  errors: orNull(Type.Object({ object: Type.Literal('list'), data: Type.Array(Problem) })),
  input_file_id: Text,
  completion_window: Type.Literal('24h'),
  status: wordOf(BATCH_STATES),
  output_file_id: TextOrNull,
  error_file_id: TextOrNull,
  created_at: Time,
  ...{ in_progress_at: TimeOrNull, expires_at: Time, finalizing_at: TimeOrNull, completed_at: TimeOrNull },
  ...{ failed_at: TimeOrNull, expired_at: TimeOrNull, cancelling_at: TimeOrNull, cancelled_at: TimeOrNull },
  request_counts: Type.Object({ total: Count, completed: Count, failed: Count }),
  usage: Type.Object({
    input_tokens: Count,
    input_tokens_details: Type.Object({ cached_tokens: Count }),
    output_tokens: Count,
    output_tokens_details: Type.Object({ reasoning_tokens: Count }),
    total_tokens: Count,
  }),
  metadata: orNull(Type.Record(Text, Text)),
})

const Expiry = Type.Object({
  anchor: Type.Literal('created_at'),
  seconds: Type.Integer({ minimum: 3_600, maximum: 2_592_000 }),
})
const Upload = Type.Object({
  purpose: Type.Literal('batch'),
  file: Type.String({ contentMediaType: 'application/jsonl', description: 'A line of JSON per request.' }),
  'expires_after[anchor]': Type.Optional(Type.Literal('created_at')),
  'expires_after[seconds]': Type.Optional(Type.Integer({ minimum: 3_600, maximum: 2_592_000 })),
})
const NewBatch = Type.Object({
  input_file_id: Text,
  endpoint: wordOf(BATCH_ENDPOINTS.map((name) => ENDPOINT_PATHS[name])),
  completion_window: Type.Literal('24h'),
  metadata: Type.Optional(orNull(Type.Record(Text, Text))),
  output_expires_after: Type.Optional(orNull(Expiry)),
})

const Moment = Type.String({ format: 'date-time' })
const MomentOrNull = orNull(Moment)
export const MessageBatch = Type.Object({
  id: Text,
  type: Type.Literal('message_batch'),
  processing_status: wordOf(['in_progress', 'canceling', 'ended'] as const),
  request_counts: Type.Object({ processing: Count, succeeded: Count, errored: Count, canceled: Count, expired: Count }),
  ...{ created_at: Moment, expires_at: Moment, ended_at: MomentOrNull, archived_at: MomentOrNull },
  ...{ cancel_initiated_at: MomentOrNull, results_url: TextOrNull },
})
const MessageBatchPage = Type.Object({
  data: Type.Array(MessageBatch),
  ...{ has_more: Type.Boolean(), first_id: TextOrNull, last_id: TextOrNull },
})
const DeletedBatch = Type.Object({ id: Text, type: Type.Literal('message_batch_deleted') })
const NewMessageBatch = Type.Object({
  requests: Type.Array(
    Type.Object({
      custom_id: Type.String({ pattern: '^[a-zA-Z0-9_-]{1,64}$' }),
      params: Type.Object({}, { description: 'A request to `/v1/messages`, without `stream`.' }),
    }),
    { minItems: 1, maxItems: 50_000 },
  ),
})

const errors = {
  ...NO_KEY,
  ...toErrors({
    400: 'Invalid request: `param` names the field.',
    404: 'No such file or batch of this key.',
    501: 'The server is a node of a cluster: `not_supported_in_cluster`.',
  }),
}
const writing = {
  ...errors,
  ...toErrors({
    413: 'The file is too large.',
    429: 'The key has too many files or batches, or its rate limit is reached.',
    507: "The server's disk is full: `storage_full`.",
  }),
}

const toParameter = (name: string, where: 'path' | 'query', description: string) => ({
  ...{ name, in: where, required: where === 'path', description, schema: { type: 'string' } },
})
const paging = [
  toParameter('after', 'query', 'ID of the last item of the page before.'),
  toParameter('limit', 'query', 'Items per page.'),
]
const operation = (
  tag: 'files' | 'batches',
  operationId: string,
  summary: string,
  schema: object,
  more: { parameters?: readonly object[]; requestBody?: object; failures?: object } = {},
) => {
  const { failures = errors, ...rest } = more
  return {
    ...{ operationId, summary, tags: [tag], ...rest },
    responses: { 200: { description: `${summary}.`, content: json(schema) }, ...failures },
  }
}
const body = (schema: object) => ({ required: true, content: json(schema) })
const file = { parameters: [toParameter('id', 'path', 'File ID.')] }
const batch = { parameters: [toParameter('id', 'path', 'Batch ID.')] }
const Deleted = Type.Object({ id: Text, object: Type.Literal('file'), deleted: Type.Boolean() })

export const BATCH_PATHS = {
  '/v1/files': {
    post: operation('files', 'createFile', 'Upload the input of a batch', BatchFile, {
      requestBody: { required: true, content: { 'multipart/form-data': { schema: Upload } } },
      failures: writing,
    }),
    get: operation('files', 'listFiles', "List the key's files", page(BatchFile), {
      parameters: [
        ...paging,
        toParameter('purpose', 'query', '`batch` or `batch_output`.'),
        toParameter('order', 'query', '`desc` (default) or `asc`, by time.'),
      ],
    }),
  },
  '/v1/files/{id}': {
    get: operation('files', 'getFile', 'Get a file', BatchFile, file),
    delete: operation('files', 'deleteFile', 'Delete a file', Deleted, file),
  },
  '/v1/files/{id}/content': {
    get: {
      ...operation('files', 'getFileContent', "Get a file's content", Text, file),
      responses: {
        200: { description: 'The content.', content: { 'application/octet-stream': { schema: { type: 'string' } } } },
        ...errors,
      },
    },
  },
  '/v1/batches': {
    post: operation('batches', 'createBatch', 'Create a batch', Batch, {
      requestBody: body(NewBatch),
      failures: writing,
    }),
    get: operation('batches', 'listBatches', "List the key's batches, newest first", page(Batch), {
      parameters: paging,
    }),
  },
  '/v1/batches/{id}': { get: operation('batches', 'getBatch', 'Get a batch', Batch, batch) },
  '/v1/batches/{id}/cancel': {
    post: operation('batches', 'cancelBatch', 'Cancel a batch', Batch, { ...batch, failures: writing }),
  },
  '/v1/messages/batches': {
    post: operation('batches', 'createMessageBatch', "Create a batch in Anthropic's format", MessageBatch, {
      requestBody: body(NewMessageBatch),
      failures: writing,
    }),
    get: operation('batches', 'listMessageBatches', "List the key's batches in Anthropic's format", MessageBatchPage, {
      parameters: [
        toParameter('after_id', 'query', 'Batches that are older than this one.'),
        toParameter('before_id', 'query', 'Batches that are newer than this one.'),
        toParameter('limit', 'query', 'Items per page.'),
      ],
    }),
  },
  '/v1/messages/batches/{id}': {
    get: operation('batches', 'getMessageBatch', "Get a batch in Anthropic's format", MessageBatch, batch),
    delete: operation(
      'batches',
      'deleteMessageBatch',
      'Delete a batch that has ended, with its results',
      DeletedBatch,
      batch,
    ),
  },
  '/v1/messages/batches/{id}/cancel': {
    post: operation('batches', 'cancelMessageBatch', "Cancel a batch in Anthropic's format", MessageBatch, {
      ...batch,
      failures: writing,
    }),
  },
  '/v1/messages/batches/{id}/results': {
    get: {
      ...operation('batches', 'getMessageBatchResults', 'Get the results of a batch that has ended', Text, batch),
      responses: {
        200: {
          description: 'A line of JSON per request, in any order: `custom_id`, and `result` by `type`.',
          content: { 'application/x-jsonl': { schema: { type: 'string' } } },
        },
        ...errors,
      },
    },
  },
}
