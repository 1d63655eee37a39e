/**
 * Which models of a list are wanted, and what they are called here: names or patterns, the provider's or ours, and `NAME=SLUG` for one
 * that is to have a slug of its choosing. Pure.
 */
import type { ListedModel } from '../domain/model-server.ts'
import { isSlug } from './entry.ts'

export interface Wish {
  /** A name of the provider's or of ours; `*` is any run of characters. With a slug it is the provider's, as it is. */
  pattern: string
  /** What it is to be called here; null = as follows from its name. */
  slug: string | null
}

export function toWish(text: string): Wish {
  const at = text.lastIndexOf('=')
  const [pattern, slug] = [text.slice(0, at), text.slice(at + 1)]
  return at > 0 && isSlug(slug) && !pattern.includes('*') ? { pattern, slug } : { pattern: text, slug: null }
}

/** `maker/model` as it is; of a longer path the last part, and a name alone behind its provider's; null where that is no slug. */
export function toSlug(id: string, vendor: string): string | null {
  const slug = id.split('/').length === 2 ? id : `${vendor}/${id.slice(id.lastIndexOf('/') + 1)}`
  return isSlug(slug) ? slug : null
}

/** The slugs under which a model is wanted; none where it is not. */
export function toSlugs({ id }: Pick<ListedModel, 'id'>, wishes: readonly Wish[], vendor: string): string[] {
  const slug = toSlug(id, vendor)
  const chosen = wishes.flatMap((wish) => (wish.slug !== null && wish.pattern === id ? wish.slug : []))
  const isWanted = wishes.length === 0 || wishes.some((wish) => wish.slug === null && fits(wish, id, slug))
  return [...new Set(isWanted && slug !== null ? [...chosen, slug] : chosen)]
}

/** Whether a wish means a model by either of its names. */
export function fits(wish: Wish, id: string, slug: string | null): boolean {
  if (wish.slug !== null) return wish.pattern === id
  return matches(wish.pattern, id) || (slug !== null && matches(wish.pattern, slug))
}

function matches(pattern: string, name: string): boolean {
  const [head = '', ...parts] = pattern.split('*')
  if (parts.length === 0) return pattern === name
  const tail = parts.pop() ?? ''
  if (!name.startsWith(head) || !name.endsWith(tail) || name.length < head.length + tail.length) return false
  let rest = name.slice(head.length, name.length - tail.length)
  for (const part of parts) {
    const at = rest.indexOf(part)
    if (at < 0) return false
    rest = rest.slice(at + part.length)
  }
  return true
}
