/**
 * What local servers say of the models that they have, over what the catalogue says: what was found out gives way to it, what a file or
 * an administrator says stays, but for a context that no server has. Called by `server/served.ts` whenever either has changed. Pure.
 */
import type { ListedModel } from '../domain/model-server.ts'
import { FEATURES, type Feature, type Modality, type Origin } from '../domain/models.ts'
import type { CatalogModel, Snapshot, Target } from '../domain/snapshot.ts'

/** What each upstream has said last, by its id: of its models, by the names that it has for them. */
export type Served = ReadonlyMap<string, ReadonlyMap<string, ListedModel>>

/** Where somebody has said more of a model than its server has. */
export interface Contradiction {
  model: string
  upstream: string
  /** In the words of the catalogue, such as `context_length 8192`. */
  catalogue: string
  server: string
  /** What counts, and what to do. */
  hint: string
}

/** Gives the snapshot as requests are to see it, and what there is to tell of it. */
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

/**
 * What the server of a target says of its model; null where it says nothing, or has somebody else answer.
 * @param listed what its upstream has said last.
 */
export function findServed(
  { upstream, upstreamModel }: Target,
  listed: ReadonlyMap<string, ListedModel> | undefined,
): ListedModel | null {
  if (listed === undefined) return null
  const isAlone = listed.size === 1 && (upstream.process !== null || upstream.options.preset === 'llama.cpp')
  // llama-server answers for whatever it is asked for; Ollama has a name without a tag as the latest.
  const found =
    listed.get(upstreamModel) ??
    listed.get(`${upstreamModel}:latest`) ??
    (isAlone ? listed.values().next().value : undefined)
  return found === undefined || found.isElsewhere ? null : found
}

/** Whether it was found out, and not said by a file or by an administrator. */
const isFound = ({ origin }: { origin: Origin }) => origin === 'builtin' || origin === 'discovered'

function toServedModel(model: CatalogModel, found: readonly (ListedModel | null)[]): CatalogModel {
  const { facts } = model
  const targets = model.targets.map((target, at) => {
    const listed = found[at]
    return listed ? toServedTarget(target, listed, isFound(model) && isFound(target)) : target
  })
  // As it is answered where it is asked for first.
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

/** @param isOpen whether nobody has said what it is. */
function toServedTarget(target: Target, listed: ListedModel, isOpen: boolean): Target {
  const { contextLength: said, maxOutputLength, features } = target
  const contextLength = (isOpen ? listed.servedContext : undefined) ?? Math.min(said, mostOf(listed))
  // What was as long as the context was so for want of another limit.
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

/** What a server can tell of what a model reads. */
const MEDIA: readonly Modality[] = ['image', 'audio', 'video']
const TOLD: readonly Feature[] = ['tools', 'reasoning']

function findContradictions(model: CatalogModel, target: Target, listed: ListedModel | null): Contradiction[] {
  if (listed === null || (isFound(model) && isFound(target))) return []
  const { contextLength, features, upstream } = target
  const most = mostOf(listed)
  const reads = listed.inputModalities
  const declared = isFound(model) ? [] : model.facts.input_modalities
  const media = MEDIA.filter((one) => reads && declared.includes(one) && !reads.includes(one))
  const lacking = TOLD.filter((feature) => features.includes(feature) && listed.can?.[feature] === false)
  const at = { model: model.facts.id, upstream: upstream.id }
  return [
    ...(contextLength > most
      ? [{ ...at, catalogue: `context_length ${contextLength}`, server: `${most} tokens`, hint: TOO_LONG }]
      : []),
    ...(media.length > 0
      ? [{ ...at, catalogue: `input_modalities ${media.join(', ')}`, server: 'reads none of that', hint: STAYS }]
      : []),
    ...(lacking.length > 0
      ? [{ ...at, catalogue: `supported_features ${lacking.join(', ')}`, server: 'has none of that', hint: STAYS }]
      : []),
  ]
}

const TOO_LONG = 'what the server says counts: start it with a longer context, or correct the catalogue'
const STAYS = 'what the catalogue says counts: correct it, or start the server so that it can'
