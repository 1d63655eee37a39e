/** OpenAI's embeddings, as a format that clients speak. Pure. */
import { EMBEDDING, type EmbeddingInput, type EmbeddingRequest } from '../../domain/embedding.ts'
import { GatewayError } from '../../domain/error.ts'
import { isMiswritten, toPlainName } from '../../domain/fields.ts'
import type { CanonicalRequest } from '../../domain/request.ts'
import { REQUEST_FIELDS } from '../../domain/request-names.ts'
import type { Task } from '../../domain/task.ts'
import { measurePrompt } from '../../tokens/estimate.ts'
import { openAiErrors } from '../chat/chat.ts'
import type { Format } from '../format.ts'
import type { EmbeddingBody } from './schema.ts'
import { validateEmbedding } from './validate.ts'
import { toEmbeddingsJson } from './whole.ts'

export const embeddings = {
  ...openAiErrors,
  // What upstreams and limits say of messages is of the input here.
  error(refused) {
    const { error } = refused.toBody()
    return { error: { ...error, param: error.param === 'messages' ? 'input' : error.param } }
  },
  toTask(body) {
    const request = validateEmbedding(body)
    return request instanceof GatewayError ? request : toTask(request)
  },
  whole: ({ body }, identity, events, receipt) =>
    toEmbeddingsJson(body[EMBEDDING]?.encoding ?? 'float', identity, events, receipt),
  writer: () => {
    throw new Error('embeddings are not streamed')
  },
} satisfies Format

const MAX_USER_CHARS = 256
/** What two requests begin with alike has them go the same way. */
const MAX_AFFINITY_CHARS = 16_384

function toTask(request: EmbeddingBody): Task {
  const inputs = toInputs(request.input)
  const body = toCanonical(request, inputs)
  return {
    endpoint: 'embeddings',
    model: request.model,
    body,
    stream: false,
    cap: 0,
    ...measurePrompt(body),
    user: request.user?.slice(0, MAX_USER_CHARS) ?? null,
    affinity: () => String(inputs[0]?.slice(0, MAX_AFFINITY_CHARS)),
  }
}

const toInputs = (input: EmbeddingBody['input']): EmbeddingRequest['inputs'] =>
  typeof input === 'string' || isTokens(input) ? [input] : (input as EmbeddingInput[])

const isTokens = (input: Exclude<EmbeddingBody['input'], string>): input is number[] => typeof input[0] === 'number'

/** One that writes nothing, with the fields that only its upstream may know. */
function toCanonical(request: EmbeddingBody, inputs: EmbeddingRequest['inputs']): CanonicalRequest {
  const { model, user, dimensions, encoding_format: encoding } = request
  const others = Object.fromEntries(Object.entries(request).filter(([name]) => isForUpstream(name)))
  return {
    ...others,
    model,
    messages: [],
    max_tokens: 0,
    ...(user ? { user } : {}),
    [EMBEDDING]: { inputs, dimensions: dimensions ?? null, encoding: encoding ?? 'float' },
  }
}

const OWN = new Set(['model', 'input', 'encoding_format', 'dimensions', 'user'].map(toPlainName))

/** Nothing that is read here, however it is written, and nothing that is asked of chats. */
const isForUpstream = (name: string): boolean =>
  !OWN.has(toPlainName(name)) && !REQUEST_FIELDS.has(name) && !isMiswritten(name)
