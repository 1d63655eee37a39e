/** Decodes Messages API responses. Pings and unknown events, blocks and deltas are ignored, as the API's versioning policy requires. */
import { UpstreamError } from '../../../domain/error.ts'
import type { AnswerEvent, FinishReason, ToolKind } from '../../../domain/events.ts'
import { asList, asObject, asText, type JsonObject, tryJson } from '../../../domain/json.ts'
import { toMode } from '../../../domain/usage.ts'
import type { Expected } from '../dialect.ts'
import { JsonDecoder, SurrogateBuffer } from '../json-decoder.ts'
import { toReasoningIssuer } from '../reasoning-state.ts'
import { CallIds, LEGACY_INDEX } from '../tool-calls.ts'
import { FORMAT } from './conversation.ts'
import { anthropicErrors } from './errors.ts'
import { UsageReader } from './usage.ts'

const REASONS: ReadonlyMap<unknown, FinishReason> = new Map([
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['refusal', 'content_filter'],
])

const TIERS: ReadonlyMap<unknown, 'default' | 'priority'> = new Map([
  ['standard', 'default'],
  ['priority', 'priority'],
])

export class AnswerDecoder extends JsonDecoder {
  protected readonly errors = anthropicErrors
  readonly #usage = new UsageReader()
  readonly #calls: Calls
  readonly #open = new Map<number, BlockReader>()
  readonly #places: Places
  #id: string | null = null
  #stop: string | null = null
  #explanation = ''

  constructor(expected: Expected) {
    super(expected)
    this.#calls = new Calls(expected)
    this.#places = { signer: toReasoningIssuer(expected.target), chars: 0, thoughts: 0, annotations: 0 }
  }

  protected override takeWhole(answer: JsonObject, _text: string, out: AnswerEvent[]): void {
    if (!Array.isArray(answer.content)) throw new UpstreamError('broken', 'returned 200 with an invalid message')
    this.#takeMode(answer.usage, out)
    for (const [index, value] of answer.content.entries()) {
      const block = asObject(value)
      if (block) this.#begin(index, block, out)
      this.#end(out)
    }
    this.#takeStop(answer)
    this.#finish(answer.usage, out)
  }

  protected override takeJson(event: JsonObject, name: string | null, _data: string, out: AnswerEvent[]): void {
    const index = typeof event.index === 'number' ? event.index : -1
    switch (asText(event.type) || name) {
      case 'message_start':
        this.#start(asObject(event.message) ?? {}, out)
        break
      case 'content_block_start':
        this.#begin(index, asObject(event.content_block) ?? {}, out)
        break
      case 'content_block_delta':
        this.#open.get(index)?.take(asObject(event.delta) ?? {}, out)
        break
      case 'content_block_stop':
        this.#endOf(index, out)
        break
      case 'message_delta':
        this.#end(out)
        this.#takeStop(asObject(event.delta) ?? {})
        this.#takeUsage(event.usage, out)
        break
      case 'message_stop':
        this.#end(out)
        this.#finish(null, out)
    }
  }

  /** A repeated start is fine, but a different one belongs to another attempt. */
  #start(message: JsonObject, out: AnswerEvent[]): void {
    const id = asText(message.id)
    if (this.#id !== null) {
      if (id !== this.#id) this.fail(new UpstreamError('broken', 'began another response within one'), out)
      return
    }
    this.#id = id
    this.#takeMode(message.usage, out)
    this.#takeUsage(message.usage, out)
  }

  /** Blocks are sequential: a new one ends those before it. */
  #begin(index: number, block: JsonObject, out: AnswerEvent[]): void {
    this.#end(out)
    const reader = this.#toReader(block, out)
    if (reader) this.#open.set(index, reader)
  }

  /** Skips calls of server-side tools. Their results are in the text that follows. */
  #toReader(block: JsonObject, out: AnswerEvent[]): BlockReader | null {
    switch (block.type) {
      case 'text':
        return new TextReader(block, this.#places, out)
      case 'thinking':
        return new ThoughtReader(block, this.#places, out)
      case 'tool_use':
        return this.#calls.begin(block, out)
      case 'redacted_thinking':
        readRedacted(block, this.#places, out)
        return null
    }
    out.push({ kind: 'working' })
    return null
  }

  #endOf(index: number, out: AnswerEvent[]): void {
    this.#open.get(index)?.end(out)
    this.#open.delete(index)
  }

  #end(out: AnswerEvent[]): void {
    for (const index of [...this.#open.keys()]) this.#endOf(index, out)
  }

  #takeStop(said: JsonObject): void {
    this.#stop = asText(said.stop_reason) || this.#stop
    this.#explanation = asText(asObject(said.stop_details)?.explanation) || this.#explanation
  }

  #takeUsage(value: unknown, out: AnswerEvent[]): void {
    const used = this.#usage.take(value)
    if (used?.others.length === 0) out.push({ kind: 'usage', usage: used.usage })
    else if (used) out.push({ kind: 'usage', ...used })
  }

  /** Takes the service tier and speed, which may have their own price. Later reports don't repeat them. */
  #takeMode(value: unknown, out: AnswerEvent[]): void {
    const usage = asObject(value) ?? {}
    const tier = TIERS.get(usage.service_tier)
    if (tier) out.push({ kind: 'origin', origin: { service_tier: tier } })
    const mode = toMode(usage.service_tier, usage.speed, usage.inference_geo)
    if (mode !== null) out.push({ kind: 'mode', mode })
  }

  #finish(usage: unknown, out: AnswerEvent[]): void {
    this.isOver = true
    const cut = REASONS.get(this.#stop) ?? null
    // A refusal may have no text.
    const isSilent = this.#places.chars === 0 && this.#calls.reason === null
    if (cut === 'content_filter' && isSilent && this.#explanation !== '')
      out.push({ kind: 'refusal', choice: 0, text: this.#explanation.toWellFormed() })
    out.push({ kind: 'finish', choice: 0, reason: cut ?? this.#calls.reason ?? 'stop' })
    this.#takeUsage(usage, out)
    out.push({ kind: 'done' })
  }
}

interface BlockReader {
  take(delta: JsonObject, out: AnswerEvent[]): void
  end(out: AnswerEvent[]): void
}

const toWhole = (value: unknown): string => asText(value).toWellFormed()

interface Places {
  /** Issuer of signatures (`toReasoningIssuer`). */
  signer: string
  /** UTF-16 units of text so far. */
  chars: number
  thoughts: number
  annotations: number
}

class TextReader implements BlockReader {
  readonly #places: Places
  readonly #from: number
  readonly #text = new SurrogateBuffer()
  readonly #citations: JsonObject[] = []

  constructor(block: JsonObject, places: Places, out: AnswerEvent[]) {
    this.#places = places
    this.#from = places.chars
    for (const citation of asList(block.citations)) this.#cite(citation)
    this.#say(this.#text.take(asText(block.text)), out)
  }

  take(delta: JsonObject, out: AnswerEvent[]): void {
    if (delta.type === 'text_delta') this.#say(this.#text.take(asText(delta.text)), out)
    else if (delta.type === 'citations_delta') this.#cite(delta.citation)
  }

  end(out: AnswerEvent[]): void {
    this.#say(this.#text.end(), out)
    const span = { start_index: this.#from, end_index: this.#places.chars }
    const items = this.#citations.flatMap((citation) => {
      const item = toAnnotation(citation, span)
      return item ? { ...item, index: this.#places.annotations++ } : []
    })
    if (items.length > 0) out.push({ kind: 'annotations', choice: 0, items })
  }

  #cite(value: unknown): void {
    const citation = asObject(value)
    if (citation) this.#citations.push(citation)
  }

  #say(text: string, out: AnswerEvent[]): void {
    this.#places.chars += text.length
    if (text !== '') out.push({ kind: 'text', choice: 0, text })
  }
}

/** Web pages and search results are cited by URL; documents of the request by title. */
function toAnnotation(citation: JsonObject, span: { start_index: number; end_index: number }): object | null {
  const title = toWhole(citation.title) || toWhole(citation.document_title)
  const url = toWhole(citation.url) || toWhole(citation.source)
  const quoted = toWhole(citation.cited_text)
  const content = quoted === '' ? {} : { content: quoted }
  if (url !== '') return { type: 'url_citation', url_citation: { url, title, ...content, ...span } }
  if (typeof citation.document_index !== 'number') return null
  return { type: 'file_citation', file_citation: { filename: title, ...content, ...span } }
}

class ThoughtReader implements BlockReader {
  readonly #index: number
  readonly #signer: string
  readonly #text = new SurrogateBuffer()
  #isNamed = false

  constructor(block: JsonObject, places: Places, out: AnswerEvent[]) {
    this.#index = places.thoughts++
    this.#signer = places.signer
    // The text may be hidden, and take minutes.
    out.push({ kind: 'working' })
    this.#think(this.#text.take(asText(block.thinking)), out)
    this.#sign(toWhole(block.signature), out)
  }

  take(delta: JsonObject, out: AnswerEvent[]): void {
    if (delta.type === 'thinking_delta') this.#think(this.#text.take(asText(delta.thinking)), out)
    else if (delta.type === 'signature_delta') this.#sign(toWhole(delta.signature), out)
  }

  end(out: AnswerEvent[]): void {
    this.#think(this.#text.end(), out)
  }

  #think(text: string, out: AnswerEvent[]): void {
    if (text !== '') out.push({ kind: 'reasoning', choice: 0, text, details: [this.#detail({ text })] })
  }

  #sign(signature: string, out: AnswerEvent[]): void {
    if (signature === '') return
    this.end(out)
    out.push({ kind: 'reasoning', choice: 0, text: '', details: [this.#detail({ signature })] })
  }

  /** Sent once, since clients join texts of one index. */
  #detail(said: { text: string } | { signature: string }): object {
    const named = this.#isNamed ? {} : { format: FORMAT, signer: this.#signer }
    this.#isNamed = true
    return { type: 'reasoning.text', ...said, ...named, index: this.#index }
  }
}

/** Hidden reasoning, which arrives in one piece. */
function readRedacted(block: JsonObject, places: Places, out: AnswerEvent[]): void {
  const data = toWhole(block.data)
  if (data === '') return
  const { signer } = places
  const detail = { type: 'reasoning.encrypted', data, format: FORMAT, signer, index: places.thoughts++ }
  out.push({ kind: 'reasoning', choice: 0, text: '', details: [detail] })
}

class Calls {
  readonly #kinds = new Map<string, ToolKind>()
  readonly #ids: CallIds
  #positions = 0
  #isLegacy = false

  constructor({ body, callId }: Pick<Expected, 'body' | 'callId'>) {
    this.#ids = new CallIds('toolu', callId)
    for (const { name } of body.functions ?? []) this.#kinds.set(name, 'function_call')
    for (const tool of body.tools ?? []) if (tool.type === 'custom') this.#kinds.set(tool.custom.name, 'custom')
  }

  /** The finish reason that the calls imply; null without any. */
  get reason(): 'tool_calls' | 'function_call' | null {
    if (this.#positions > 0) return 'tool_calls'
    return this.#isLegacy ? 'function_call' : null
  }

  /** Begins a call. Null if it has no name, or is a second call of a legacy function. */
  begin(block: JsonObject, out: AnswerEvent[]): BlockReader | null {
    const name = toWhole(block.name)
    const type = this.#kinds.get(name) ?? 'function'
    if (name === '' || (type === 'function_call' && this.#isLegacy)) return null
    const isLegacy = type === 'function_call'
    const index = isLegacy ? LEGACY_INDEX : this.#positions++
    if (isLegacy) this.#isLegacy = true
    const id = isLegacy ? '' : this.#ids.of(toWhole(block.id), index)
    out.push({ kind: 'tool', choice: 0, index, id, name, type })
    return new CallReader(index, type, block.input)
  }
}

class CallReader implements BlockReader {
  readonly #index: number
  readonly #type: ToolKind
  readonly #given: unknown
  readonly #pieces = new SurrogateBuffer()
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

function toInput(json: string): string {
  const input = asObject(tryJson(json))?.input
  if (typeof input === 'string') return input
  return json === '{}' ? '' : json
}
