/** Progress of the first-run checklist: only the user's actions count, not the demo's entries. */

interface Key {
  id: string
  name: string
  status: string
  /** A playground key. */
  hidden?: boolean
  last_used_ms: number | null
  last_model: string | null
}

interface Model {
  slug: string
  is_ready: boolean | null
  reason: string | null
}

const isDemo = (slug: string | null) => slug?.startsWith('tollgate/demo') ?? false

/**
 * @param upstreams null for members, who see only models
 * @param withDemo true if the user chose the demo instead of a provider
 */
export function toSteps(
  keys: readonly Key[],
  models: readonly Model[],
  upstreams: readonly { dialect: string }[] | null,
  withDemo: boolean,
) {
  const counted = models.filter(({ slug }) => withDemo || !isDemo(slug))
  const own = keys.filter(({ hidden = false }) => !hidden)
  const used = own.flatMap(({ id, name, last_used_ms: atMs, last_model: model }) =>
    atMs === null || (isDemo(model) && !withDemo) ? [] : [{ id, name, atMs, model }],
  )
  /** IDs of the ready models. */
  const ready = counted.filter(({ is_ready }) => is_ready).map(({ slug }) => slug)
  const hasProvider = upstreams?.some(({ dialect }) => dialect !== 'demo') ?? ready.length > 0
  return {
    ready,
    hasProvider: hasProvider || (withDemo && ready.length > 0),
    hasDemo: models.some(({ slug, is_ready }) => isDemo(slug) && is_ready),
    /** Why the first unready model is not ready; null if none is unready. */
    unready: counted.find(({ is_ready }) => !is_ready)?.reason ?? null,
    /** Number of active keys. */
    keys: own.filter(({ status }) => status === 'active').length,
    /** The newest known use of a key. */
    first: used.sort((a, b) => b.atMs - a.atMs)[0] ?? null,
  }
}
