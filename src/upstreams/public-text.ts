/** What of an upstream's own words others may read; every dialect's failures go through it. Pure. */
import type { Target } from '../domain/snapshot.ts'

const MAX_CHARS = 1_000

/** Takes our credential out of an upstream's words, then cuts them: the other way round could leave half of it. */
export function toPublic(text: string, { upstream }: Pick<Target, 'upstream'>): string {
  const hidden = upstream.credential ? text.replaceAll(upstream.credential, '…') : text
  return hidden.slice(0, MAX_CHARS)
}
