/**
 * What schemas were compiled to, by key and text, so that a request's answers and the next request need not compile again.
 * Room is made at the expense of the key that holds the most: nobody's many schemas push out another key's few. Pure.
 */

const MAX_SCHEMAS = 64
/** Of their texts; what they compile to takes some 500 times as many bytes. */
const MAX_CHARS = 400_000

interface Shelf<Compiled> {
  chars: number
  /** The one used last at the end. */
  bySchema: Map<string, Compiled>
}

export class KeptSchemas<Compiled> {
  readonly #shelves = new Map<string, Shelf<Compiled>>()
  #count = 0
  #chars = 0

  /** What a key's schema compiles to: kept from before, or compiled now. */
  get(owner: string, schema: string, compile: (schema: string) => Compiled): Compiled {
    const shelf = this.#shelves.getOrInsertComputed(owner, () => ({ chars: 0, bySchema: new Map() }))
    const { bySchema } = shelf
    const isKnown = bySchema.has(schema)
    const compiled = bySchema.get(schema) ?? compile(schema)
    bySchema.delete(schema)
    bySchema.set(schema, compiled)
    if (!isKnown) this.#grow(shelf, schema.length)
    return compiled
  }

  #grow(shelf: Shelf<Compiled>, chars: number): void {
    this.#count++
    this.#chars += chars
    shelf.chars += chars
    while (this.#count > MAX_SCHEMAS || this.#chars > MAX_CHARS) this.#dropOne()
  }

  /** Drops what was used longest ago by the key that holds the most. */
  #dropOne(): void {
    let largest: [string, Shelf<Compiled>] | null = null
    for (const each of this.#shelves) if (largest === null || share(each[1]) >= share(largest[1])) largest = each
    const [owner, shelf] = largest ?? []
    const [oldest] = shelf?.bySchema.keys() ?? []
    if (owner === undefined || shelf === undefined || oldest === undefined) return
    shelf.bySchema.delete(oldest)
    shelf.chars -= oldest.length
    this.#count--
    this.#chars -= oldest.length
    if (shelf.bySchema.size === 0) this.#shelves.delete(owner)
  }
}

/** How much of the whole a key holds, by what it holds the most of. */
const share = ({ chars, bySchema }: Shelf<unknown>) => Math.max(chars / MAX_CHARS, bySchema.size / MAX_SCHEMAS)
