/** Query strings. */

/** Null and '' remove a parameter. */
export function withQuery(query: string, changes: Record<string, string | null>): string {
  const values = new URLSearchParams(query)
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === '') values.delete(name)
    else values.set(name, value)
  }
  const text = values.toString()
  return text === '' ? '' : `?${text}`
}
