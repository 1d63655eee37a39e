/** Effects of a planned change, for its preview. */
import type { Effect, Named } from '../domain/effects.ts'
import type { CatalogRows } from '../store/catalog-rows.ts'
import type { KeyRows } from '../store/config-store.ts'
import type { Change } from './change.ts'
import { KINDS } from './fields.ts'

/** Models and upstreams by ID. */
type Taken = 'models' | 'upstreams'

/** Requests by ID; null if unknown. */
export type Served = Record<Taken, ReadonlyMap<string, number> | null>

/** The model or upstream that a change removes or disables. */
export function toTaken({ action, name, before, after }: Change): { kind: Taken; id: string } | null {
  const [, kind, id] = /^(models|upstreams)\.(?!.*: route )(.*)$/s.exec(name) ?? []
  const isOff = action === 'delete' ? before.enabled !== false : action === 'update' && after.enabled === false
  return isOff && id !== undefined ? { kind: kind as Taken, id } : null
}

interface Known extends KeyRows {
  /** Before the change. */
  rows: CatalogRows
  served: Served
  nowMs: number
}

export function withEffects(changes: readonly Change[], { rows, keys, teams, served, nowMs }: Known): Change[] {
  const active = keys.filter(
    ({ hidden, revokedMs, expiresMs }) => !hidden && revokedMs === null && (expiresMs ?? Number.MAX_VALUE) > nowMs,
  )
  const gone = new Set(changes.filter(isGone).map(({ name }) => name))
  const staying = rows.aliases.filter((alias) => !gone.has(KINDS.aliases.nameOf(alias)))
  const keysOf = group(active.flatMap(({ name, models }) => models.map((slug) => [slug, name])))
  const teamsOf = group(teams.flatMap(({ name, models }) => models.map((slug) => [slug, name])))
  const aliasesOf = group(staying.map(({ alias, model }) => [model, alias]))
  const modelsOf = group(findLost(changes, rows, gone))
  return changes.map((change) => {
    const taken = toTaken(change)
    if (taken === null) return change
    const { kind, id } = taken
    const of = (names: ReadonlyMap<string, string[]>, owner: Taken) => toNamed(kind === owner ? names.get(id) : [])
    const known = served[kind]
    const effect: Effect = {
      ...{ keys: of(keysOf, 'models'), teams: of(teamsOf, 'models'), aliases: of(aliasesOf, 'models') },
      models: of(modelsOf, 'upstreams'),
      requests: known && (known.get(id) ?? 0),
    }
    return { ...change, effect }
  })
}

const isGone = ({ action, after }: Change) => action === 'delete' || after.enabled === false

/** Each removed upstream, with a model that would have no route left. */
function findLost(changes: readonly Change[], { upstreams, models, routes }: CatalogRows, gone: ReadonlySet<string>) {
  const goes = (id: string) => gone.has(`upstreams.${id}`)
  const enabled = new Set(upstreams.filter((upstream) => upstream.enabled).map(({ id }) => id))
  const gained = new Set(
    changes
      .filter(({ action, name, after }) => name.includes(': route ') && (action === 'create' || after.enabled === true))
      .map(({ name }) => name.slice(0, name.indexOf(': route '))),
  )
  const routesOf = Map.groupBy(
    routes.filter((route) => route.enabled && enabled.has(route.upstream)),
    ({ model }) => model,
  )
  return models.flatMap((model): [string, string][] => {
    const name = KINDS.models.nameOf(model)
    const own = routesOf.get(model.slug) ?? []
    if (!model.enabled || gone.has(name) || gained.has(name)) return []
    if (own.some((route) => !goes(route.upstream) && !gone.has(KINDS.routes.nameOf(route)))) return []
    const ids = new Set(own.map(({ upstream }) => upstream).filter(goes))
    return [...ids].map((id) => [id, model.slug])
  })
}

function group(pairs: readonly (readonly string[])[]): Map<string, string[]> {
  const found = new Map<string, string[]>()
  for (const [of = '', name = ''] of pairs) {
    const names = found.get(of)
    if (names) names.push(name)
    else found.set(of, [name])
  }
  return found
}

const MAX_NAMED = 5

const toNamed = (names: readonly string[] = []): Named => ({
  total: names.length,
  names: names.slice(0, MAX_NAMED),
})
