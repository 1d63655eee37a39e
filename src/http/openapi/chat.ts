/** A chat completion as descriptions of an API tell of it (OpenAPI 3.1): that of the public one, and that of the playground. */
import { RequestSchema } from '../../domain/request.ts'
import { MAX_BODY_BYTES } from '../../gateway/read.ts'
import { ApiError, ChatCompletion } from './schemas.ts'

const text = { schema: { type: 'string' } }

/** Of every answer of this API that is an error. */
export const toErrors = (statuses: Readonly<Record<number, string>>) =>
  Object.fromEntries(
    Object.entries(statuses).map(([status, description]) => [
      status,
      { description, content: { 'application/json': { schema: ApiError } } },
    ]),
  )

export const chatOperation = {
  requestBody: {
    required: true,
    description: `JSON of at most ${MAX_BODY_BYTES / 1024 ** 2} MiB, as OpenAI's API takes it. Null is taken for absent; fields that are not named here travel on to the model's provider.`,
    content: { 'application/json': { schema: RequestSchema } },
  },
  responses: {
    200: {
      description:
        'The answer: whole, or with `stream: true` as server-sent events, each `data:` with a ChatCompletionChunk, `[DONE]` last, comments as keep-alives. A failure after the first word is one last event with an `error`.',
      headers: {
        'x-request-id': { description: 'The id of the request on record.', ...text },
        'x-tollgate-upstream': { description: 'Who has answered.', ...text },
        'x-tollgate-attempts': { description: 'How many calls it took until then.', schema: { type: 'integer' } },
        'x-tollgate-lane': {
          description:
            'Whether the upstream speaks the format itself and its answer passes (`native`) or is written anew (`translated`).',
          schema: { type: 'string', enum: ['native', 'translated'] },
        },
        'x-tollgate-output-cap': {
          description:
            'The output cap, in tokens for each choice, that was sent because a budget had no room for all that the model writes. Absent otherwise.',
          schema: { type: 'integer' },
        },
      },
      content: { 'application/json': { schema: ChatCompletion }, 'text/event-stream': text },
    },
    ...toErrors({
      400: 'Something is wrong with the request: `param` names the field. A prompt too long is `context_length_exceeded`.',
      404: 'There is no such model, or it is not for this key: `model_not_found`.',
      408: 'The body took too long on its way.',
      413: 'The body is too large.',
      429: 'A rate limit, a budget (`insufficient_quota`), or a share of the server is used up: see `retry-after`.',
      500: 'A fault of the server: its log has the cause under `x-request-id`.',
      502: 'The provider has failed, or did not meet the schema.',
      503: 'The model is not ready, the server is overloaded or is stopping: try again.',
      504: 'The provider took too long.',
      508: 'An upstream leads back to a Tollgate server that the request has passed.',
    }),
  },
}
