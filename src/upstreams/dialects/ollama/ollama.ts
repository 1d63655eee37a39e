/**
 * The Ollama dialect: its own API, because its OpenAI-compatible one silently truncates histories and can't set the context length
 * (github.com/ollama/ollama/blob/main/docs/api.md).
 */
import { toDefined } from '../../../domain/changes.ts'
import { asList, asObject, asText, type JsonObject } from '../../../domain/json.ts'
import type { ListedModel } from '../../../domain/model-server.ts'
import type { Modality } from '../../../domain/models.ts'
import { toAuthHeaders } from '../../auth.ts'
import { toReadiness } from '../../failure.ts'
import type { FurtherQuestion, ModelPage, WireFormat } from '../dialect.ts'
import { toSize, toTokens } from '../readings.ts'
import { AnswerDecoder, ollamaErrors, readEmbeddings, toEmbeddingRequest } from './decoder.ts'
import { toWireRequest } from './request.ts'

export const ollama: WireFormat = {
  probe: { path: () => '/api/version', readiness: (status) => toReadiness('/api/version', status) },

  models: { path: () => '/api/tags', read: readModels, further: askFurther },

  headers: (upstream) => toAuthHeaders(upstream, 'bearer'),

  requestIdHeader: 'x-request-id',

  framing: 'lines',

  request: toWireRequest,

  whole: (json, expected, text) => new AnswerDecoder(expected).whole(json, text),

  decoder: (expected) => new AnswerDecoder(expected),

  passthrough: {},

  embeddings: { request: toEmbeddingRequest, whole: readEmbeddings },

  errors: ollamaErrors,
}

/**
 * Ollama's models (`GET /api/tags`, `POST /api/show`, `GET /api/ps`). None of these requests loads a model. A loaded model reports the
 * context it is served with. Others report their trained context, for which few machines have the memory.
 */
function readModels(json: unknown): ModelPage | null {
  const list = asObject(json)?.models
  return Array.isArray(list) ? { models: list.map(asObject).map(toListed), next: null } : null
}

function toListed(entry: JsonObject | null): ListedModel {
  const { model, name, size, details, remote_host: host, remote_model: remote } = entry ?? {}
  const { parameter_size: parameters, quantization_level: quantization } = asObject(details) ?? {}
  return {
    id: asText(model) || asText(name),
    ...toSize({ parameters, quantization, bytes: size }),
    ...toDefined({ isElsewhere: isSaid(host) || isSaid(remote) || undefined }),
  }
}

/** Cloud models are called as if they were local. */
const isSaid = (value: unknown) => asText(value) !== ''

function askFurther(models: readonly ListedModel[]): FurtherQuestion[] {
  return [
    ...models.map(
      ({ id }): FurtherQuestion => ({ at: 'base', path: '/api/show', body: { model: id }, of: id, read: readShown }),
    ),
    { at: 'base', path: '/api/ps', of: null, read: readLoaded },
  ]
}

const EMBEDDINGS: Modality[] = ['embeddings']

/** A context that most machines have the memory for, if none is configured. */
const USUAL_CONTEXT = 8_192

function readShown(json: unknown, listed: ListedModel): ListedModel {
  const shown = asObject(json) ?? {}
  const oddities: string[] = []
  const info = asObject(shown.model_info) ?? {}
  const trained = toTokens(info[`${asText(info['general.architecture'])}.context_length`], 'context_length', oddities)
  const set = toTokens(
    Number(/^num_ctx\s+(\d{1,9})\s*$/m.exec(asText(shown.parameters))?.[1] ?? 0),
    'num_ctx',
    oddities,
  )
  const can = Array.isArray(shown.capabilities) ? new Set(asList(shown.capabilities)) : null
  const elsewhere = isSaid(shown.remote_host) || isSaid(shown.remote_model)
  const seeing: Modality[] = can?.has('vision') ? ['text', 'image'] : ['text']
  return {
    ...listed,
    ...toDefined({
      contextLength: set ?? (trained === undefined ? undefined : Math.min(trained, USUAL_CONTEXT)),
      trainedContext: trained,
      inputModalities: can ? seeing : undefined,
      can: can ? { tools: can.has('tools'), reasoning: can.has('thinking') } : undefined,
      canChat: can && !can.has('completion') ? false : undefined,
      outputModalities: can?.has('embedding') ? EMBEDDINGS : undefined,
      isElsewhere: elsewhere || undefined,
      oddities: oddities.length > 0 ? oddities : undefined,
    }),
  }
}

/** More than any machine loads; each is compared with each listed model. */
const MAX_LOADED = 100

function readLoaded(json: unknown, listed: ListedModel): ListedModel {
  const loaded = asList(asObject(json)?.models)
    .slice(0, MAX_LOADED)
    .map(asObject)
    .find((each) => each?.model === listed.id || each?.name === listed.id)
  const contextLength = toTokens(loaded?.context_length, 'context_length', [])
  return contextLength === undefined ? listed : { ...listed, contextLength }
}
