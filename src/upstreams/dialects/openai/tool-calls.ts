/**
 * Tool calls as events: numbered from 0 without gaps; id, kind and name once, before any arguments; then pieces of the
 * arguments. Upstreams leave indexes out, repeat them or let them drift, so a piece finds its call by its id first, then
 * by its index, else it belongs to the last one. The legacy `function_call`, one a choice, is told in the same manner. Pure.
 */
import type { AnswerEvent, ToolKind } from '../../../domain/events.ts'
import { asObject, asText, type JsonObject, tryJson } from '../../../domain/json.ts'
import { SurrogateBuffer } from '../json-decoder.ts'
import { type CallIds, LEGACY_INDEX } from '../tool-calls.ts'

/** An entry that has taken in the pieces that followed it: `text` is all of them. */
interface Call extends Entry {
  readonly pieces: SurrogateBuffer
  /** Our index; null until its name is known and it has begun. */
  position: number | null
  /** Its id as clients know it; '' until it has begun. */
  told: string
  /** Whether what it carries was told. */
  isSigned: boolean
}

export class ToolCalls {
  readonly #calls: Call[] = []
  /** The first call of each id, and the last one at each index. */
  readonly #byId = new Map<string, Call>()
  readonly #byIndex = new Map<number, Call>()
  #legacy: Call | null = null
  #positions = 0

  /**
   * @param sign makes items of `reasoning_details` of what a call carries, by its id as clients know it.
   */
  constructor(
    readonly choice: number,
    readonly ids: CallIds,
    readonly sign: (extra: JsonObject, id: string) => object[] = () => [],
  ) {}

  /** Takes one delta's or one message's `tool_calls`. */
  take(list: unknown, out: AnswerEvent[]): void {
    const begunHere = new Set<Call>()
    for (const item of Array.isArray(list) ? list : [list]) {
      const entry = toEntry(item)
      if (entry) this.#takeEntry(entry, begunHere, out)
    }
  }

  /** Takes one delta's or one message's `function_call`. */
  takeLegacy(value: unknown, out: AnswerEvent[]): void {
    const called = asObject(value)
    if (!called) return
    const entry: Entry = {
      ...NO_ENTRY,
      kind: 'function_call',
      name: asText(called.name),
      text: toArgumentText(called.arguments),
    }
    this.#legacy ??= toCall(entry)
    this.#extend(this.#legacy, entry, out)
  }

  /** What is still missing. `complete`: the answer was not cut short, so a call without arguments has none: `{}`. */
  end(complete: boolean, out: AnswerEvent[]): void {
    for (const call of this.#legacy ? [...this.#calls, this.#legacy] : this.#calls) {
      const without = complete && call.kind !== 'custom' && call.text.trim() === ''
      this.#say(call, call.pieces.end() + (without ? '{}' : ''), out)
    }
  }

  /** The finish reason that the calls which have begun stand for; null where none has. */
  get reason(): 'tool_calls' | 'function_call' | null {
    if (this.#positions > 0) return 'tool_calls'
    return this.#legacy !== null && this.#legacy.position !== null ? 'function_call' : null
  }

  #takeEntry(entry: Entry, begunHere: Set<Call>, out: AnswerEvent[]): void {
    const found = this.#find(entry)
    if (found && !begunHere.has(found) && isRepeated(found, entry)) return
    let call = found
    if (!call || isAnother(call, entry, begunHere.has(call))) {
      call = toCall(entry)
      this.#calls.push(call)
      if (call.index !== null) this.#byIndex.set(call.index, call)
      begunHere.add(call)
    }
    call.id ||= entry.id
    if (!this.#byId.has(call.id)) this.#byId.set(call.id, call)
    this.#extend(call, entry, out)
    call.extra ??= entry.extra
    if (call.extra && !call.isSigned && call.told !== '') this.#sign(call, call.extra, out)
  }

  #sign(call: Call, extra: JsonObject, out: AnswerEvent[]): void {
    call.isSigned = true
    const details = this.sign(extra, call.told)
    if (details.length > 0) out.push({ kind: 'reasoning', choice: this.choice, text: '', details })
  }

  /** The call that an entry continues; undefined where it begins one. */
  #find(entry: Entry): Call | undefined {
    const sameId = entry.id === '' ? undefined : this.#byId.get(entry.id)
    if (sameId) return sameId
    const last = this.#calls.at(-1)
    const nearest = entry.index === null ? last : this.#byIndex.get(entry.index)
    if (entry.id !== '') return nearest && isJoined(nearest, entry) ? nearest : undefined
    return nearest ?? (entry.name === '' ? last : undefined)
  }

  #extend(call: Call, { kind, name, text }: Entry, out: AnswerEvent[]): void {
    call.text += text
    if (call.position !== null) {
      this.#say(call, call.pieces.take(text), out)
      return
    }
    if (name === '') return
    call.name = name
    call.kind = kind
    const isLegacy = kind === 'function_call'
    const index = isLegacy ? LEGACY_INDEX : this.#positions++
    call.position = index
    const id = isLegacy ? '' : this.ids.of(call.id, index)
    call.told = id
    out.push({ kind: 'tool', choice: this.choice, index, id, name, type: kind })
    this.#say(call, call.pieces.take(call.text), out)
  }

  #say({ position }: Call, text: string, out: AnswerEvent[]): void {
    if (position !== null && text !== '') out.push({ kind: 'arguments', choice: this.choice, index: position, text })
  }
}

const toCall = ({ id, index, kind, extra }: Entry): Call => ({
  ...NO_ENTRY,
  id,
  index,
  kind,
  extra,
  pieces: new SurrogateBuffer(),
  position: null,
  told: '',
  isSigned: false,
})

/** Whether a named entry begins another call than the one that its id or index points to. */
function isAnother(call: Call, { name, text }: Entry, begunInSameList: boolean): boolean {
  if (name === '') return false
  // In one list, each name is a call. Otherwise it says another name, or begins again what is complete.
  if (begunInSameList || call.name === '') return begunInSameList
  return name !== call.name || (text.trimStart().startsWith('{') && isWhole(call))
}

/**
 * Whether an entry with a new id still continues the call at its index: the call's id came late, or every piece has one
 * of its own. Else an index that is used again is a new call.
 */
const isJoined = (call: Call, { name }: Entry) => call.id === '' || (name === '' && call.name !== '' && !isWhole(call))

/** Whether an entry only says again what its call has said: some servers close a stream so. */
const isRepeated = (call: Call, { id, text }: Entry) =>
  id !== '' && id === call.id && text !== '' && text === call.text && isWhole(call)

const isWhole = ({ kind, text }: Call): boolean =>
  kind !== 'custom' && text.trimEnd().endsWith('}') && tryJson(text) !== undefined

/** One item of an upstream's `tool_calls`, whole or a piece of one. Texts are '' where it says none. */
interface Entry {
  /** The upstream's own id and index. */
  id: string
  index: number | null
  kind: ToolKind
  name: string
  /** The next piece of the arguments, or of a custom tool's input. */
  text: string
  /** What else it carries, such as a signature (`signatures.ts`); null where that is nothing. */
  extra: JsonObject | null
}

const NO_ENTRY: Entry = { id: '', index: null, kind: 'function', name: '', text: '', extra: null }

/** Reads whichever fields are there; null for what is no item at all. */
function toEntry(value: unknown): Entry | null {
  const item = asObject(value)
  if (!item) return null
  const custom = asObject(item.custom)
  const kind = item.type === 'custom' || custom ? 'custom' : 'function'
  const called = custom ?? asObject(item.function) ?? item
  const { id } = item
  return {
    id: typeof id === 'number' ? String(id) : asText(id),
    index: Number.isInteger(item.index) ? (item.index as number) : null,
    kind,
    name: asText(called.name),
    text: toArgumentText(kind === 'custom' ? called.input : called.arguments),
    extra: asObject(item.extra_content),
  }
}

/**
 * Writes arguments that came as JSON as the text of it. An object without members says nothing: servers put it where
 * the text is still to come, and a call without arguments gets its `{}` in the end.
 */
function toArgumentText(value: unknown): string {
  if (typeof value === 'string') return value
  if (value === undefined || value === null) return ''
  const text = JSON.stringify(value)
  return text === '{}' ? '' : text
}
