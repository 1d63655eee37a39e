/**
 * Messages API responses, whole or as frames in their required order (platform.claude.com/docs/en/build-with-claude/streaming).
 * `message_delta` and `message_stop` are written only once the ledger has the outcome.
 */

import type { GatewayError } from '../../domain/error.ts'
import type { AnswerEvent } from '../../domain/events.ts'
import { toLine } from '../../domain/json.ts'
import { type ChatTask, UNREQUESTED_REASONING } from '../../domain/task.ts'
import { NO_USAGE, type Receipt, type Usage } from '../../domain/usage.ts'
import { toInputObject } from '../../upstreams/dialects/tool-calls.ts'
import { type Identity, KEEP_ALIVE, type Writer, withCost } from '../format.ts'
import {
  type BlockDelta,
  type BlockListener,
  Blocks,
  type ContentBlock,
  type StopReason,
  type WireMessage,
  type WireUsage,
} from './blocks.ts'
import { toErrorBody } from './errors.ts'

const toUsageJson = ({ usage, costNanoUsd }: Receipt, isPriority: boolean): string =>
  withCost(toWire(usage, isPriority), costNanoUsd)

/** Usage at the start of a stream: only the estimated prompt. */
const toFirstUsage = (promptTokens: number): WireUsage => toWire({ ...NO_USAGE, prompt: promptTokens }, false)

function toWire(usage: Usage, isPriority: boolean): WireUsage {
  const { prompt, cacheRead, cacheWrite, cacheWrite1h, completion, reasoning, webSearches } = usage
  const written = cacheWrite + cacheWrite1h
  return {
    input_tokens: Math.max(0, prompt - cacheRead - written),
    cache_creation_input_tokens: written,
    cache_read_input_tokens: cacheRead,
    cache_creation: { ephemeral_5m_input_tokens: cacheWrite, ephemeral_1h_input_tokens: cacheWrite1h },
    output_tokens: completion,
    output_tokens_details: reasoning > 0 ? { thinking_tokens: reasoning } : null,
    server_tool_use: webSearches > 0 ? { web_search_requests: webSearches, web_fetch_requests: 0 } : null,
    service_tier: isPriority ? 'priority' : 'standard',
    inference_geo: null,
    speed: null,
    iterations: null,
    fallback_credit: null,
  }
}

export function toMessageJson(
  { body }: ChatTask,
  identity: Identity,
  events: readonly AnswerEvent[],
  receipt: Receipt,
): string {
  const content = new Content()
  const blocks = new Blocks(content, body[UNREQUESTED_REASONING] === true)
  let isPriority = false
  for (const event of events) {
    if (event.kind === 'origin') isPriority = event.origin.service_tier === 'priority'
    else blocks.take(event)
  }
  blocks.end()
  const message = toLine(toMessage(identity, content.blocks, blocks.stopReason)).slice(0, -1)
  return `${message},"usage":${toUsageJson(receipt, isPriority)}}`
}

/** A message without usage. Typed clients require all fields, even if null. */
const toMessage = ({ id, model }: Identity, content: ContentBlock[], stopReason: StopReason | null): WireMessage => ({
  id: `msg_${id}`,
  type: 'message',
  role: 'assistant',
  model,
  content,
  stop_reason: stopReason,
  stop_sequence: null,
  stop_details: null,
  container: null,
  context_management: null,
  diagnostics: null,
})

class Content implements BlockListener {
  readonly blocks: ContentBlock[] = []
  #input = ''

  start(block: ContentBlock): void {
    this.#input = ''
    this.blocks.push(block)
  }

  delta(delta: BlockDelta): void {
    const block = this.blocks.at(-1)
    if (delta.type === 'text_delta' && block?.type === 'text') block.text += delta.text
    else if (delta.type === 'thinking_delta' && block?.type === 'thinking') block.thinking += delta.thinking
    else if (delta.type === 'signature_delta' && block?.type === 'thinking') block.signature = delta.signature
    else if (delta.type === 'input_json_delta') this.#input += delta.partial_json
  }

  stop(): void {
    const block = this.blocks.at(-1)
    if (block?.type === 'tool_use') block.input = toInputObject(this.#input)
  }
}

const toFrame = (type: string, json: string) => `event: ${type}\ndata: ${json}\n\n`

export const PING = toFrame('ping', '{"type":"ping"}')

export const toErrorFrame = (error: GatewayError) => toFrame('error', toLine(toErrorBody(error)))

export class MessagesWriter implements Writer, BlockListener {
  readonly #blocks: Blocks
  #isStarted = false
  #isPriority = false
  #index = -1
  #out = ''

  constructor(
    private readonly task: ChatTask,
    private readonly identity: Identity,
  ) {
    this.#blocks = new Blocks(this, task.body[UNREQUESTED_REASONING] === true)
  }

  /** Clients expect no event before `message_start`. */
  get keepAlive(): string {
    return this.#isStarted ? PING : KEEP_ALIVE
  }

  take(events: readonly AnswerEvent[]): string {
    for (const event of events) {
      if (event.kind === 'origin') this.#isPriority = event.origin.service_tier === 'priority'
      else this.#blocks.take(event)
    }
    return this.#flush()
  }

  tail(receipt: Receipt): string {
    this.#blocks.end()
    this.#begin()
    const delta = { stop_reason: this.#blocks.stopReason, stop_sequence: null, stop_details: null, container: null }
    const end = `{"type":"message_delta","delta":${toLine(delta)},"usage":${toUsageJson(receipt, this.#isPriority)},"context_management":null}`
    this.#out += toFrame('message_delta', end) + toFrame('message_stop', '{"type":"message_stop"}')
    return this.#flush()
  }

  failure(error: GatewayError): string {
    return toErrorFrame(error)
  }

  start(block: ContentBlock): void {
    this.#begin()
    this.#index += 1
    this.#frame({ type: 'content_block_start', index: this.#index, content_block: block })
  }

  delta(delta: BlockDelta): void {
    // Nearly every frame.
    if (delta.type === 'text_delta')
      this.#out += `event: content_block_delta\ndata: {"type":"content_block_delta","index":${this.#index},"delta":{"type":"text_delta","text":${toLine(delta.text)}}}\n\n`
    else this.#frame({ type: 'content_block_delta', index: this.#index, delta })
  }

  stop(): void {
    this.#frame({ type: 'content_block_stop', index: this.#index })
  }

  #begin(): void {
    if (this.#isStarted) return
    this.#isStarted = true
    const message = { ...toMessage(this.identity, [], null), usage: toFirstUsage(this.task.promptTokens) }
    this.#frame({ type: 'message_start', message })
  }

  #frame(event: { type: string; [field: string]: unknown }): void {
    this.#out += toFrame(event.type, toLine(event))
  }

  #flush(): string {
    const out = this.#out
    this.#out = ''
    return out
  }
}
