/**
 * Items of a Responses API response. Each keeps its whole content for its last event, and unwritten content until the previous item has
 * ended.
 */
import type { AnswerEvent } from '../../domain/events.ts'
import { asList, asObject, asText, type JsonObject, tryJson } from '../../domain/json.ts'
import { JsonScan } from '../../domain/json-text.ts'
import { encodeReasoning } from '../../upstreams/dialects/reasoning-state.ts'
import type { ResponseOptions } from './request.ts'
import type { ClientTool } from './tools.ts'

export type Status = 'in_progress' | 'completed' | 'incomplete'

/** `bytes` is empty if unknown. */
interface Logprob {
  token: string
  logprob: number
  bytes: number[]
}

export interface TokenLogprob extends Logprob {
  top_logprobs: Logprob[]
}

export interface TextPart {
  type: 'output_text'
  text: string
  annotations: object[]
  logprobs: TokenLogprob[]
}

export interface RefusalPart {
  type: 'refusal'
  refusal: string
}

interface SummaryPart {
  type: 'summary_text'
  text: string
}

export type OutputItem =
  | { type: 'message'; id: string; status: Status; role: 'assistant'; content: (TextPart | RefusalPart)[] }
  | { type: 'reasoning'; id: string; summary: SummaryPart[]; encrypted_content?: string }
  | {
      type: 'function_call'
      id: string
      call_id: string
      name: string
      namespace?: string
      arguments: string
      status: Status
    }
  | {
      type: 'custom_tool_call'
      id: string
      call_id: string
      name: string
      namespace?: string
      input: string
      status: Status
    }
  | { type: 'local_shell_call'; id: string; call_id: string; action: object; status: Status }
  | { type: 'image_generation_call'; id: string; status: Status; result: string | null }

/** Writes a stream event. `fields` may be one line of JSON without the opening brace. */
export type Say = (type: string, fields: object | string) => void

export type ChoiceEvent = Extract<AnswerEvent, { choice: number }>

export interface Item {
  /** Takes an event's content; false if it belongs to another item. */
  take(event: ChoiceEvent): boolean
  /** True if nothing more is expected once another item has begun. */
  isComplete(): boolean
  toEmpty(): OutputItem
  toJson(status: Status): OutputItem
  sayMore(say: Say): void
  sayEnd(say: Say): void
}

export interface ItemPosition {
  item_id: string
  output_index: number
}

/** Reasoning: as a summary if requested, and encoded if the client sends it back. */
export class ReasoningItem implements Item {
  #text = ''
  #unsaid = ''
  #hasBegun = false
  readonly #details: object[] = []

  constructor(
    private readonly place: ItemPosition,
    private readonly options: Pick<ResponseOptions, 'wantsSummary' | 'wantsState'>,
  ) {}

  take(event: ChoiceEvent): boolean {
    if (event.kind !== 'reasoning') return false
    this.#text += event.text
    if (this.options.wantsSummary) this.#unsaid += event.text
    if (event.details && this.options.wantsState) this.#details.push(...event.details)
    return true
  }

  isComplete(): boolean {
    return true
  }

  toEmpty(): OutputItem {
    return { type: 'reasoning', id: this.place.item_id, summary: [] }
  }

  toJson(): OutputItem {
    const shown = this.options.wantsSummary ? this.#text : ''
    const state = this.options.wantsState ? encodeReasoning({ text: this.#text, details: this.#details }, shown) : null
    return {
      type: 'reasoning',
      id: this.place.item_id,
      summary: shown === '' ? [] : [{ type: 'summary_text', text: shown }],
      ...(state === null ? {} : { encrypted_content: state }),
    }
  }

  sayMore(say: Say): void {
    if (this.#unsaid === '') return
    const place = { ...this.place, summary_index: 0 }
    if (!this.#hasBegun)
      say('response.reasoning_summary_part.added', { ...place, part: { type: 'summary_text', text: '' } })
    this.#hasBegun = true
    say('response.reasoning_summary_text.delta', { ...place, delta: this.#unsaid })
    this.#unsaid = ''
  }

  sayEnd(say: Say): void {
    if (!this.#hasBegun) return
    const place = { ...this.place, summary_index: 0 }
    say('response.reasoning_summary_text.done', { ...place, text: this.#text })
    say('response.reasoning_summary_part.done', { ...place, part: { type: 'summary_text', text: this.#text } })
  }
}

export class ImageItem implements Item {
  /** Base64. */
  readonly #data: string

  constructor(
    private readonly place: ItemPosition,
    image: object,
  ) {
    const url = asText(asObject((image as JsonObject).image_url)?.url)
    this.#data = url.slice(url.indexOf(',') + 1)
  }

  take(): boolean {
    return false
  }

  isComplete(): boolean {
    return true
  }

  toEmpty(): OutputItem {
    return { type: 'image_generation_call', id: this.place.item_id, status: 'in_progress', result: null }
  }

  toJson(status: Status): OutputItem {
    return { type: 'image_generation_call', id: this.place.item_id, status, result: this.#data }
  }

  sayMore(): void {}

  sayEnd(): void {}
}

type Begin = ChoiceEvent & { kind: 'tool' }

export const PREFIXES: Readonly<Record<ClientTool['type'], string>> = {
  function: 'fc',
  custom: 'ctc',
  local_shell: 'lsh',
}

export class CallItem implements Item {
  #arguments = ''
  #unsaid = ''
  readonly #json = new JsonScan()

  constructor(
    private readonly place: ItemPosition,
    private readonly tool: ClientTool,
    private readonly call: Begin,
  ) {}

  take(event: ChoiceEvent): boolean {
    if (event.kind !== 'arguments' || event.index !== this.call.index) return false
    this.#arguments += event.text
    this.#unsaid += event.text
    this.#json.take(event.text)
    return true
  }

  /** Calls may be interleaved. This call is complete when its arguments are. */
  isComplete(): boolean {
    return this.#json.isClosed
  }

  toEmpty(): OutputItem {
    return this.#toItem('in_progress', '')
  }

  toJson(status: Status): OutputItem {
    return this.#toItem(status, this.#arguments)
  }

  /** A custom tool's text is known only once its JSON is complete. */
  sayMore(say: Say): void {
    if (this.tool.type !== 'function' || this.#unsaid === '') return
    say('response.function_call_arguments.delta', { ...this.place, delta: this.#unsaid })
    this.#unsaid = ''
  }

  sayEnd(say: Say): void {
    if (this.tool.type === 'function') {
      const { name } = this.tool
      say('response.function_call_arguments.done', { ...this.place, name, arguments: this.#arguments })
    } else if (this.tool.type === 'custom') {
      const input = toInput(this.#arguments)
      if (input !== '') say('response.custom_tool_call_input.delta', { ...this.place, delta: input })
      say('response.custom_tool_call_input.done', { ...this.place, input })
    }
  }

  #toItem(status: Status, args: string): OutputItem {
    const tool = this.tool
    const call = { id: this.place.item_id, call_id: this.call.id }
    if (tool.type === 'local_shell') return { type: 'local_shell_call', ...call, action: toAction(args), status }
    const named = { ...call, name: tool.name, ...(tool.namespace ? { namespace: tool.namespace } : {}) }
    if (tool.type === 'function') return { type: 'function_call', ...named, arguments: args, status }
    return { type: 'custom_tool_call', ...named, input: toInput(args), status }
  }
}

/** The text inside the input object, or the arguments themselves if it isn't one. */
function toInput(args: string): string {
  const input = asObject(tryJson(args))?.input
  return typeof input === 'string' ? input : args
}

/** A command in one string is run by a shell. */
function toAction(args: string): object {
  const { command, working_directory: folder, timeout_ms: ms } = asObject(tryJson(args)) ?? {}
  const words = typeof command === 'string' ? ['bash', '-lc', command] : asList(command).map(asText)
  return {
    type: 'exec',
    command: words,
    env: {},
    ...(typeof folder === 'string' ? { working_directory: folder } : {}),
    ...(typeof ms === 'number' ? { timeout_ms: ms } : {}),
  }
}
