/** Counters and histograms as arrays of numbers, created once per owner: counting creates no strings and no objects. */
import { keysOf } from '../domain/json.ts'
import { COUNTED, type Counted, type CountedName, OTHER } from './definitions.ts'

/** Cells of a histogram in addition to those of its bounds: larger values, and the sum. */
const BEYOND = 2

export interface Exemplar {
  traceId: string
  value: number
  atMs: number
}

/** Counts of a series as JSON. `counted` has pairs of a cell's index and its value, without zeros. */
export interface Counts {
  cells: [owner: string, counted: number[]][]
  exemplars: [owner: string, cell: number, Exemplar][]
}

export class Series {
  readonly #definition: Counted
  readonly #owners = new Map<string, Float64Array>()
  readonly #positions: readonly ReadonlyMap<string, number>[]
  /** Cells per set of labels: one, or the buckets and the sum. */
  readonly width: number
  readonly #size: number
  /** The latest exemplar of each bucket, by the owner's cells, then by cell index. */
  readonly exemplars = new Map<Float64Array, Map<number, Exemplar>>()

  constructor(definition: Counted) {
    this.#definition = definition
    const sets = Object.values(definition.labels)
    this.#positions = sets.map((values) => new Map(values.map((value, at) => [value, at])))
    this.width = definition.type === 'counter' ? 1 : definition.bounds.length + BEYOND
    this.#size = sets.reduce((size, values) => size * values.length, this.width)
    if (definition.owner === null) this.#of('')
  }

  /** `first` and `second` are label values; unknown ones count as `other`, or not at all. */
  add(by: number, owner = '', first = '', second = ''): void {
    // A shortcut: most kinds of tokens are rare.
    if (by === 0) return
    const at = this.#at(first, second)
    const cells = this.#of(owner)
    cells[at] = (cells[at] ?? 0) + by
  }

  /** @param traceId of a sampled trace, the exemplar of its bucket. */
  observe(value: number, owner = '', first = '', traceId: string | null = null): void {
    const { bounds } = this.#definition
    const from = this.#at(first, '')
    if (Number.isNaN(from)) return
    const cells = this.#of(owner)
    let bucket = 0
    while (bucket < bounds.length && value > (bounds[bucket] ?? 0)) bucket++
    cells[from + bucket] = (cells[from + bucket] ?? 0) + 1
    const sum = from + bounds.length + 1
    cells[sum] = (cells[sum] ?? 0) + value
    if (traceId === null) return
    const exemplars = this.exemplars.getOrInsertComputed(cells, () => new Map())
    exemplars.set(from + bucket, { traceId, value, atMs: Date.now() })
  }

  /** Returns the counts since the last call, and resets them. Null if there are none. */
  take(): Counts | null {
    const counts: Counts = { cells: [], exemplars: [] }
    for (const [owner, cells] of this.#owners) {
      const counted: number[] = []
      for (let at = 0; at < cells.length; at++) {
        const value = cells[at] ?? 0
        if (value !== 0) counted.push(at, value)
      }
      if (counted.length === 0) continue
      cells.fill(0)
      counts.cells.push([owner, counted])
      for (const [cell, exemplar] of this.exemplars.get(cells) ?? []) counts.exemplars.push([owner, cell, exemplar])
    }
    this.exemplars.clear()
    return counts.cells.length === 0 ? null : counts
  }

  /** Adds the counts of another process. */
  merge({ cells: counted, exemplars }: Counts): void {
    for (const [owner, pairs] of counted) {
      const cells = this.#of(owner)
      for (let at = 0; at < pairs.length; at += 2) {
        const cell = pairs[at] ?? 0
        cells[cell] = (cells[cell] ?? 0) + (pairs[at + 1] ?? 0)
      }
    }
    for (const [owner, cell, exemplar] of exemplars)
      this.exemplars.getOrInsertComputed(this.#of(owner), () => new Map()).set(cell, exemplar)
  }

  /** Cells by owner; with no owner, one entry from the start. */
  get owners(): ReadonlyMap<string, Float64Array> {
    return this.#owners
  }

  /** Combinations of label values, in the order of the cells. */
  get sets(): string[][] {
    const add = (all: string[][], values: readonly string[]) =>
      all.flatMap((before) => values.map((value) => [...before, value]))
    return Object.values(this.#definition.labels).reduce(add, [[]])
  }

  #of(owner: string): Float64Array {
    const known = this.#owners.get(owner)
    if (known !== undefined) return known
    if (owner !== OTHER && this.#owners.size >= this.#definition.most) return this.#of(OTHER)
    const cells = new Float64Array(this.#size)
    this.#owners.set(owner, cells)
    return cells
  }

  /** NaN for an unknown value: typed arrays ignore this index. */
  #at(first: string, second: string): number {
    const [a, b] = this.#positions
    if (a === undefined) return 0
    const at = a.get(first) ?? a.get(OTHER) ?? Number.NaN
    return b === undefined ? at * this.width : (at * b.size + (b.get(second) ?? Number.NaN)) * this.width
  }
}

export type Registry = Readonly<Record<CountedName, Series>>

export type AllCounts = Partial<Record<CountedName, Counts>>

/** Null if there are no counts since the last call. */
export function takeCounts(registry: Registry): AllCounts | null {
  const all: AllCounts = {}
  for (const name of keysOf(COUNTED)) {
    const counts = registry[name].take()
    if (counts !== null) all[name] = counts
  }
  return Object.keys(all).length === 0 ? null : all
}

export function mergeCounts(registry: Registry, all: AllCounts): void {
  for (const name of keysOf(COUNTED)) if (all[name]) registry[name].merge(all[name])
}

export const createRegistry = (): Registry =>
  Object.fromEntries(Object.entries(COUNTED).map(([name, definition]) => [name, new Series(definition)])) as Registry
