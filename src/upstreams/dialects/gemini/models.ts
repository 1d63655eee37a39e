/** Gemini's list of models (`GET /v1beta/models`), which says how long each one's prompt and answer may be. Pure. */
import { toDefined } from '../../../domain/changes.ts'
import { asList, asObject, asText, type JsonObject } from '../../../domain/json.ts'
import type { ListedModel } from '../../../domain/model-server.ts'
import type { Modality } from '../../../domain/models.ts'
import type { ModelPage } from '../../backend.ts'
import { toTitle, toTokens } from '../listed.ts'

export function readModels(json: unknown): ModelPage | null {
  const page = asObject(json)
  if (!Array.isArray(page?.models)) return null
  const next = asText(page.nextPageToken)
  return { models: page.models.map(asObject).map(toListed), next: next === '' ? null : next }
}

const EMBEDDINGS: Modality[] = ['embeddings']

function toListed(entry: JsonObject | null): ListedModel {
  const {
    name,
    displayName,
    inputTokenLimit,
    outputTokenLimit,
    supportedGenerationMethods: methods,
    thinking,
  } = entry ?? {}
  const oddities: string[] = []
  const input = toTokens(inputTokenLimit, 'inputTokenLimit', oddities)
  const embeds = asList(methods).includes('embedContent') && !asList(methods).includes('generateContent')
  const output = toTokens(outputTokenLimit, 'outputTokenLimit', oddities)
  return {
    // Without the folder that stands before it in every address.
    id: asText(name).replace(/^models\//, ''),
    ...toDefined({
      name: toTitle(displayName),
      contextLength: input,
      maxOutputLength: output,
      outputModalities: embeds ? EMBEDDINGS : undefined,
      can: toDefined({ reasoning: typeof thinking === 'boolean' ? thinking : undefined }),
      canChat: Array.isArray(methods) && !asList(methods).includes('generateContent') ? false : undefined,
      oddities,
    }),
  }
}
