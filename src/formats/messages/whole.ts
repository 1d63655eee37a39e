/** Puts the events of a whole answer together into the message that a client reads. Pure. */
import type { AnswerEvent } from '../../domain/events.ts'
import { asObject, parseJson, toLine } from '../../domain/json.ts'
import type { Task } from '../../domain/task.ts'
import { UNASKED_THOUGHTS } from '../../domain/task.ts'
import type { Receipt } from '../../domain/usage.ts'
import type { Identity } from '../format.ts'
import { type BlockListener, Blocks } from './blocks.ts'
import { toUsageJson } from './usage.ts'
import type { BlockDelta, ContentBlock, StopReason, WireMessage } from './wire.ts'

/** The message, as JSON text. */
export function toMessageJson(
  { body }: Task,
  identity: Identity,
  events: readonly AnswerEvent[],
  receipt: Receipt,
): string {
  const content = new Content()
  const blocks = new Blocks(content, body[UNASKED_THOUGHTS] === true)
  let isPriority = false
  for (const event of events) {
    if (event.kind === 'origin') isPriority = event.origin.service_tier === 'priority'
    else blocks.take(event)
  }
  blocks.end()
  const message = toLine(toMessage(identity, content.blocks, blocks.stopReason)).slice(0, -1)
  return `${message},"usage":${toUsageJson(receipt, isPriority)}}`
}

/** A message but for its usage. Fields that typed clients need are there, and null. */
export const toMessage = (
  { id, model }: Identity,
  content: ContentBlock[],
  stopReason: StopReason | null,
): WireMessage => ({
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

/** Collects blocks. */
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
    if (block?.type === 'tool_use') block.input = toInput(this.#input)
  }
}

/** An input is an object. What a model wrote that is none still says something. */
function toInput(json: string): object {
  if (json.trim() === '') return {}
  try {
    return asObject(parseJson(json)) ?? { rawInvalidInput: json }
  } catch {
    return { rawInvalidInput: json }
  }
}
