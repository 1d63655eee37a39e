/**
 * Writes the events of a stream as the frames that clients of Anthropic's API read, in the one order that they take:
 * `message_start`, the blocks, `message_delta`, `message_stop` (platform.claude.com/docs/en/build-with-claude/streaming). The last
 * two are the tail, which is asked for only once the ledger has the outcome. Pure.
 */
import type { GatewayError } from '../../domain/error.ts'
import type { AnswerEvent } from '../../domain/events.ts'
import { toLine } from '../../domain/json.ts'
import type { Task } from '../../domain/task.ts'
import { UNASKED_THOUGHTS } from '../../domain/task.ts'
import type { Receipt } from '../../domain/usage.ts'
import { type Identity, KEEP_ALIVE, type Writer } from '../format.ts'
import { type BlockListener, Blocks } from './blocks.ts'
import { toErrorBody } from './errors.ts'
import { toFirstUsage, toUsageJson } from './usage.ts'
import { toMessage } from './whole.ts'
import type { BlockDelta, ContentBlock } from './wire.ts'

/** A frame of JSON that is one line to everyone. */
const toFrame = (type: string, json: string) => `event: ${type}\ndata: ${json}\n\n`

export const PING = toFrame('ping', '{"type":"ping"}')

export const toErrorFrame = (error: GatewayError) => toFrame('error', toLine(toErrorBody(error)))

export class MessagesWriter implements Writer, BlockListener {
  readonly #task: Task
  readonly #identity: Identity
  readonly #blocks: Blocks
  #isStarted = false
  #isPriority = false
  #index = -1
  #out = ''

  constructor(task: Task, identity: Identity) {
    this.#task = task
    this.#identity = identity
    this.#blocks = new Blocks(this, task.body[UNASKED_THOUGHTS] === true)
  }

  /** Clients read no event before `message_start`. */
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
    // Nearly every frame is one of these.
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
    const message = { ...toMessage(this.#identity, [], null), usage: toFirstUsage(this.#task.promptTokens) }
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
