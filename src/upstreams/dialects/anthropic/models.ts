/** Anthropic's model list (`GET /v1/models`), with capabilities and reasoning options. */
import { toDefined } from '../../../domain/changes.ts'
import { asList, asObject, asText, type JsonObject } from '../../../domain/json.ts'
import type { ListedModel } from '../../../domain/model-server.ts'
import { EFFORTS, type Modality, type RouteSettings } from '../../../domain/models.ts'
import type { ModelPage } from '../dialect.ts'
import { toSupport, toTitle, toTokens } from '../readings.ts'

export function readModels(json: unknown): ModelPage | null {
  const page = asObject(json)
  if (!Array.isArray(page?.data)) return null
  const next = page.has_more === true ? asText(page.last_id) : ''
  return { models: asList(page.data).map(asObject).map(toListed), next: next === '' ? null : next }
}

function toListed(entry: JsonObject | null): ListedModel {
  const { id, display_name: name, max_input_tokens: context, max_tokens: output, capabilities, lifecycle } = entry ?? {}
  const oddities: string[] = []
  const can = asObject(capabilities)
  const structured = toSupport(can?.structured_outputs)
  const thinks = toSupport(asObject(can?.thinking))
  return {
    id: asText(id),
    ...toDefined({
      name: toTitle(name),
      contextLength: toTokens(context, 'max_input_tokens', oddities),
      maxOutputLength: toTokens(output, 'max_tokens', oddities),
      ...(can ? { inputModalities: toInput(can), outputModalities: TEXT } : {}),
      can: toDefined({
        // Every model of this API can call tools.
        tools: true,
        json_mode: structured,
        structured_outputs: structured,
        reasoning: thinks,
      }),
      options: can ? toOptions(can) : undefined,
      // Still listed, but it no longer responds.
      canChat: lifecycle === 'retired' ? false : undefined,
      oddities,
    }),
  }
}

const TEXT: Modality[] = ['text']

const toInput = (can: JsonObject): Modality[] => [
  'text',
  ...(toSupport(can.image_input) ? (['image'] as const) : []),
  ...(toSupport(can.pdf_input) ? (['file'] as const) : []),
]

/** The list doesn't say whether a model accepts a temperature. Models without budgets refuse one, like all of Anthropic's in models.dev. */
function toOptions(can: JsonObject): RouteSettings {
  const thinking = asObject(can.thinking)
  const types = asObject(thinking?.types) ?? {}
  const effort = asObject(can.effort) ?? {}
  const efforts = EFFORTS.filter((name) => toSupport(effort[name]) === true)
  const byEffort = toSupport(types.adaptive)
  const byTokens = toSupport(types.enabled)
  return toDefined({
    thinking: toSupport(thinking) === false ? 'none' : byEffort ? 'adaptive' : byTokens ? 'budget' : undefined,
    efforts: toSupport(effort) !== false && efforts.length > 0 ? efforts : undefined,
    thinking_off: toSupport(types.disabled),
    sampling: byEffort && byTokens === false ? false : undefined,
  } as const)
}
