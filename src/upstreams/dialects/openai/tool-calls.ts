/**
 * Tool calls as events, numbered from 0 without gaps. Since upstreams omit, repeat or shift indexes, a piece finds its call by ID, then by
 * index, else it belongs to the last one.
 */
import type { AnswerEvent, ToolKind } from '../../../domain/events.ts'
import { asObject, asText, type JsonObject, tryJson } from '../../../domain/json.ts'
import { SurrogateBuffer } from '../json-decoder.ts'
import { type CallIds, LEGACY_INDEX } from '../tool-calls.ts'

interface Call extends Entry {
  readonly pieces: SurrogateBuffer
  /** Our index; null until its name is known. */
  position: number | null
  /** The ID sent to the client; '' until it has begun. */
  told: string
  isSigned: boolean
}

export class ToolCalls {
  readonly #calls: Call[] = []
  readonly #byId = new Map<string, Call>()
  readonly #byIndex = new Map<number, Call>()
  #legacy: Call | null = null
  #positions = 0

  /** @param sign creates `reasoning_details` items from a call's extra content and its client ID. */
  constructor(
    readonly choice: number,
    readonly ids: CallIds,
    readonly sign: (extra: JsonObject, id: string) => object[] = () => [],
  ) {}

  take(list: unknown, out: AnswerEvent[]): void {
    const begunHere = new Set<Call>()
    for (const item of Array.isArray(list) ? list : [list]) {
      const entry = toEntry(item)
      if (entry) this.#takeEntry(entry, begunHere, out)
    }
  }

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

  /** Adds missing arguments: a call without any gets `{}`, unless the response was truncated. */
  end(complete: boolean, out: AnswerEvent[]): void {
    for (const call of this.#legacy ? [...this.#calls, this.#legacy] : this.#calls) {
      const without = complete && call.kind !== 'custom' && call.text.trim() === ''
      this.#say(call, call.pieces.end() + (without ? '{}' : ''), out)
    }
  }

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

/** True if a named entry begins another call than the one its ID or index finds. */
function isAnother(call: Call, { name, text }: Entry, begunInSameList: boolean): boolean {
  if (name === '') return false
  // Each name in one list is a call. Otherwise a different name, or new arguments after complete ones, begins another.
  if (begunInSameList || call.name === '') return begunInSameList
  return name !== call.name || (text.trimStart().startsWith('{') && isWhole(call))
}

/** True if an entry with a new ID continues the call at its index: the ID came late, or each piece has its own. */
const isJoined = (call: Call, { name }: Entry) => call.id === '' || (name === '' && call.name !== '' && !isWhole(call))

/** True if an entry only repeats its call, as some servers do at the end of a stream. */
const isRepeated = (call: Call, { id, text }: Entry) =>
  id !== '' && id === call.id && text !== '' && text === call.text && isWhole(call)

const isWhole = ({ kind, text }: Call): boolean =>
  kind !== 'custom' && text.trimEnd().endsWith('}') && tryJson(text) !== undefined

/** An item of an upstream's `tool_calls`, whole or partial. Missing texts are ''. */
interface Entry {
  id: string
  index: number | null
  kind: ToolKind
  name: string
  /** The next piece of arguments, or of a custom tool's input. */
  text: string
  extra: JsonObject | null
}

const NO_ENTRY: Entry = { id: '', index: null, kind: 'function', name: '', text: '', extra: null }

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

/** `{}` is ignored, since servers send it before the text; a call without arguments gets its `{}` at the end. */
function toArgumentText(value: unknown): string {
  if (typeof value === 'string') return value
  if (value === undefined || value === null) return ''
  const text = JSON.stringify(value)
  return text === '{}' ? '' : text
}
