/** A call of a tool, told as one of the client's own: of a function, of a tool that takes a text, or of the local shell. Pure. */
import { asList, asObject, asText, type JsonObject } from '../../domain/json.ts'
import { Nesting } from '../nesting.ts'
import type { ChoiceEvent, Item, Place, Say } from './item.ts'
import type { ClientTool } from './tool-names.ts'
import type { OutputItem, Status } from './wire.ts'

type Begin = ChoiceEvent & { kind: 'tool' }

/** How the ids of its items begin. */
export const PREFIXES: Readonly<Record<ClientTool['type'], string>> = {
  function: 'fc',
  custom: 'ctc',
  local_shell: 'lsh',
}

export class CallItem implements Item {
  readonly #place: Place
  readonly #tool: ClientTool
  readonly #call: Begin
  #arguments = ''
  #unsaid = ''
  readonly #nesting = new Nesting()

  constructor(place: Place, tool: ClientTool, call: Begin) {
    this.#place = place
    this.#tool = tool
    this.#call = call
  }

  take(event: ChoiceEvent): boolean {
    if (event.kind !== 'arguments' || event.index !== this.#call.index) return false
    this.#arguments += event.text
    this.#unsaid += event.text
    this.#nesting.take(event.text)
    return true
  }

  /** Calls may come in turns, a piece of each: this one is whole once its arguments are. */
  isComplete(): boolean {
    return this.#nesting.isClosed
  }

  toEmpty(): OutputItem {
    return this.#toItem('in_progress', '')
  }

  toJson(status: Status): OutputItem {
    return this.#toItem(status, this.#arguments)
  }

  /** A text stands in JSON, and is known once that is complete. */
  sayMore(say: Say): void {
    if (this.#tool.type !== 'function' || this.#unsaid === '') return
    say('response.function_call_arguments.delta', { ...this.#place, delta: this.#unsaid })
    this.#unsaid = ''
  }

  sayEnd(say: Say): void {
    if (this.#tool.type === 'function') {
      const { name } = this.#tool
      say('response.function_call_arguments.done', { ...this.#place, name, arguments: this.#arguments })
    } else if (this.#tool.type === 'custom') {
      const input = toInput(this.#arguments)
      if (input !== '') say('response.custom_tool_call_input.delta', { ...this.#place, delta: input })
      say('response.custom_tool_call_input.done', { ...this.#place, input })
    }
  }

  #toItem(status: Status, args: string): OutputItem {
    const tool = this.#tool
    const call = { id: this.#place.item_id, call_id: this.#call.id }
    if (tool.type === 'local_shell') return { type: 'local_shell_call', ...call, action: toAction(args), status }
    const named = { ...call, name: tool.name, ...(tool.namespace ? { namespace: tool.namespace } : {}) }
    if (tool.type === 'function') return { type: 'function_call', ...named, arguments: args, status }
    return { type: 'custom_tool_call', ...named, input: toInput(args), status }
  }
}

function toObject(json: string): JsonObject | null {
  try {
    return asObject(JSON.parse(json))
  } catch {
    return null
  }
}

/** The text within the object that the function was called with; whatever was written, where it is none. */
function toInput(args: string): string {
  const input = toObject(args)?.input
  return typeof input === 'string' ? input : args
}

/** A command that is one text is one for a shell. */
function toAction(args: string): object {
  const { command, working_directory: folder, timeout_ms: ms } = toObject(args) ?? {}
  const words = typeof command === 'string' ? ['bash', '-lc', command] : asList(command).map(asText)
  return {
    type: 'exec',
    command: words,
    env: {},
    ...(typeof folder === 'string' ? { working_directory: folder } : {}),
    ...(typeof ms === 'number' ? { timeout_ms: ms } : {}),
  }
}
