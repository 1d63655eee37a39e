/** Whether a model, or one of its routes, can be asked, and why not, in words. Pure. */
import type { CatalogModel, Target } from '../domain/snapshot.ts'
import type { ShownUpstream } from './upstream.ts'

/** What is known of the upstreams, and whether it is a running server that knows it. */
export interface KnownUpstreams {
  upstreams: ReadonlyMap<string, ShownUpstream>
  serves: boolean
}

export const toKnown = (rows: readonly ShownUpstream[], serves: boolean): KnownUpstreams => ({
  upstreams: new Map(rows.map((row) => [row.id, row])),
  serves,
})

/** What keeps the models of an upstream from being asked. */
const OUT: ReadonlySet<ShownUpstream['state']> = new Set(['down', 'not_ready'])

/** Why no target of a model can be called, or null where one can. */
export function toReasons({ targets }: Pick<CatalogModel, 'targets'>, known: KnownUpstreams): string | null {
  if (targets.length === 0) return 'no enabled route'
  const reasons = targets.map((target) => {
    const reason = toReason(target, known)
    return reason === null ? null : `${target.upstream.id}: ${reason}`
  })
  return reasons.includes(null) ? null : [...new Set(reasons)].join('; ')
}

/** Why a target cannot be called, or null where it can, as far as anybody knows. */
export function toReason(
  { model, upstream, upstreamModel }: Target,
  { upstreams, serves }: KnownUpstreams,
): string | null {
  const row = upstreams.get(upstream.id)
  // What this environment lacks is all that is known without a server, and nothing beside what one says.
  if (!serves) return row ? row.reason : upstream.notReady
  if (row && OUT.has(row.state)) return row.reason ?? row.state
  const target = row?.targets.find((each) => each.model === model && each.upstream_model === upstreamModel)
  return target?.breaker === 'open' && target.open_for_keys === null
    ? `${target.failures_in_a_row} requests in a row failed, and its breaker is open`
    : null
}
