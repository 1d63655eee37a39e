/**
 * Function calls as events: numbered from 0, each with an id, its name, and its arguments in one piece. They come whole, or
 * begun with `willContinue` and gone on with by parts without a name. Pure.
 */
import type { AnswerEvent } from '../../../domain/events.ts'
import { asObject, asText, type JsonObject } from '../../../domain/json.ts'
import type { Expected } from '../../backend.ts'
import { PartialArgs } from './partial-args.ts'

/** The index under which the event of a legacy call stands: tool calls begin at 0. */
const LEGACY_INDEX = -1

export class Calls {
  readonly #choice: number
  readonly #callId: string
  readonly #isLegacy: boolean
  readonly #isOne: boolean
  readonly #ids = new Set<string>()
  #count = 0
  /** The one whose arguments are still coming, unless it is left out. */
  #open: { index: number | null; args: PartialArgs } | null = null

  constructor({ callId, body }: Pick<Expected, 'callId' | 'body'>, choice: number) {
    this.#callId = callId
    this.#choice = choice
    this.#isLegacy = !body.tools && Boolean(body.functions)
    this.#isOne = this.#isLegacy || body.parallel_tool_calls === false
  }

  /** How the answer ends where it was not cut short; null where nothing was called. */
  get reason(): 'tool_calls' | 'function_call' | null {
    if (this.#count === 0) return null
    return this.#isLegacy ? 'function_call' : 'tool_calls'
  }

  /** Takes one `functionCall`. Returns the id of the call that it begins; null where it begins none, or one too many. */
  take(call: JsonObject, out: AnswerEvent[]): string | null {
    const name = asText(call.name)
    if (name === '') {
      this.#goOn(call, out)
      return null
    }
    this.end(out)
    const index = this.#begin()
    const isPartial = call.willContinue === true || call.partialArgs !== undefined
    const args = new PartialArgs()
    this.#open = { index, args }
    if (index === null) {
      if (!isPartial) this.#open = null
      return null
    }
    const isLegacy = index === LEGACY_INDEX
    const id = isLegacy ? '' : this.#toId(asText(call.id), index)
    const type = isLegacy ? 'function_call' : 'function'
    out.push({ kind: 'tool', choice: this.#choice, index, id, name: name.toWellFormed(), type })
    if (isPartial) this.#goOn(call, out)
    else {
      this.#open = null
      this.#say(index, JSON.stringify(asObject(call.args) ?? {}), out)
    }
    return id
  }

  /** Nothing more comes: says what is still held of the last call. */
  end(out: AnswerEvent[]): void {
    const open = this.#open
    this.#open = null
    if (open && open.index !== null) this.#say(open.index, open.args.toJson(), out)
  }

  #goOn(call: JsonObject, out: AnswerEvent[]): void {
    this.#open?.args.take(call.partialArgs)
    if (call.willContinue !== true) this.end(out)
  }

  /** Null for one that its client has no place for: one call at a time was asked for. */
  #begin(): number | null {
    if (this.#isOne && this.#count > 0) return null
    this.#count += 1
    return this.#isLegacy ? LEGACY_INDEX : this.#count - 1
  }

  /** The upstream's id, or one of ours where it has none or has said it before. */
  #toId(given: string, index: number): string {
    const isNew = given !== '' && given.isWellFormed() && !this.#ids.has(given)
    const id = isNew ? given : this.#mint(index)
    this.#ids.add(id)
    return id
  }

  #mint(index: number): string {
    return `call_${Bun.hash(`${this.#callId}/${this.#choice}/${index}`).toString(16).padStart(16, '0')}`
  }

  #say(index: number, text: string, out: AnswerEvent[]): void {
    out.push({ kind: 'arguments', choice: this.#choice, index, text: text.toWellFormed() })
  }
}
