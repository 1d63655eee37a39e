/** Anthropic's list of models (`GET /v1/models`), which says how each one thinks and what it takes. Pure. */
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
        // Every model of this API calls tools.
        tools: true,
        json_mode: structured,
        structured_outputs: structured,
        reasoning: thinks,
      }),
      options: can ? toOptions(can) : undefined,
      // It is on record there, and no longer answers.
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

/**
 * As `thinking.ts` asks for it: by an effort where the model can, else by a number of tokens. Whether it takes a temperature the list does
 * not say: those that do not think by a number refuse one, as every model of Anthropic's that models.dev knows does.
 */
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
