/**
 * Who may call what, and in which order: a pure function over the snapshot. A model that a key may not use is refused
 * in the very words of one that does not exist.
 */
import { allow, type Decision, GatewayError, refuse } from '../domain/error.ts'
import type { CatalogModel, Key, Snapshot, Target } from '../domain/snapshot.ts'

export interface Resolved {
  model: CatalogModel
  /** Ready targets that this key may use, best first; never empty. */
  targets: [Target, ...Target[]]
}

/** Finds the targets of a slug or an alias for a key. `param` is what the refusal names: `model` in a chat request. */
export function resolve(snapshot: Snapshot, key: Key, asked: string): Decision<Resolved> {
  const found = visibleModel(snapshot, key, asked)
  if (!found) return refuse(modelNotFound(asked, 'model'))
  const [first, ...others] = found.targets.filter((target) => target.upstream.notReady === null)
  if (!first) return refuse(notReady(found))
  return allow({ model: found.model, targets: [first, ...others] })
}

/** The model behind a slug or alias with the targets that this key may use; null where there is none for it. */
export function visibleModel(
  snapshot: Snapshot,
  key: Key,
  asked: string,
): { model: CatalogModel; targets: Target[] } | null {
  const model = snapshot.models.get(snapshot.aliases.get(asked) ?? asked)
  if (!model || !mayUse(key, model.facts.id)) return null
  const targets = key.scope === 'local' ? model.targets.filter((target) => target.upstream.local) : model.targets
  return targets.length === 0 && key.scope === 'local' ? null : { model, targets }
}

export function modelNotFound(asked: string, param: string | null): GatewayError {
  return new GatewayError(
    'model_not_found',
    `model not found: \`${asked.slice(0, 200)}\`. This model is not available on this API; GET /v1/models lists what this key may use.`,
    { param },
  )
}

function notReady({ model, targets }: { model: CatalogModel; targets: Target[] }): GatewayError {
  const [target] = targets
  const why = target
    ? `its upstream \`${target.upstream.id}\` cannot be called: ${target.upstream.notReady}`
    : 'it has no enabled route'
  // Only an administrator can change that: a client that tries again waits for nothing.
  return new GatewayError('model_not_ready', `The model \`${model.facts.id}\` is not ready: ${why}.`, {
    headers: { 'x-should-retry': 'false' },
  })
}

/** Tells whether the allow-list covers a slug; an empty one covers all. */
export function mayUse(key: Key, slug: string): boolean {
  return key.models.length === 0 || key.models.some((pattern) => matches(pattern, slug))
}

/** Matches a pattern in which `*` stands for any run of characters, `/` included. Linear, whatever the pattern. */
export function matches(pattern: string, slug: string): boolean {
  const [head = '', ...rest] = pattern.split('*')
  if (!slug.startsWith(head)) return false
  const tail = rest.pop()
  if (tail === undefined) return slug === head
  let at = head.length
  for (const piece of rest) {
    const found = slug.indexOf(piece, at)
    if (found === -1) return false
    at = found + piece.length
  }
  return slug.length - at >= tail.length && slug.endsWith(tail)
}
