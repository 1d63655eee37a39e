/** Takes over a configuration: which model servers there are, and by which command each of them runs. Called by `fleet.ts`. */
import type { ProcessSpec, ProcessSpecs } from '../domain/model-server.ts'
import type { CatalogModel, Snapshot, Upstream } from '../domain/snapshot.ts'
import type { Arrangement } from './arrange.ts'
import { ManagedModel } from './model.ts'
import { toGone } from './refusals.ts'
import type { Supervisor } from './supervisor.ts'

export interface ConfigureDeps {
  arrangement: Arrangement
  supervise(id: string, spec: ProcessSpec): Supervisor
  nowMs(): number
}

/** What is gone from it, or has another command, ends once it has answered what it is answering. */
export function configure(deps: ConfigureDeps, { upstreams, models: catalog }: Snapshot, specs: ProcessSpecs): void {
  const { arrangement, supervise } = deps
  const { models } = arrangement
  arrangement.memory = specs.memory
  const slugs = toSlugs(catalog.values())
  const declared = new Set<string>()
  for (const [id, upstream] of upstreams) {
    const spec = specs.byUpstream.get(id)
    if (spec === undefined || upstream.process !== spec.hash) continue
    declared.add(id)
    const slug = slugs.get(id) ?? id
    const model = models.get(id)
    if (model) {
      const isOther = model.spec.hash !== spec.hash || (model.slug !== slug && hasSlug(spec))
      if (isOther) model.next = supervise(id, spec)
      Object.assign(model, { upstream, slug, spec, isGone: false })
    } else models.set(id, toModel(deps, { upstream, slug, spec }))
  }
  for (const [id, model] of models) {
    if (declared.has(id)) continue
    model.isGone = true
    model.wanted = null
    model.refuseAll(toGone())
  }
  arrangement.changed()
}

function toModel(
  { supervise, nowMs }: ConfigureDeps,
  { upstream, slug, spec }: { upstream: Upstream; slug: string; spec: ProcessSpec },
): ManagedModel {
  const model = new ManagedModel(upstream, slug, spec, supervise(upstream.id, spec))
  if (spec.preload) model.wanted = 'preload'
  model.wantedSinceMs = nowMs()
  return model
}

/** Whether its words have a place for the model that leads to it. */
const hasSlug = ({ command }: ProcessSpec) => command.some((word) => word.includes('{slug}'))

/** By the ids of upstreams the slug of the first model that leads to each. */
function toSlugs(models: Iterable<CatalogModel>): Map<string, string> {
  const slugs = new Map<string, string>()
  for (const { facts, targets } of models)
    for (const { upstream } of targets) slugs.getOrInsertComputed(upstream.id, () => facts.id)
  return slugs
}
