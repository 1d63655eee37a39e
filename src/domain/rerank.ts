/** A request to rank documents by their relevance to a query. */

import { EndpointRequest, type TokensBeside } from './endpoint-request.ts'
import type { RankedDocument } from './endpoint-results.ts'
import type { JsonObject } from './json.ts'
import { MOST_UNITS, type UnitCounts } from './units.ts'

/** A search unit is one query with up to this many documents, or chunks of them (Cohere, "How does pricing work?"). */
const CHUNKS_PER_UNIT = 100
/** Longer documents, query included, are split. */
const TOKENS_PER_CHUNK = 500
/** UTF-8 bytes. */
const BYTES_PER_TOKEN = 4

export class RerankRequest extends EndpointRequest {
  readonly endpoint = 'rerank'
  readonly inputs: readonly string[]
  override readonly beside: TokensBeside
  override readonly [MOST_UNITS]: UnitCounts
  override readonly counted: UnitCounts

  /**
   * @param documents texts; never empty.
   * @param returned the original documents, to return; null if the client doesn't want them.
   * @param top maximum number of results; null = all.
   */
  constructor(
    readonly model: string,
    readonly query: string,
    readonly documents: readonly string[],
    readonly returned: readonly unknown[] | null,
    readonly top: number | null,
    readonly extras: Readonly<JsonObject>,
  ) {
    super()
    this.inputs = [query, ...documents]
    const ofQuery = Buffer.byteLength(query)
    // Models read the query once per document.
    const again = ofQuery * (documents.length - 1)
    this.beside = { likely: Math.ceil(again / BYTES_PER_TOKEN), most: again }
    let likely = 0
    let most = 0
    for (const document of documents) {
      const bytes = ofQuery + Buffer.byteLength(document)
      likely += toChunks(bytes / BYTES_PER_TOKEN)
      most += toChunks(bytes)
    }
    this.counted = { searchUnits: toUnits(likely), countedBy: 'text' }
    this[MOST_UNITS] = { searchUnits: toUnits(most) }
  }

  /** Splits into requests of at most `most` documents each, in order. */
  split(most: number): RerankRequest[] {
    const { model, query, documents, extras } = this
    if (documents.length <= most) return [this]
    return Array.from({ length: Math.ceil(documents.length / most) }, (_, at) => {
      const part = documents.slice(at * most, (at + 1) * most)
      return new RerankRequest(model, query, part, null, null, extras)
    })
  }
}

/** Best first. */
export const byScore = (documents: RankedDocument[]): RankedDocument[] =>
  documents.sort((a, b) => b.score - a.score || a.index - b.index)

const toChunks = (tokens: number) => Math.max(1, Math.ceil(tokens / TOKENS_PER_CHUNK))
const toUnits = (chunks: number) => Math.ceil(chunks / CHUNKS_PER_UNIT)
