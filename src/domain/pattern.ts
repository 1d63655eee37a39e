/** The patterns of a key's allow-list, such as `openai/*`. Pure. */

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
