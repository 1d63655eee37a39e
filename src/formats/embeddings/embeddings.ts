/** OpenAI's embeddings as a client format. */

import { type Decision, GatewayError } from '../../domain/error.ts'
import type { AnswerEvent } from '../../domain/events.ts'
import { isMiswritten, REQUEST_FIELDS, toPlainName } from '../../domain/fields.ts'
import { asObject } from '../../domain/json.ts'
import type { EmbeddingsTask } from '../../domain/task.ts'
import { type EmbeddingInput, EmbeddingsRequest, type Vector } from '../../domain/task.ts'
import type { Receipt } from '../../domain/usage.ts'
import { measurePrompt } from '../../tokens/estimate.ts'
import { openAiErrors } from '../chat/chat.ts'
import { checkModel, createBodyCheck, invalid, notAnObject, toSchemaRefusal } from '../checked-body.ts'
import { embeddingsChecker } from '../checker.macro.ts' with { type: 'macro' }
import { type Format, type Identity, withCost } from '../format.ts'
import type { EmbeddingBody } from './schema.ts'

const checkBody = createBodyCheck<EmbeddingBody>(embeddingsChecker(), toRefusal)

function validateEmbedding(body: unknown): Decision<EmbeddingBody> {
  const checked = checkBody(body)
  return checked instanceof GatewayError ? checked : (checkKinds(checked) ?? checked)
}

/** Providers' fields that request quantized vectors or several kinds, which would be misread. */
const KINDS = ['output_dtype', 'embedding_type', 'embedding_types']

function checkKinds(body: EmbeddingBody): GatewayError | null {
  for (const name of KINDS) {
    const value: unknown = Reflect.get(body, name) ?? null
    if (value === null || String(value) === 'float') continue
    return invalid(
      `Unsupported parameter: '${name}' is not supported: vectors are always 32-bit floats. Remove it.`,
      name,
      'unsupported_parameter',
    )
  }
  return null
}

function toRefusal(body: unknown): GatewayError {
  const given = asObject(body)
  if (given === null) return notAnObject('{"model": …, "input": …}')
  const refusal = checkModel(given) ?? ('input' in given ? toInputRefusal(given.input) : null)
  if (refusal) return refusal
  // Loaded only here, because creating the schema takes a tenth of startup.
  const { EmbeddingSchema } = require('./schema.ts') as typeof import('./schema.ts')
  return toSchemaRefusal(EmbeddingSchema, given, 'Invalid embeddings request.')
}

const MAX_INPUTS = 2_048

/** Explains an invalid input, for which the schema has too many kinds; null if there is none. */
function toInputRefusal(input: unknown): GatewayError | null {
  if (!Array.isArray(input)) return isText(input) ? null : toInvalid(input, 'input')
  if (input.length === 0) return toInvalid(input, 'input')
  const isOfTokens = input.every((each) => typeof each === 'number')
  if (!isOfTokens && input.length > MAX_INPUTS)
    return invalid(
      `Invalid 'input': array too long. Expected an array with maximum length ${MAX_INPUTS}, but got an array with length ${input.length} instead.`,
      'input',
      'array_above_max_length',
    )
  // All items are of the first one's kind.
  const isRight = isOfTokens ? isToken : Array.isArray(input[0]) ? isTokens : isText
  const wrong = input.findIndex((each) => !isRight(each))
  return wrong < 0 ? null : toInvalid(input[wrong], `input[${wrong}]`)
}

const isText = (value: unknown) => typeof value === 'string' && value !== ''
const isToken = (value: unknown) => Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 2 ** 31
const isTokens = (value: unknown) => Array.isArray(value) && value.length > 0 && value.every(isToken)

function toInvalid(value: unknown, path: string): GatewayError {
  const isEmpty = value === '' || (Array.isArray(value) && value.length === 0)
  const why = isEmpty ? 'must not be empty' : `expected a string or an array of token IDs, but got ${nameOf(value)}`
  return invalid(
    `Invalid '${path}': ${why}. Send a string, an array of token IDs, or an array of one of these.`,
    path,
    isEmpty ? 'empty_input' : 'invalid_type',
  )
}

const nameOf = (value: unknown) =>
  value === null
    ? 'null'
    : Array.isArray(value)
      ? 'an array'
      : typeof value === 'object'
        ? 'an object'
        : `a ${typeof value}`

/** The list of embeddings as JSON text, in pieces, because thousands of vectors take a while. */
function* toEmbeddingsJson(
  encoding: EmbeddingsRequest['encoding'],
  { model }: Identity,
  events: readonly AnswerEvent[],
  receipt: Receipt,
): Generator<string> {
  const vectors = events.flatMap((event) => (event.kind === 'embeddings' ? event.vectors : []))
  yield '{"object":"list","data":['
  for (const [index, vector] of vectors.entries()) {
    const embedding = encoding === 'base64' ? `"${toBase64(vector)}"` : toNumbers(vector)
    yield `${index === 0 ? '' : ','}{"object":"embedding","index":${index},"embedding":${embedding}}`
  }
  yield `],"model":${JSON.stringify(model)},"usage":${toUsageJson(receipt)}}`
}

/** 32-bit floats are written with all their digits. */
const toNumbers = (vector: Vector): string =>
  vector instanceof Float32Array ? `[${vector.join(',')}]` : JSON.stringify(vector)

/** Little-endian 32-bit floats, which every supported machine uses. */
function toBase64(vector: Vector): string {
  const { buffer, byteOffset, byteLength } = vector instanceof Float32Array ? vector : Float32Array.from(vector)
  return Buffer.from(buffer, byteOffset, byteLength).toString('base64')
}

const toUsageJson = ({ usage, costNanoUsd }: Receipt): string =>
  withCost({ prompt_tokens: usage.prompt, total_tokens: usage.prompt + usage.completion }, costNanoUsd)

export const embeddings = {
  ...openAiErrors,
  // Here, errors about messages are about the input.
  error(refused) {
    const { error } = refused.toBody()
    return { error: { ...error, param: error.param === 'messages' ? 'input' : error.param } }
  },
  toTask(body) {
    const request = validateEmbedding(body)
    return request instanceof GatewayError ? request : toTask(request)
  },
  whole: ({ body }: EmbeddingsTask, identity, events, receipt) =>
    toEmbeddingsJson(body.encoding, identity, events, receipt),
  writer: () => {
    throw new Error('embeddings are not streamed')
  },
} satisfies Format

const MAX_USER_CHARS = 256
/** Requests with this beginning in common use the same target. */
const MAX_AFFINITY_CHARS = 16_384

function toTask(request: EmbeddingBody): EmbeddingsTask {
  const inputs = toInputs(request.input)
  const body = toRequest(request, inputs)
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

const toInputs = (input: EmbeddingBody['input']): EmbeddingsRequest['inputs'] =>
  typeof input === 'string' || isTokenList(input) ? [input] : (input as EmbeddingInput[])

const isTokenList = (input: Exclude<EmbeddingBody['input'], string>): input is number[] => typeof input[0] === 'number'

/** Includes fields that only the upstream may know. */
function toRequest(request: EmbeddingBody, inputs: readonly EmbeddingInput[]): EmbeddingsRequest {
  const { model, user, dimensions, encoding_format: encoding } = request
  const extras = Object.fromEntries(Object.entries(request).filter(([name]) => isForUpstream(name)))
  return new EmbeddingsRequest(model, inputs, dimensions ?? null, encoding ?? 'float', user || null, extras)
}

const OWN = new Set(['model', 'input', 'encoding_format', 'dimensions', 'user'].map(toPlainName))

/** Excludes all spellings of fields used here, and fields of chats. */
const isForUpstream = (name: string): boolean =>
  !OWN.has(toPlainName(name)) && !REQUEST_FIELDS.has(name) && !isMiswritten(name)
