/**
 * Ids of tool calls that another upstream made may hold what this API refuses (`^[a-zA-Z0-9_-]+$`). The id of a call and of its
 * result become the same other one; clients keep theirs, for no answer repeats the ids of a request. Pure.
 */
const TAKEN = /^[a-zA-Z0-9_-]+$/

export function toToolId(id: string): string {
  if (TAKEN.test(id)) return id
  // Two ids must not become one.
  return `${id.replace(/[^a-zA-Z0-9_-]/g, '_').slice(0, 40)}_${Bun.hash(id).toString(36)}`
}
