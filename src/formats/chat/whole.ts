/** Puts the events of a whole answer together into the completion that a client reads. Pure. */
import type { AnswerEvent, AnswerOrigin, Logprobs } from '../../domain/events.ts'
import { toLine } from '../../domain/json.ts'
import { type Receipt, toUsd } from '../../domain/usage.ts'
import type { Identity } from '../format.ts'
import type { ChatCompletion, ChatMessage, Choice, ToolCall, WireUsage } from './wire.ts'

/** The completion, as JSON text. */
export function toCompletionJson(identity: Identity, events: readonly AnswerEvent[], receipt: Receipt): string {
  return `${toLine(toCompletion(identity, events)).slice(0, -1)},"usage":${toUsageJson(receipt)}}`
}

/** As JSON text, because `cost` has no exponent on the wire, which JSON.stringify gives every amount under a millionth. */
export function toUsageJson({ usage, costNanoUsd }: Receipt): string {
  const read: WireUsage['prompt_tokens_details'] = { cached_tokens: usage.cacheRead }
  const written: WireUsage['completion_tokens_details'] = { reasoning_tokens: usage.reasoning }
  const cacheWrite = usage.cacheWrite + usage.cacheWrite1h
  if (cacheWrite > 0) read.cache_write_tokens = cacheWrite
  if (usage.audioPrompt > 0) read.audio_tokens = usage.audioPrompt
  if (usage.imagePrompt > 0) read.image_tokens = usage.imagePrompt
  if (usage.audioCompletion > 0) written.audio_tokens = usage.audioCompletion
  if (usage.imageCompletion > 0) written.image_tokens = usage.imageCompletion
  const counts: Omit<WireUsage, 'cost'> = {
    prompt_tokens: usage.prompt,
    completion_tokens: usage.completion,
    total_tokens: usage.prompt + usage.completion,
    prompt_tokens_details: read,
    completion_tokens_details: written,
    cost_nano_usd: costNanoUsd,
  }
  return `${JSON.stringify(counts).slice(0, -1)},"cost":${toUsd(costNanoUsd)}}`
}

/** The completion but for its usage. */
function toCompletion({ id, created, model }: Identity, events: readonly AnswerEvent[]): Omit<ChatCompletion, 'usage'> {
  const builders: ChoiceBuilder[] = []
  let origin: AnswerOrigin = {}
  for (const event of events) {
    if ('choice' in event) {
      while (builders.length <= event.choice) builders.push(new ChoiceBuilder(builders.length))
      builders[event.choice]?.take(event)
    } else if (event.kind === 'origin') origin = event.origin
  }
  return {
    id: `chatcmpl-${id}`,
    object: 'chat.completion',
    created,
    model,
    choices: builders.map((one) => one.build()),
    ...origin,
  }
}

type ChoiceEvent = Extract<AnswerEvent, { choice: number }>

class ChoiceBuilder {
  readonly #choice: Choice
  readonly #message: ChatMessage = { role: 'assistant', content: null, refusal: null, annotations: [] }
  readonly #calls: ToolCall[] = []
  #content = ''
  #refusal = ''

  constructor(index: number) {
    this.#choice = { index, message: this.#message, logprobs: null, finish_reason: 'stop' }
  }

  take(event: ChoiceEvent): void {
    const message = this.#message
    if ('logprobs' in event && event.logprobs) this.#choice.logprobs = add(this.#choice.logprobs, event.logprobs)
    switch (event.kind) {
      case 'text':
        this.#content += event.text
        return
      case 'refusal':
        this.#refusal += event.text
        return
      case 'reasoning':
        if (event.text !== '') {
          message.reasoning = (message.reasoning ?? '') + event.text
          message.reasoning_content = message.reasoning
        }
        if (event.details) message.reasoning_details = [...(message.reasoning_details ?? []), ...event.details]
        return
      case 'tool':
        this.#begin(event)
        return
      case 'arguments':
        this.#argue(event)
        return
      case 'annotations':
        message.annotations = [...message.annotations, ...event.items.map(withoutIndex)]
        return
      case 'audio':
        message.audio = event.audio
        return
      case 'images':
        message.images = [...(message.images ?? []), ...event.items.map(withoutIndex)]
        return
      case 'finish':
        this.#choice.finish_reason = event.reason
        return
      case 'unmet':
        return
      default:
        event satisfies never
    }
  }

  build(): Choice {
    const message = this.#message
    if (this.#calls.length > 0) message.tool_calls = this.#calls
    if (this.#refusal !== '') message.refusal = this.#refusal
    const instead =
      message.tool_calls || message.function_call || message.audio || message.images || this.#refusal !== ''
    message.content = this.#content === '' && instead ? null : this.#content
    return this.#choice
  }

  #begin({ index, id, name, type }: ChoiceEvent & { kind: 'tool' }): void {
    if (type === 'function_call') this.#message.function_call ??= { name, arguments: '' }
    else if (type === 'custom') this.#calls[index] = { id, type, custom: { name, input: '' } }
    else this.#calls[index] = { id, type, function: { name, arguments: '' } }
  }

  #argue({ index, text }: ChoiceEvent & { kind: 'arguments' }): void {
    const call = this.#calls[index]
    if (call?.type === 'function') call.function.arguments += text
    else if (call?.type === 'custom') call.custom.input += text
    else if (this.#message.function_call) this.#message.function_call.arguments += text
  }
}

/** The log probabilities of all pieces of a choice. */
function add(sum: Logprobs | null, more: Logprobs): Logprobs {
  const both = (key: keyof Logprobs) =>
    sum?.[key] && more[key] ? [...sum[key], ...more[key]] : (sum?.[key] ?? more[key])
  return { content: both('content'), refusal: both('refusal') }
}

/** Only a stream needs it. */
function withoutIndex(item: object): object {
  const { index: _, ...rest } = item as { index?: unknown }
  return rest
}
