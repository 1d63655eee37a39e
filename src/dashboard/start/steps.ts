/** What of the first run has happened. Pure. */

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
    /** Slugs of models that can be asked. */
    ready: models.filter(({ is_ready }) => is_ready).map(({ slug }) => slug),
    /** Why the first of the others is not; null where there is none. */
    unready: models.find(({ is_ready }) => !is_ready)?.reason ?? null,
    /** How many are active. */
    keys: keys.filter(({ status }) => status === 'active').length,
    /** The newest that is known of; null before there was one. */
    first: used.sort((a, b) => b.atMs - a.atMs)[0] ?? null,
  }
}
