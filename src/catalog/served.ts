/**
 * Combines what local servers report with the catalog. Reports replace discovered facts; facts from files and
 * administrators stay, except a context longer than the server's.
 */
import type { ListedModel } from '../domain/model-server.ts'
import { FEATURES, type Feature, type Modality, type Origin } from '../domain/models.ts'
import type { CatalogModel, Snapshot, Target } from '../domain/snapshot.ts'

/** By upstream ID, then the server's model names. */
export type Served = ReadonlyMap<string, ReadonlyMap<string, ListedModel>>

export interface Contradiction {
  model: string
  upstream: string
  /** In catalog terms, such as `context_length 8192`. */
  catalog: string
  server: string
  /** Which limit applies, and what to do. */
  hint: string
}

/** Also returns contradictions to report. */
export function withServed(
  snapshot: Snapshot,
  served: Served,
): { snapshot: Snapshot; contradictions: Contradiction[] } {
  if (served.size === 0) return { snapshot, contradictions: [] }
  const contradictions: Contradiction[] = []
  const models = new Map(snapshot.models)
  for (const [slug, model] of snapshot.models) {
    const found = model.targets.map((target) => findServed(target, served.get(target.upstream.id)))
    if (found.every((one) => one === null)) continue
    models.set(slug, toServedModel(model, found))
    for (const [at, target] of model.targets.entries())
      contradictions.push(...findContradictions(model, target, found[at] ?? null))
  }
  return { snapshot: { ...snapshot, models }, contradictions }
}

/** Null if unreported, or if the server forwards the model to another one. @param listed the upstream's last report */
export function findServed(
  { upstream, upstreamModel }: Target,
  listed: ReadonlyMap<string, ListedModel> | undefined,
): ListedModel | null {
  if (listed === undefined) return null
  const isAlone = listed.size === 1 && (upstream.process !== null || upstream.options.preset === 'llama.cpp')
  // llama-server accepts any model name; Ollama's names without a tag mean `:latest`.
  const found =
    listed.get(upstreamModel) ??
    listed.get(`${upstreamModel}:latest`) ??
    (isAlone ? listed.values().next().value : undefined)
  return found === undefined || found.isElsewhere ? null : found
}

const isFound = ({ origin }: { origin: Origin }) => origin === 'builtin' || origin === 'discovered'

function toServedModel(model: CatalogModel, found: readonly (ListedModel | null)[]): CatalogModel {
  const { facts } = model
  const targets = model.targets.map((target, at) => {
    const listed = found[at]
    return listed ? toServedTarget(target, listed, isFound(model) && isFound(target)) : target
  })
  // Model-wide facts come from the first target.
  const { quantization, sizeBytes, inputModalities } = found[0] ?? {}
  const longest = Math.max(...targets.map(({ contextLength }) => contextLength))
  const context = isFound(model) ? longest : Math.min(facts.context_length, longest)
  const writes = Math.max(...targets.map(({ maxOutputLength }) => maxOutputLength))
  const featured = FEATURES.filter((feature) => targets.some(({ features }) => features.includes(feature)))
  return {
    ...model,
    targets,
    facts: {
      ...facts,
      context_length: context,
      max_output_length: isFound(model) ? writes : Math.min(facts.max_output_length, context),
      input_modalities: (isFound(model) ? inputModalities : undefined) ?? facts.input_modalities,
      supported_features: isFound(model) ? featured : facts.supported_features,
      ...(quantization === undefined ? {} : { quantization }),
      ...(sizeBytes === undefined ? {} : { size_bytes: sizeBytes }),
    },
  }
}

/** @param isOpen whether the facts are only discovered */
function toServedTarget(target: Target, listed: ListedModel, isOpen: boolean): Target {
  const { contextLength: said, maxOutputLength, features } = target
  const contextLength = (isOpen ? listed.servedContext : undefined) ?? Math.min(said, mostOf(listed))
  // An output limit equal to the context means that none was known.
  const isBounded = !isOpen || maxOutputLength < said
  return {
    ...target,
    contextLength,
    maxOutputLength: isBounded ? Math.min(maxOutputLength, contextLength) : contextLength,
    features: isOpen ? FEATURES.filter((feature) => listed.can?.[feature] ?? features.includes(feature)) : features,
  }
}

const mostOf = ({ servedContext, trainedContext }: ListedModel) =>
  servedContext ?? trainedContext ?? Number.POSITIVE_INFINITY

/** Modalities that servers report. */
const MEDIA: readonly Modality[] = ['image', 'audio', 'video']
const REPORTED: readonly Feature[] = ['tools', 'reasoning']

function findContradictions(model: CatalogModel, target: Target, listed: ListedModel | null): Contradiction[] {
  if (listed === null || (isFound(model) && isFound(target))) return []
  const { contextLength, features, upstream } = target
  const most = mostOf(listed)
  const reads = listed.inputModalities
  const declared = isFound(model) ? [] : model.facts.input_modalities
  const media = MEDIA.filter((one) => reads && declared.includes(one) && !reads.includes(one))
  const lacking = REPORTED.filter((feature) => features.includes(feature) && listed.can?.[feature] === false)
  const at = { model: model.facts.id, upstream: upstream.id }
  return [
    ...(contextLength > most
      ? [{ ...at, catalog: `context_length ${contextLength}`, server: `${most} tokens`, hint: TOO_LONG }]
      : []),
    ...(media.length > 0
      ? [{ ...at, catalog: `input_modalities ${media.join(', ')}`, server: 'supports none of these', hint: STAYS }]
      : []),
    ...(lacking.length > 0
      ? [{ ...at, catalog: `supported_features ${lacking.join(', ')}`, server: 'supports none of these', hint: STAYS }]
      : []),
  ]
}

const TOO_LONG = "Tollgate uses the server's value. Start the server with a longer context, or correct the catalog"
const STAYS = "Tollgate uses the catalog's value. Correct it, or start the server with support for it"
