/**
 * Numbers what comes as a list beside the text, `reasoning_details` and `annotations`: clients join the pieces of a stream
 * by an integer `index`, and some stop at an item without one (openai-python raises on the second chunk). Pure.
 */
import { asList, asObject } from '../../../domain/json.ts'

const NO_ITEMS: readonly object[] = []

export class ItemNumbers {
  #next = 0
  readonly #byType = new Map<unknown, number>()

  /** @param joins whether an item without an index goes on where the last of its type was; otherwise it is one of its own. */
  constructor(readonly joins: boolean) {}

  /** Gives each item its `index`; what is no object is left out. */
  take(list: unknown): readonly object[] {
    // Nearly no delta has one.
    if (list === undefined) return NO_ITEMS
    return asList(list).flatMap((each) => {
      const item = asObject(each)
      if (!item) return []
      const known = this.joins ? this.#byType.get(item.type) : undefined
      const index = isIndex(item.index) ? item.index : (known ?? this.#next)
      this.#byType.set(item.type, index)
      this.#next = Math.max(this.#next, index + 1)
      return { ...item, index }
    })
  }

  /** Gives one that stands alone the next number. */
  add<Item extends object>(item: Item): Item & { index: number } {
    return { ...item, index: this.#next++ }
  }
}

/** Far beyond any list: numbers that are larger still cannot be counted on. */
const MAX_INDEX = 1e6

const isIndex = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) <= MAX_INDEX
