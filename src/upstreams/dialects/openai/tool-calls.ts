/**
 * Tool calls as events: numbered from 0 without gaps; id, kind and name once, before any arguments; then pieces of the
 * arguments. Upstreams leave indexes out, repeat them or let them drift, so a piece finds its call by its id first, then
 * by its index, else it belongs to the last one. Pure.
 */
import type { AnswerEvent } from '../../../domain/events.ts'
import { SurrogateBuffer } from './surrogate-buffer.ts'
import { type ToolEntry, toToolEntry } from './tool-entry.ts'

interface Call {
  /** The upstream's own id and index. */
  id: string
  index: number | null
  kind: 'function' | 'custom'
  name: string
  /** All arguments so far, or all of a custom tool's input. */
  text: string
  readonly pieces: SurrogateBuffer
  /** Our index; null until its name is known and it has begun. */
  position: number | null
}

export class ToolCalls {
  readonly #calls: Call[] = []
  readonly #ids = new Set<string>()
  #positions = 0

  /** @param mint gives the id of a call that has none, by its position. */
  constructor(
    readonly choice: number,
    readonly mint: (position: number) => string,
  ) {}

  /** Takes one delta's or one message's `tool_calls`. */
  take(list: unknown, out: AnswerEvent[]): void {
    const begunHere = new Set<Call>()
    for (const item of Array.isArray(list) ? list : [list]) {
      const entry = toToolEntry(item)
      if (entry) this.#takeEntry(entry, begunHere, out)
    }
  }

  /** What is still missing. `complete`: the answer was not cut short, so a call without arguments has none: `{}`. */
  end(complete: boolean, out: AnswerEvent[]): void {
    for (const call of this.#calls) {
      const without = complete && call.kind === 'function' && call.text.trim() === ''
      this.#say(call, call.pieces.end() + (without ? '{}' : ''), out)
    }
  }

  /** Whether a call has begun. */
  get any(): boolean {
    return this.#positions > 0
  }

  #takeEntry(entry: ToolEntry, begunHere: Set<Call>, out: AnswerEvent[]): void {
    const found = this.#find(entry)
    if (found && !begunHere.has(found) && isRepeated(found, entry)) return
    const call = found && !isAnother(found, entry, begunHere.has(found)) ? found : this.#add(entry)
    if (call !== found) begunHere.add(call)
    call.id ||= entry.id
    call.text += entry.text
    if (call.position !== null) {
      this.#say(call, call.pieces.take(entry.text), out)
      return
    }
    if (entry.name === '') return
    call.name = entry.name
    call.kind = entry.kind
    this.#begin(call, out)
    this.#say(call, call.pieces.take(call.text), out)
  }

  /** The call that an entry continues; undefined where it begins one. */
  #find(entry: ToolEntry): Call | undefined {
    const calls = this.#calls
    const sameId = entry.id === '' ? undefined : calls.find(({ id }) => id === entry.id)
    if (sameId) return sameId
    const nearest = entry.index === null ? calls.at(-1) : calls.findLast(({ index }) => index === entry.index)
    if (entry.id !== '') return nearest && isJoined(nearest, entry) ? nearest : undefined
    return nearest ?? (entry.name === '' ? calls.at(-1) : undefined)
  }

  #add({ id, index, kind }: ToolEntry): Call {
    const call: Call = { id, index, kind, name: '', text: '', pieces: new SurrogateBuffer(), position: null }
    this.#calls.push(call)
    return call
  }

  #begin(call: Call, out: AnswerEvent[]): void {
    const { kind, name } = call
    const index = this.#positions++
    call.position = index
    const id = call.id === '' || this.#ids.has(call.id) ? this.mint(index) : call.id
    this.#ids.add(id)
    out.push({ kind: 'tool', choice: this.choice, index, id, name, type: kind })
  }

  #say({ position }: Call, text: string, out: AnswerEvent[]): void {
    if (position !== null && text !== '') out.push({ kind: 'arguments', choice: this.choice, index: position, text })
  }
}

/** Whether a named entry begins another call than the one that its id or index points to. */
function isAnother(call: Call, { name, text }: ToolEntry, begunInSameList: boolean): boolean {
  if (name === '') return false
  // In one list, each name is a call. Otherwise it says another name, or begins again what is complete.
  if (begunInSameList || call.name === '') return begunInSameList
  return name !== call.name || (text.trimStart().startsWith('{') && isWhole(call))
}

/**
 * Whether an entry with a new id still continues the call at its index: the call's id came late, or every piece has one
 * of its own. Else an index that is used again is a new call.
 */
const isJoined = (call: Call, { name }: ToolEntry) =>
  call.id === '' || (name === '' && call.name !== '' && !isWhole(call))

/** Whether an entry only says again what its call has said: some servers close a stream so. */
const isRepeated = (call: Call, { id, text }: ToolEntry) =>
  id !== '' && id === call.id && text !== '' && text === call.text && isWhole(call)

function isWhole({ kind, text }: Call): boolean {
  if (kind === 'custom' || !text.trimEnd().endsWith('}')) return false
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
