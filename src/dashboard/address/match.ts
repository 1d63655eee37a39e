/** Addresses of pages: what pattern a path has, and what a query says. Pure; `address.ts` has the one of the browser. */

/** What the pattern's `:names` stand for in the path; null where it has another form. */
export function matchPath(pattern: string, path: string): Record<string, string> | null {
  const [wanted, given] = [pattern, path].map((text) => text.split('/').filter((part) => part !== '')) as [
    string[],
    string[],
  ]
  if (wanted.length !== given.length) return null
  const found: Record<string, string> = {}
  for (const [index, part] of wanted.entries()) {
    const value = given[index] ?? ''
    if (part.startsWith(':')) found[part.slice(1)] = decode(value)
    else if (part !== value) return null
  }
  return found
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** A query with some of its values changed; null and '' take one out. */
export function withQuery(query: string, changes: Record<string, string | null>): string {
  const values = new URLSearchParams(query)
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === '') values.delete(name)
    else values.set(name, value)
  }
  const text = values.toString()
  return text === '' ? '' : `?${text}`
}
