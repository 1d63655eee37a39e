/** Gemini's `embedContent` and `batchEmbedContents` as a client format (ai.google.dev/api/embeddings). */
import { type Decision, GatewayError } from '../../domain/error.ts'
import type { AnswerEvent } from '../../domain/events.ts'
import { asList, asObject, asText, type JsonObject } from '../../domain/json.ts'
import { EmbeddingsRequest, type EmbeddingsTask, type Vector } from '../../domain/task.ts'
import type { Receipt } from '../../domain/usage.ts'
import { measurePrompt } from '../../tokens/estimate.ts'
import { type Format, withCost } from '../format.ts'
import { geminiErrors, invalid } from './errors.ts'
import { withCamelNames } from './names.ts'

/** OpenAI's limit. Google's is 100. */
const MAX_REQUESTS = 2_048
const MAX_AFFINITY_CHARS = 16_384

export const createEmbeddings = (model: string, isBatch: boolean): Format => ({
  ...geminiErrors,
  toTask(given) {
    const body = withCamelNames(given)
    if (body instanceof GatewayError) return body
    const request = toRequest(model, asObject(body) ?? {}, isBatch)
    return request instanceof GatewayError ? request : toTask(request)
  },
  whole: (_, __, events, receipt) => toJson(isBatch, events, receipt),
  writer: () => {
    throw new Error('embeddings are not streamed')
  },
})

const toTask = (body: EmbeddingsRequest): EmbeddingsTask => ({
  endpoint: 'embeddings',
  model: body.model,
  body,
  stream: false,
  cap: 0,
  ...measurePrompt(body),
  user: null,
  affinity: () => String(body.inputs[0]).slice(0, MAX_AFFINITY_CHARS),
})

function toRequest(model: string, body: JsonObject, isBatch: boolean): Decision<EmbeddingsRequest> {
  const requests = isBatch ? asList(body.requests).map((each) => asObject(each) ?? {}) : [body]
  if (requests.length === 0) return invalid('requests', 'must be an array with at least one request.')
  if (requests.length > MAX_REQUESTS)
    return invalid('requests', `too many requests in one batch (limit: ${MAX_REQUESTS}).`)
  const inputs: string[] = []
  for (const [at, request] of requests.entries()) {
    const text = toText(request.content, isBatch ? `requests[${at}].content` : 'content')
    if (text instanceof GatewayError) return text
    inputs.push(text)
  }
  const settings = requests.map(toSettings)
  const [first] = settings
  const other = settings.findIndex((each) => JSON.stringify(each) !== JSON.stringify(first))
  if (other > 0)
    return invalid(
      `requests[${other}]`,
      "all requests of a batch must have the same 'taskType' and 'outputDimensionality'.",
    )
  const { taskType, dimensions } = first ?? { taskType: '', dimensions: null }
  if (dimensions !== null && !(Number.isInteger(dimensions) && Number(dimensions) >= 1))
    return invalid('outputDimensionality', 'must be a positive whole number.')
  const extras = taskType === '' ? {} : { task_type: taskType }
  return new EmbeddingsRequest(model, inputs, dimensions === null ? null : Number(dimensions), 'float', null, extras)
}

/** Newer clients send the settings in `embedContentConfig`. */
function toSettings(request: JsonObject): { taskType: string; dimensions: unknown } {
  const { taskType, outputDimensionality } = { ...request, ...asObject(request.embedContentConfig) }
  return { taskType: asText(taskType), dimensions: outputDimensionality ?? null }
}

function toText(content: unknown, path: string): Decision<string> {
  const parts = asList(asObject(content)?.parts).map((part) => asObject(part) ?? {})
  const wrong = parts.findIndex(({ text }) => typeof text !== 'string')
  if (wrong >= 0) return invalid(`${path}.parts[${wrong}]`, 'only text can be embedded.', 'unsupported_value')
  const text = parts.map((part) => asText(part.text)).join('\n')
  return text === '' ? invalid(path, 'must have a part with text.', 'empty_input') : text
}

/** Writes in pieces, because thousands of vectors take a while. */
function* toJson(isBatch: boolean, events: readonly AnswerEvent[], { usage, costNanoUsd }: Receipt): Generator<string> {
  const vectors = events.flatMap((event) => (event.kind === 'embeddings' ? event.vectors : []))
  yield isBatch ? '{"embeddings":[' : '{"embedding":'
  for (const [index, vector] of vectors.entries()) yield `${index === 0 ? '' : ','}{"values":${toNumbers(vector)}}`
  const counts = { promptTokenCount: usage.prompt, totalTokenCount: usage.prompt + usage.completion }
  yield `${isBatch ? ']' : ''},"usageMetadata":${withCost(counts, costNanoUsd)}}`
}

const toNumbers = (vector: Vector): string =>
  vector instanceof Float32Array ? `[${vector.join(',')}]` : JSON.stringify(vector)
