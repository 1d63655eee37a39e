/** Where an answer has it from, as clients of OpenAI's format read it: a place in the text, and the page. Pure. */
import { asList, asObject, asText } from '../../../domain/json.ts'

const MAX_CITATIONS = 1_000
/** UTF-16 units that are looked through in all. Segments in their order take as many as the text has. */
const MAX_SEARCHED = 10_000_000

/**
 * Reads `groundingMetadata`: each page of each segment that has one. A segment is found by its words, since its places are in
 * bytes of a part, and a stream cuts parts as it likes; one that is not in the text is left out, and so is what comes after as
 * many citations, or as much searching, as there may be.
 */
export function toCitations(metadata: unknown, text: string): object[] {
  const { groundingChunks, groundingSupports } = asObject(metadata) ?? {}
  const pages = asList(groundingChunks).map((chunk) =>
    asObject(asObject(chunk)?.web ?? asObject(chunk)?.retrievedContext),
  )
  const citations: object[] = []
  let from = 0
  let searched = 0
  for (const each of asList(groundingSupports)) {
    const { segment, groundingChunkIndices } = asObject(each) ?? {}
    const words = asText(asObject(segment)?.text)
    if (words === '') continue
    const next = text.indexOf(words, from)
    const start = next === -1 ? text.indexOf(words) : next
    searched += next === -1 ? 2 * text.length : next - from + words.length
    if (searched > MAX_SEARCHED) return citations
    if (start === -1) continue
    from = start
    for (const place of asList(groundingChunkIndices)) {
      if (citations.length >= MAX_CITATIONS) return citations
      const page = typeof place === 'number' ? pages[place] : null
      const url = asText(page?.uri)
      if (url === '') continue
      const span = { start_index: start, end_index: start + words.length }
      const url_citation = { ...span, url, title: asText(page?.title).toWellFormed() }
      citations.push({ type: 'url_citation', url_citation, index: citations.length })
    }
  }
  return citations
}
