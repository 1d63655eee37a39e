/**
 * Holds a body against the schema of requests to `/v1/embeddings`. The compiled checker decides; why it refuses is found out for a
 * request that is refused anyway, in the sentences that OpenAI's API has for it.
 */
import { type Decision, GatewayError } from '../../domain/error.ts'
import { explain } from '../../validation/explain.ts'
import { invalid } from '../chat/refusal.ts'
import { toEmbeddingChecker } from './checker.macro.ts' with { type: 'macro' }
import type { EmbeddingBody } from './schema.ts'

type Checker = (body: unknown) => body is EmbeddingBody

// Made of code that was written at build time: to compile a schema takes as long as the rest of a first answer.
let isEmbedding: Checker | null = null

export function validateEmbedding(body: unknown): Decision<EmbeddingBody> {
  isEmbedding ??= new Function(toEmbeddingChecker())() as Checker
  return isEmbedding(body) ? (checkKinds(body) ?? body) : toRefusal(body)
}

/** Names by which providers are asked for vectors of smaller numbers, or of several kinds: those would be misread. */
const KINDS = ['output_dtype', 'embedding_type', 'embedding_types']

function checkKinds(body: EmbeddingBody): GatewayError | null {
  for (const name of KINDS) {
    const value: unknown = Reflect.get(body, name) ?? null
    if (value === null || String(value) === 'float') continue
    return invalid(
      `Unsupported parameter: '${name}' is not supported: vectors are 32-bit floats here. Leave it out.`,
      name,
      'unsupported_parameter',
    )
  }
  return null
}

function toRefusal(body: unknown): GatewayError {
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    return new GatewayError(
      'invalid_request',
      'We could not parse the JSON body of your request: the API expects one JSON object, such as {"model": …, "input": …}.',
    )
  if (!('model' in body) || body.model === null || body.model === '')
    return new GatewayError('invalid_request', 'you must provide a model parameter')
  if ('input' in body) {
    const refusal = toInputRefusal(body.input)
    if (refusal) return refusal
  }
  // Only here, because to make the schema takes a tenth of a start.
  const { EmbeddingSchema } = require('./schema.ts') as typeof import('./schema.ts')
  const [problem] = explain(EmbeddingSchema, body)
  if (!problem) return new GatewayError('invalid_request', 'This request is not one for embeddings.')
  return new GatewayError('invalid_request', problem.message, { code: problem.code, param: problem.path })
}

const MOST_INPUTS = 2_048

/** Says what is wrong with the input, of which there are too many kinds for the schema to say it well; null where nothing is. */
function toInputRefusal(input: unknown): GatewayError | null {
  if (!Array.isArray(input)) return isText(input) ? null : toInvalid(input, 'input')
  if (input.length === 0) return toInvalid(input, 'input')
  const isOfTokens = input.every((each) => typeof each === 'number')
  if (!isOfTokens && input.length > MOST_INPUTS)
    return invalid(
      `Invalid 'input': array too long. Expected an array with maximum length ${MOST_INPUTS}, but got an array with length ${input.length} instead.`,
      'input',
      'array_above_max_length',
    )
  // What the first one is, the others must be.
  const isRight = isOfTokens ? isToken : Array.isArray(input[0]) ? isTokens : isText
  const wrong = input.findIndex((each) => !isRight(each))
  return wrong < 0 ? null : toInvalid(input[wrong], `input[${wrong}]`)
}

const isText = (value: unknown) => typeof value === 'string' && value !== ''
const isToken = (value: unknown) => Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 2 ** 31
const isTokens = (value: unknown) => Array.isArray(value) && value.length > 0 && value.every(isToken)

function toInvalid(value: unknown, path: string): GatewayError {
  const isEmpty = value === '' || (Array.isArray(value) && value.length === 0)
  const why = isEmpty ? 'it is empty' : `expected a text, or the whole numbers of its tokens, but got ${nameOf(value)}`
  return invalid(
    `Invalid '${path}': ${why}. An input is a text or a list of token numbers, one of them or a list of such, all of one kind.`,
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
