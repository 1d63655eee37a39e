/** The tool calls of an answer: numbered from 0, each told as the kind of tool that its name was given for. Pure. */
import type { AnswerEvent, ToolKind } from '../../../domain/events.ts'
import { asObject, asText, type JsonObject, parseJson } from '../../../domain/json.ts'
import type { Expected } from '../../backend.ts'
import { SurrogateBuffer } from '../surrogate-buffer.ts'
import { type BlockReader, toWhole } from './block.ts'

/** The index under which the events of a legacy call stand. */
const LEGACY_INDEX = -1

export class Calls {
  readonly #kinds = new Map<string, ToolKind>()
  readonly #ids = new Set<string>()
  readonly #callId: string
  #positions = 0
  #isLegacy = false

  constructor({ body, callId }: Pick<Expected, 'body' | 'callId'>) {
    this.#callId = callId
    for (const { name } of body.functions ?? []) this.#kinds.set(name, 'function_call')
    for (const tool of body.tools ?? []) if (tool.type === 'custom') this.#kinds.set(tool.custom.name, 'custom')
  }

  /** The finish reason that the calls so far stand for; null without any. */
  get reason(): 'tool_calls' | 'function_call' | null {
    if (this.#positions > 0) return 'tool_calls'
    return this.#isLegacy ? 'function_call' : null
  }

  /** Begins a call. Null for what is none: it has no name, or is a second one where only one can be told. */
  begin(block: JsonObject, out: AnswerEvent[]): BlockReader | null {
    const name = toWhole(block.name)
    const type = this.#kinds.get(name) ?? 'function'
    if (name === '' || (type === 'function_call' && this.#isLegacy)) return null
    const isLegacy = type === 'function_call'
    const index = isLegacy ? LEGACY_INDEX : this.#positions++
    if (isLegacy) this.#isLegacy = true
    const id = isLegacy ? '' : this.#toId(toWhole(block.id), index)
    out.push({ kind: 'tool', choice: 0, index, id, name, type })
    return new CallReader(index, type, block.input)
  }

  #toId(given: string, index: number): string {
    const hash = () => Bun.hash(`${this.#callId}/${index}`).toString(16).padStart(16, '0')
    const id = given === '' || this.#ids.has(given) ? `toolu_${hash()}` : given
    this.#ids.add(id)
    return id
  }
}

class CallReader implements BlockReader {
  readonly #index: number
  readonly #type: ToolKind
  /** What the block said when it began: all of it, or nothing yet. */
  readonly #given: unknown
  readonly #pieces = new SurrogateBuffer()
  /** Of a custom tool, whose text is known once the JSON around it is complete. */
  #held = ''
  #isBegun = false

  constructor(index: number, type: ToolKind, given: unknown) {
    this.#index = index
    this.#type = type
    this.#given = given
  }

  take(delta: JsonObject, out: AnswerEvent[]): void {
    if (delta.type !== 'input_json_delta') return
    const text = this.#pieces.take(asText(delta.partial_json))
    if (text.trim() !== '') this.#isBegun = true
    if (this.#type === 'custom') this.#held += text
    else this.#say(text, out)
  }

  end(out: AnswerEvent[]): void {
    const rest = this.#pieces.end()
    const given = this.#isBegun ? '' : JSON.stringify(asObject(this.#given) ?? {})
    if (this.#type === 'custom') this.#say(toInput(this.#held + rest + given), out)
    else this.#say(rest + given, out)
  }

  #say(text: string, out: AnswerEvent[]): void {
    if (text !== '') out.push({ kind: 'arguments', choice: 0, index: this.#index, text: text.toWellFormed() })
  }
}

/** The text within the object that a custom tool is called with; whatever was written, where it is none. */
function toInput(json: string): string {
  try {
    const input = asObject(parseJson(json))?.input
    if (typeof input === 'string') return input
    if (input === undefined && json === '{}') return ''
  } catch {}
  return json
}
