/** What the audit row of a change of the catalogue says of it. Pure. */
import type { Changes, Counts } from './changes.ts'

/** A row of audit stays small; all that was changed is in the history of the catalogue. */
const MOST_TOLD = 100

/** How many rows were changed, and the fields of the first of them, by the names of the rows. */
export function toDetail({ changes, created, updated, deleted, adopted }: Changes & Counts) {
  const told = changes.slice(0, MOST_TOLD)
  const side = (which: 'before' | 'after') =>
    Object.fromEntries(told.filter((one) => Object.keys(one[which]).length > 0).map((one) => [one.name, one[which]]))
  const untold = changes.length - told.length
  return {
    ...{ created, updated, deleted, adopted },
    ...{ before: side('before'), after: side('after') },
    ...(untold > 0 ? { untold } : {}),
  }
}
