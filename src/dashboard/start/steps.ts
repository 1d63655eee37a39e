/** Progress of the first-run checklist. */

interface Key {
  id: string
  name: string
  status: string
  last_used_ms: number | null
  last_model: string | null
}

interface Model {
  slug: string
  is_ready: boolean | null
  reason: string | null
}

export function toSteps(keys: readonly Key[], models: readonly Model[]) {
  const used = keys.flatMap(({ id, name, last_used_ms: atMs, last_model: model }) =>
    atMs === null ? [] : [{ id, name, atMs, model }],
  )
  return {
    /** IDs of the ready models. */
    ready: models.filter(({ is_ready }) => is_ready).map(({ slug }) => slug),
    /** Why the first unready model is not ready; null if none is unready. */
    unready: models.find(({ is_ready }) => !is_ready)?.reason ?? null,
    /** Number of active keys. */
    keys: keys.filter(({ status }) => status === 'active').length,
    /** The newest known use of a key. */
    first: used.sort((a, b) => b.atMs - a.atMs)[0] ?? null,
  }
}
