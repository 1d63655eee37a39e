/**
 * Response content as Anthropic's blocks, one open at a time. While a call's arguments are incomplete JSON, everything else waits. A
 * signature without text gets its own block, but never after the last text: `claude -p` prints only a last block with text.
 * Unrequested reasoning is hidden; with tool calls it is added encoded at the end, because the vendor may require it in the next step.
 */
import type { AnswerEvent, FinishReason } from '../../domain/events.ts'
import { JsonScan } from '../../domain/json-text.ts'
import { encodeReasoning, encodeState } from '../../upstreams/dialects/reasoning-state.ts'

export type ContentBlock =
  | { type: 'text'; text: string; citations: null }
  | { type: 'thinking'; thinking: string; signature: string }
  | { type: 'redacted_thinking'; data: string }
  | { type: 'tool_use'; id: string; name: string; input: object; caller: { type: 'direct' } }

export type BlockDelta =
  | { type: 'text_delta'; text: string }
  | { type: 'thinking_delta'; thinking: string }
  | { type: 'signature_delta'; signature: string }
  | { type: 'input_json_delta'; partial_json: string }

export type StopReason = 'end_turn' | 'max_tokens' | 'tool_use' | 'refusal'

/** `input_tokens` excludes cache reads and writes. */
export interface WireUsage {
  input_tokens: number
  cache_creation_input_tokens: number
  cache_read_input_tokens: number
  cache_creation: { ephemeral_5m_input_tokens: number; ephemeral_1h_input_tokens: number }
  output_tokens: number
  output_tokens_details: { thinking_tokens: number } | null
  server_tool_use: { web_search_requests: number; web_fetch_requests: number } | null
  service_tier: 'standard' | 'priority'
  inference_geo: null
  speed: null
  iterations: null
  fallback_credit: null
}

export interface WireMessage {
  id: string
  type: 'message'
  role: 'assistant'
  model: string
  content: ContentBlock[]
  stop_reason: StopReason | null
  stop_sequence: null
  stop_details: null
  container: null
  context_management: null
  diagnostics: null
}

export interface BlockListener {
  /** Begins a block, empty except for what is complete from the start. */
  start(block: ContentBlock): void
  delta(delta: BlockDelta): void
  stop(): void
}

/** Limit for hidden reasoning text in UTF-16 units; beyond it only the details are kept. */
const MAX_UNSEEN = 256 * 1024

type Open =
  | { kind: 'text' }
  | { kind: 'thinking'; text: string; details: object[] }
  | { kind: 'call'; index: number; json: JsonScan }

export class Blocks {
  #unseen = ''
  #open: Open | null = null
  #held: AnswerEvent[] = []
  #details: object[] = []
  #reason: FinishReason = 'stop'
  #hasCalls = false
  #hasText = false
  #hasRefused = false

  constructor(
    private readonly listener: BlockListener,
    private readonly hidesThoughts: boolean,
  ) {}

  get stopReason(): StopReason {
    if (this.#reason === 'length') return 'max_tokens'
    if (this.#reason === 'content_filter' || this.#hasRefused) return 'refusal'
    return this.#hasCalls ? 'tool_use' : 'end_turn'
  }

  take(event: AnswerEvent): void {
    if (event.kind === 'finish') {
      this.#reason = event.reason
      this.end()
      return
    }
    const open = this.#open
    if (open?.kind !== 'call') this.#write(event)
    else if (event.kind === 'arguments' && event.index === open.index) this.#argue(open, event.text)
    else if (!isSaid(event)) return
    else if (this.#held.length === 0 && open.json.isClosed) this.#write(event)
    else this.#held.push(event)
  }

  /** Ends the open block and writes held-back events. Idempotent. */
  end(): void {
    this.#close()
    while (this.#held.length > 0) {
      this.#release()
      this.#close()
    }
    if (this.hidesThoughts) this.#encodeUnseen()
    else if (this.#hasCalls || !this.#hasText) this.#flushDetails()
  }

  /** Writes held-back events, up to those that wait for the next call. */
  #release(): void {
    const held = this.#held
    this.#held = []
    this.#close()
    for (const event of held) this.take(event)
  }

  #write(event: AnswerEvent): void {
    switch (event.kind) {
      case 'text':
      case 'refusal':
        if (event.kind === 'refusal') this.#hasRefused = true
        if (event.text !== '') this.#say(event.text)
        return
      case 'reasoning':
        this.#think(event.text, event.details ?? [])
        return
      case 'tool': {
        const { id, name, index } = event
        this.#hasCalls = true
        this.#begin({ type: 'tool_use', id, name, input: {}, caller: { type: 'direct' } })
        this.#open = { kind: 'call', index, json: new JsonScan() }
        return
      }
      default:
        // No blocks exist for images, audio and annotations.
        return
    }
  }

  #say(text: string): void {
    if (this.#open?.kind !== 'text') {
      this.#begin({ type: 'text', text: '', citations: null })
      this.#open = { kind: 'text' }
      this.#hasText = true
    }
    this.listener.delta({ type: 'text_delta', text })
  }

  #think(text: string, details: readonly object[]): void {
    if (this.hidesThoughts) {
      this.#details.push(...details)
      if (this.#unseen.length <= MAX_UNSEEN) this.#unseen += text
    } else if (this.#open?.kind === 'thinking') this.#open.details.push(...details)
    else if (text === '') this.#details.push(...details)
    else {
      this.#begin({ type: 'thinking', thinking: '', signature: '' })
      this.#open = { kind: 'thinking', text: '', details: [...details] }
    }
    if (text === '' || this.#open?.kind !== 'thinking') return
    this.#open.text += text
    this.listener.delta({ type: 'thinking_delta', thinking: text })
  }

  #argue(call: Open & { kind: 'call' }, text: string): void {
    call.json.take(text)
    if (text !== '') this.listener.delta({ type: 'input_json_delta', partial_json: text })
    if (this.#held.length > 0 && call.json.isClosed) this.#release()
  }

  #begin(block: ContentBlock): void {
    this.#close()
    if (!this.hidesThoughts) this.#flushDetails()
    this.listener.start(block)
  }

  #close(): void {
    const open = this.#open
    if (open === null) return
    this.#open = null
    // Written even if nothing is signed: many clients drop thinking without a signature, and some models need it back.
    if (open.kind === 'thinking')
      this.listener.delta({ type: 'signature_delta', signature: encodeState(open.details, open.text) })
    this.listener.stop()
  }

  #flushDetails(): void {
    if (this.#details.length > 0) this.#redact(encodeState(this.#details))
  }

  #encodeUnseen(): void {
    const text = this.#unseen.length > MAX_UNSEEN ? '' : this.#unseen
    const state = this.#hasCalls ? encodeReasoning({ text, details: this.#details }, '') : null
    if (state !== null) this.#redact(state)
  }

  #redact(data: string): void {
    this.#details = []
    this.#unseen = ''
    this.listener.start({ type: 'redacted_thinking', data })
    this.listener.stop()
  }
}

/** True for events with a place in the content. */
const isSaid = ({ kind }: AnswerEvent) =>
  kind === 'text' || kind === 'refusal' || kind === 'reasoning' || kind === 'tool' || kind === 'arguments'
