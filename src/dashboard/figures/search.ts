/** What is typed into the search of a list. Pure. */

/** Whether texts have all of these words among them, in whatever case. */
export function hasWords(texts: readonly string[], search: string): boolean {
  const text = texts.join('\n').toLowerCase()
  return search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word))
}
