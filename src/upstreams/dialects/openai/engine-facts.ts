/**
 * What servers of one's own say of their models beside the list of OpenAI's format: llama-server by `/props`, LM Studio by its own list.
 * Neither question loads a model. Pure.
 */
import { toDefined } from '../../../domain/changes.ts'
import { asList, asObject, asText } from '../../../domain/json.ts'
import type { ListedModel } from '../../../domain/model-server.ts'
import type { Modality } from '../../../domain/models.ts'
import type { Upstream } from '../../../domain/snapshot.ts'
import type { FurtherQuestion } from '../../backend.ts'
import { toSize, toTokens } from '../listed.ts'

/** One that is started here is mostly llama-server; another one has no `/props`. */
export function askFurther(models: readonly ListedModel[], { options, process }: Upstream): FurtherQuestion[] {
  if (options.preset === 'lmstudio') return [{ at: 'root', path: '/api/v1/models', of: null, read: readLmStudio }]
  if (options.preset !== 'llama.cpp' && process === null) return []
  const [only, ...others] = models
  if (only && others.length === 0) return [{ at: 'root', path: '/props', of: only.id, read: readProps }]
  // As a router it has several, and would load one to answer for it.
  return models.map(({ id }) => ({
    ...{ at: 'root', of: id, read: readProps },
    path: `/props?model=${encodeURIComponent(id)}&autoload=false`,
  }))
}

/** `n_ctx` is that of one slot, and so of one request. */
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
            // Neither says that it does not think: only a template that has a place for thoughts tells that it does.
            ...(isYes(can.supports_reasoning_effort) || isYes(can.supports_preserve_reasoning)
              ? { reasoning: true }
              : {}),
          }
        : undefined,
    }),
  }
}

/** Its `max_context_length` is what a model was trained with; what one was loaded with counts. */
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
              // How it may be asked to think; older versions do not say it of any.
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
