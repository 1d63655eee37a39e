/** Models of an OpenAI-format upstream: its list with providers' own fields, and what local servers report in addition. */
import { toDefined } from '../../../domain/changes.ts'
import { asList, asObject, asText, type JsonObject } from '../../../domain/json.ts'
import type { ListedModel } from '../../../domain/model-server.ts'
import { FEATURES, type Feature, type Modality } from '../../../domain/models.ts'
import type { Upstream } from '../../../domain/snapshot.ts'
import type { PricingItem } from '../../../domain/usage.ts'
import type { FurtherQuestion, ModelPage } from '../dialect.ts'
import { toModalities, toSize, toTitle, toTokens } from '../readings.ts'

export function readModels(json: unknown): ModelPage | null {
  const page = asObject(json)
  const list = [json, page?.data, page?.models].find(Array.isArray)
  return list === undefined ? null : { models: list.map(asObject).map(toListed), next: null }
}

function toListed(entry: JsonObject | null): ListedModel {
  const model = entry ?? {}
  const oddities: string[] = []
  const architecture = asObject(model.architecture) ?? {}
  const top = asObject(model.top_provider) ?? {}
  const said = toModalities(architecture.output_modalities ?? model.output_modalities)
  const outputs = said ?? (EMBEDDING.test(asText(model.type)) ? EMBEDDINGS : undefined)
  const can = asObject(model.capabilities)
  const inputs = toModalities(architecture.input_modalities ?? model.input_modalities)
  return {
    id: asText(model.id),
    ...toDefined({
      name: toTitle(model.name) === asText(model.id) ? undefined : toTitle(model.name),
      contextLength: first(CONTEXT, [top, model], oddities),
      maxOutputLength: first(OUTPUT, [top, model], oddities),
      inputModalities: inputs ?? (can?.vision === true ? SEEING : undefined),
      outputModalities: outputs,
      supportedFeatures: toFeatures(model.supported_parameters),
      can: can ? toDefined({ tools: toFlag(can.function_calling), reasoning: toFlag(can.reasoning) }) : undefined,
      pricing: toPricing(asObject(model.pricing), oddities),
      canChat: canChat(model, outputs),
      servedContext: toTokens(model.max_model_len ?? toSwapped(model), 'max_model_len', []),
      isElsewhere: isPeer(model) || undefined,
      oddities,
    }),
    ...readMeta(asObject(model.meta)),
  }
}

/** Types in the lists of Together and others. */
const EMBEDDING = /^embeddings?$/
const EMBEDDINGS: Modality[] = ['embeddings']

const SEEING: Modality[] = ['text', 'image']

function readMeta(meta: JsonObject | null) {
  const { n_params: count, size: bytes, ftype: quantization } = meta ?? {}
  const parameters = typeof count === 'number' && count > 0 ? `${(count / 1e9).toFixed(1)}B` : undefined
  return toSize({ parameters, quantization, bytes })
}

/** llama-swap reports the context that its operator has configured. */
const toSwapped = ({ owned_by: owner, context_length: context }: JsonObject) =>
  owner === 'llama-swap' ? context : undefined

/** llama-swap lists models that it forwards to other, possibly paid servers among its own (`handleListModels`). */
const isPeer = ({ meta }: JsonObject) => asObject(asObject(meta)?.llamaswap)?.type === 'peer'

/** OpenRouter and Moonshot; Groq; Mistral; vLLM. */
const CONTEXT = ['context_length', 'context_window', 'max_context_length', 'max_model_len']
/** OpenRouter and Groq; others. */
const OUTPUT = ['max_completion_tokens', 'max_output_tokens', 'max_output_length']

function first(names: readonly string[], places: readonly JsonObject[], oddities: string[]): number | undefined {
  for (const place of places)
    for (const name of names) {
      const tokens = toTokens(place[name], name, oddities)
      if (tokens !== undefined) return tokens
    }
  return undefined
}

const toFlag = (value: unknown) => (typeof value === 'boolean' ? value : undefined)

const BY_FIELD: Readonly<Record<string, Feature>> = {
  tools: 'tools',
  response_format: 'json_mode',
  structured_outputs: 'structured_outputs',
  logprobs: 'logprobs',
  reasoning: 'reasoning',
}

function toFeatures(fields: unknown): Feature[] | undefined {
  if (!Array.isArray(fields)) return undefined
  const said = new Set(fields.map((field) => BY_FIELD[String(field)]))
  return FEATURES.filter((feature) => said.has(feature))
}

const PRICES = [
  ...['prompt', 'completion', 'input_cache_read', 'input_cache_write', 'internal_reasoning', 'audio', 'request'],
  'web_search',
] as const
const DECIMAL = /^\d{1,9}(\.\d{1,18})?$/

function toPricing(prices: JsonObject | null, oddities: string[]): PricingItem[] | undefined {
  if (prices?.prompt === undefined || prices.completion === undefined) return undefined
  const said = PRICES.flatMap((name): [string, unknown][] => (prices[name] === undefined ? [] : [[name, prices[name]]]))
  // `-1` is a price that varies per call.
  if (said.some(([, price]) => price === '-1')) return undefined
  const wrong = said.find(([, price]) => typeof price !== 'string' || !DECIMAL.test(price))
  if (wrong) {
    oddities.push(`price ${wrong[0]} ${JSON.stringify(wrong[1]).slice(0, 40)} is not a decimal number`)
    return undefined
  }
  const { prompt, completion, ...others } = Object.fromEntries(said) as Record<string, string>
  if (prompt === undefined || completion === undefined) return undefined
  // A price of 0 means no separate price: such tokens cost as much as prompt or completion.
  const own = Object.entries(others).filter(([, price]) => /[1-9]/.test(price))
  return [{ prompt, completion, ...Object.fromEntries(own) }]
}

function canChat(model: JsonObject, outputs: readonly string[] | undefined): boolean | undefined {
  if (model.active === false || asObject(model.capabilities)?.completion_chat === false) return false
  if (outputs && !outputs.includes('text')) return false
  return typeof model.type === 'string' && OTHERS.test(model.type) ? false : undefined
}

const OTHERS = /^(embeddings?|image|audio|video|moderation|rerank|transcribe)$/

/** Further facts of local servers: llama-server's `/props` and LM Studio's own list. Neither loads a model. */
/** A server started by Tollgate is usually llama-server; others have no `/props`. */
export function askFurther(models: readonly ListedModel[], { options, process }: Upstream): FurtherQuestion[] {
  if (options.preset === 'lmstudio') return [{ at: 'root', path: '/api/v1/models', of: null, read: readLmStudio }]
  if (options.preset !== 'llama.cpp' && process === null) return []
  const [only, ...others] = models
  if (only && others.length === 0) return [{ at: 'root', path: '/props', of: only.id, read: readProps }]
  // In router mode, llama-server has several models and would load one to respond.
  return models.map(({ id }) => ({
    ...{ at: 'root', of: id, read: readProps },
    path: `/props?model=${encodeURIComponent(id)}&autoload=false`,
  }))
}

/** `n_ctx` is for one slot, so for one request. */
function readProps(json: unknown, listed: ListedModel): ListedModel {
  const props = asObject(json)
  if (!props) return listed
  const settings = asObject(props.default_generation_settings)
  const reads = asObject(props.modalities)
  const can = asObject(props.chat_template_caps)
  const isYes = (value: unknown) => value === true
  const context = toTokens(settings?.n_ctx, 'n_ctx', [])
  const modalities: Modality[] = ['text']
  if (isYes(reads?.vision)) modalities.push('image')
  if (isYes(reads?.audio)) modalities.push('audio')
  if (isYes(reads?.video)) modalities.push('video')
  return {
    ...listed,
    ...toDefined({
      contextLength: context,
      servedContext: context,
      inputModalities: reads ? modalities : undefined,
      can: can
        ? {
            ...listed.can,
            tools: isYes(can.supports_tools) && isYes(can.supports_tool_calls ?? true),
            // Missing caps don't mean no reasoning; only a template with a place for it proves that.
            ...(isYes(can.supports_reasoning_effort) || isYes(can.supports_preserve_reasoning)
              ? { reasoning: true }
              : {}),
          }
        : undefined,
    }),
  }
}

/** `max_context_length` is the trained length; the loaded one counts. */
function readLmStudio(json: unknown, listed: ListedModel): ListedModel {
  const found = asList(asObject(json)?.models)
    .map(asObject)
    .find(
      (each) =>
        each?.key === listed.id || asList(each?.loaded_instances).some((one) => asObject(one)?.id === listed.id),
    )
  if (!found) return listed
  const loaded = asList(found.loaded_instances).map(asObject)
  const config = asObject(loaded.find((one) => one?.id === listed.id)?.config ?? loaded[0]?.config)
  const served = toTokens(config?.context_length, 'context_length', [])
  const trained = toTokens(found.max_context_length, 'max_context_length', [])
  const can = asObject(found.capabilities)
  const sees: Modality[] = can?.vision === true ? ['text', 'image'] : ['text']
  return {
    ...listed,
    ...toDefined({
      name: asText(found.display_name) || undefined,
      contextLength: served ?? trained,
      servedContext: served,
      trainedContext: trained,
      inputModalities: can ? sees : undefined,
      can:
        typeof can?.trained_for_tool_use === 'boolean'
          ? {
              ...listed.can,
              tools: can.trained_for_tool_use,
              // Reasoning options. Older versions don't report any.
              ...(asObject(can.reasoning) ? { reasoning: true } : {}),
            }
          : undefined,
      canChat: found.type === 'embedding' ? false : undefined,
    }),
    ...toSize({
      parameters: found.params_string,
      quantization: asObject(found.quantization)?.name,
      bytes: found.size_bytes,
    }),
  }
}
