/**
 * Revisions tell the states of one thing apart: an edit may name the state that it was made from, and is refused once another one holds. So
 * the later of two edits never takes back the earlier one without a word. Pure.
 */
import { ServiceError } from './service-error.ts'

/** The revision of a state: 16 hex digits, the same for the same state. When it was written last does not count. */
export const toRevision = (state: object): string =>
  Bun.SHA256.hash(
    JSON.stringify(state, (name, value) => (name === 'updatedMs' ? undefined : value)),
    'hex',
  ).slice(0, 16)

/**
 * Throws `revision_conflict` where a change names another revision than that of the present state.
 *
 * @param revision absent: the change is made whatever the state is.
 * @param what begins the sentence, such as `The key 'dev'`.
 * @param current the state as the refusal shows it, by the names of columns.
 */
export function requireRevision(
  { revision }: { revision?: string },
  what: string,
  state: object,
  current: Readonly<Record<string, unknown>>,
): void {
  if (revision === undefined) return
  const now = toRevision(state)
  if (revision === now) return
  const message = `${what} has changed since you read it. Nothing was saved. Read the current state, then make your change again.`
  throw new ServiceError({ kind: 'revision_conflict', revision: now, current }, message)
}
