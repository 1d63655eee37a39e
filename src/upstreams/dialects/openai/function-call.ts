/** The legacy `function_call` in the manner of tool calls: its name once, then the pieces of its arguments. Pure. */
import type { AnswerEvent } from '../../../domain/events.ts'
import { asObject, asText } from '../../../domain/json.ts'
import { SurrogateBuffer } from './surrogate-buffer.ts'
import { toArgumentText } from './tool-entry.ts'

/** The index under which the events of a legacy call stand: there is one a choice, and tool calls begin at 0. */
const INDEX = -1

export class FunctionCall {
  #name = ''
  #text = ''
  readonly #pieces = new SurrogateBuffer()

  constructor(readonly choice: number) {}

  take(value: unknown, out: AnswerEvent[]): void {
    const call = asObject(value)
    if (!call) return
    const piece = toArgumentText(call.arguments)
    this.#text += piece
    if (this.#name !== '') {
      this.#say(this.#pieces.take(piece), out)
      return
    }
    this.#name = asText(call.name)
    if (this.#name === '') return
    const { choice } = this
    out.push({ kind: 'tool', choice, index: INDEX, id: '', name: this.#name, type: 'function_call' })
    this.#say(this.#pieces.take(this.#text), out)
  }

  end(complete: boolean, out: AnswerEvent[]): void {
    if (this.any) this.#say(this.#pieces.end() + (complete && this.#text.trim() === '' ? '{}' : ''), out)
  }

  get any(): boolean {
    return this.#name !== ''
  }

  #say(text: string, out: AnswerEvent[]): void {
    if (text !== '') out.push({ kind: 'arguments', choice: this.choice, index: INDEX, text })
  }
}
