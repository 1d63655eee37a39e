/** Adds to a plan what it takes away, and from whom. */
import type { Changes } from '../catalog/change.ts'
import { toTaken, withEffects } from '../catalog/effects.ts'
import { DAY_MS, hourOf } from '../domain/time.ts'
import { type AdminDeps, type Asker, toUsageRows } from './deps.ts'

const WEEK_MS = 7 * DAY_MS
/** More than a catalog may have. */
const MAX_GROUPS = 20_000

export type EffectDeps = Pick<AdminDeps, 'store' | 'reports' | 'now'>

/** Reads nothing for plans that take nothing away. */
export function effectsOf({ store, reports, now }: EffectDeps) {
  const count = async (asker: Asker, by: 'model' | 'upstream') => {
    const sinceMs = hourOf(now()) - WEEK_MS
    const options = { by: [by], sinceMs, untilMs: null, where: {}, limit: MAX_GROUPS, figures: 'spend' } as const
    // Without the report, a plan still shows the rest.
    const json = await reports.usage(asker, options).catch(() => null)
    return json && new Map(toUsageRows(json).map((row) => [String(row[by]), Number(row.requests)]))
  }
  return async <Plan extends Changes>(asker: Asker, plan: Plan): Promise<Plan> => {
    const kinds = new Set(plan.changes.flatMap((change) => toTaken(change)?.kind ?? []))
    if (kinds.size === 0) return plan
    const [rows, { keys, teams }, models, upstreams] = await Promise.all([
      store.readCatalog(),
      store.readKeys(),
      kinds.has('models') ? count(asker, 'model') : null,
      kinds.has('upstreams') ? count(asker, 'upstream') : null,
    ])
    const known = { rows, keys, teams, served: { models, upstreams }, nowMs: now() }
    return { ...plan, changes: withEffects(plan.changes, known) }
  }
}
