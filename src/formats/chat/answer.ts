/**
 * Chat completions with Tollgate's receipt, whole or as frames, each one line of JSON after `data: `. The end of a stream is requested only
 * once the ledger has the outcome.
 */

import type { GatewayError } from '../../domain/error.ts'
import type { AnswerEvent, AnswerOrigin, FinishReason, Logprobs, ToolKind } from '../../domain/events.ts'
import { asText, toLine } from '../../domain/json.ts'
import type { ChatTask } from '../../domain/task.ts'
import type { Receipt } from '../../domain/usage.ts'
import { toReasoningRequest } from '../../upstreams/dialects/reasoning.ts'
import { type Identity, KEEP_ALIVE, type Writer, withCost } from '../format.ts'

export type ToolCall =
  | { id: string; type: 'function'; function: { name: string; arguments: string } }
  | { id: string; type: 'custom'; custom: { name: string; input: string } }

export interface FunctionCall {
  name: string
  arguments: string
}

interface Beside {
  reasoning?: string
  /** A copy of `reasoning`: clients know either name. */
  reasoning_content?: string
  /** Always with an integer `index`, by which clients join streamed pieces. */
  reasoning_details?: object[]
  annotations?: object[]
  audio?: object
  /** Generated images, as in OpenRouter's format. Streamed items have an integer `index`. */
  images?: object[]
}

export interface ChatMessage extends Beside {
  role: 'assistant'
  content: string | null
  refusal: string | null
  annotations: object[]
  tool_calls?: ToolCall[]
  function_call?: FunctionCall
}

export interface Choice {
  index: number
  message: ChatMessage
  logprobs: Logprobs | null
  finish_reason: FinishReason
}

export interface ChatCompletion extends AnswerOrigin {
  id: string
  object: 'chat.completion'
  /** Unix seconds. */
  created: number
  model: string
  choices: Choice[]
  usage: WireUsage
}

export interface ToolCallDelta {
  index: number
  id?: string
  type?: 'function' | 'custom'
  function?: { name?: string; arguments?: string }
  custom?: { name?: string; input?: string }
}

export interface Delta extends Beside {
  role?: 'assistant'
  content?: string | null
  refusal?: string | null
  tool_calls?: ToolCallDelta[]
  function_call?: Partial<FunctionCall>
}

export interface WireUsage {
  prompt_tokens: number
  completion_tokens: number
  total_tokens: number
  prompt_tokens_details: {
    cached_tokens: number
    cache_write_tokens?: number
    audio_tokens?: number
    image_tokens?: number
  }
  completion_tokens_details: { reasoning_tokens: number; audio_tokens?: number; image_tokens?: number }
  /** The cost in integer nano-dollars and in USD. */
  cost_nano_usd: number
  cost: number
}

export function toCompletionJson(identity: Identity, events: readonly AnswerEvent[], receipt: Receipt): string {
  return `${toLine(toCompletion(identity, events)).slice(0, -1)},"usage":${toUsageJson(receipt)}}`
}

function toUsageJson({ usage, costNanoUsd }: Receipt): string {
  const read: WireUsage['prompt_tokens_details'] = { cached_tokens: usage.cacheRead }
  const written: WireUsage['completion_tokens_details'] = { reasoning_tokens: usage.reasoning }
  const cacheWrite = usage.cacheWrite + usage.cacheWrite1h
  if (cacheWrite > 0) read.cache_write_tokens = cacheWrite
  if (usage.audioPrompt > 0) read.audio_tokens = usage.audioPrompt
  if (usage.imagePrompt > 0) read.image_tokens = usage.imagePrompt
  if (usage.audioCompletion > 0) written.audio_tokens = usage.audioCompletion
  if (usage.imageCompletion > 0) written.image_tokens = usage.imageCompletion
  const counts: Omit<WireUsage, 'cost' | 'cost_nano_usd'> = {
    prompt_tokens: usage.prompt,
    completion_tokens: usage.completion,
    total_tokens: usage.prompt + usage.completion,
    prompt_tokens_details: read,
    completion_tokens_details: written,
  }
  return withCost(counts, costNanoUsd)
}

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

function add(sum: Logprobs | null, more: Logprobs): Logprobs {
  const both = (key: keyof Logprobs) =>
    sum?.[key] && more[key] ? [...sum[key], ...more[key]] : (sum?.[key] ?? more[key])
  return { content: both('content'), refusal: both('refusal') }
}

/** Only streams need an index. */
function withoutIndex(item: object): object {
  const { index: _, ...rest } = item as { index?: unknown }
  return rest
}

/**
 * Reasoning for a client that hides it: only textless details that the vendor must get back, since a signature over removed text is
 * useless.
 */
export class HiddenReasoning {
  readonly #cut = new Set<number>()

  take(events: readonly AnswerEvent[]): readonly AnswerEvent[] {
    return events.flatMap((event) => (event.kind === 'reasoning' ? this.#withoutWords(event) : event))
  }

  #withoutWords({ choice, text, details = [] }: AnswerEvent & { kind: 'reasoning' }): AnswerEvent[] {
    if (text !== '') this.#cut.add(choice)
    const kept = details.filter((each) => isWordless(each) && (isEncrypted(each) || !this.#cut.has(choice)))
    return kept.length === 0 ? [] : [{ kind: 'reasoning', choice, text: '', details: kept }]
  }
}

const field = (detail: object, name: string) => asText(Reflect.get(detail, name))

const isEncrypted = (detail: object) => field(detail, 'type') === 'reasoning.encrypted'

const isWordless = (detail: object) => field(detail, 'text') === '' && field(detail, 'summary') === ''

const DONE = 'data: [DONE]\n\n'

export class ChatWriter implements Writer {
  readonly keepAlive = KEEP_ALIVE
  readonly #identity: Identity
  readonly #includeUsage: boolean
  /** Constant text around the choice of every frame; origin facts are added. */
  #head: string
  readonly #foot: string
  /** Number of choices whose role frame was sent, lowest first. */
  #begun = 0
  readonly #reasons: FinishReason[] = []
  /** Kinds of calls by choice and index, which decide the form of their arguments. */
  readonly #kinds = new Map<string, ToolKind>()
  readonly #refused: HiddenReasoning | null

  constructor({ body }: ChatTask, identity: Identity) {
    this.#identity = identity
    this.#includeUsage = body.stream_options?.include_usage === true
    this.#head = toHead(identity, {})
    this.#foot = this.#includeUsage ? '],"usage":null}\n\n' : ']}\n\n'
    this.#refused = toReasoningRequest(body).isHidden ? new HiddenReasoning() : null
  }

  take(events: readonly AnswerEvent[]): string {
    let text = ''
    for (const event of this.#refused?.take(events) ?? events) text += this.#write(event)
    return text
  }

  tail(receipt: Receipt): string {
    let text = ''
    this.#reasons.forEach((reason, index) => {
      text += `${this.#begin(index, '')}${this.#head}{"index":${index},"delta":{},"finish_reason":"${reason}"}${this.#foot}`
    })
    if (this.#includeUsage) text += `${this.#head}],"usage":${toUsageJson(receipt)}}\n\n`
    return text + DONE
  }

  failure(error: GatewayError): string {
    return `data: ${toLine(error.toBody())}\n\n`
  }

  #write(event: AnswerEvent): string {
    switch (event.kind) {
      case 'text': {
        const { choice, text, json = toLine(text), logprobs } = event
        if (logprobs) return this.#delta(choice, { content: text }, logprobs)
        // Nearly every frame.
        return `${this.#begin(choice, '')}${this.#head}{"index":${choice},"delta":{"content":${json}},"finish_reason":null}${this.#foot}`
      }
      case 'reasoning':
        return this.#delta(event.choice, toThought(event), event.logprobs)
      case 'refusal':
        return this.#delta(event.choice, { refusal: event.text }, event.logprobs)
      case 'tool':
        return this.#beginTool(event)
      case 'arguments':
        return this.#delta(event.choice, this.#toArguments(event))
      case 'annotations':
        return this.#delta(event.choice, { annotations: [...event.items] })
      case 'images':
        return this.#delta(event.choice, { images: [...event.items] })
      case 'audio':
        return this.#begin(event.choice, null) + this.#delta(event.choice, { audio: event.audio })
      case 'finish':
        this.#reasons[event.choice] = event.reason
        return ''
      case 'origin':
        this.#head = toHead(this.#identity, event.origin)
        return ''
      case 'working':
      case 'usage':
      case 'mode':
      case 'charged':
      case 'raw':
      case 'embeddings':
      case 'result':
      case 'bytes':
      case 'unmet':
      case 'done':
      case 'failure':
        return ''
      default:
        return event satisfies never
    }
  }

  #delta(choice: number, delta: Delta, logprobs?: Logprobs): string {
    return this.#begin(choice, '') + this.#frame(choice, delta, logprobs)
  }

  #frame(choice: number, delta: Delta, logprobs?: Logprobs): string {
    const figures = logprobs ? `,"logprobs":${toLine(logprobs)}` : ''
    return `${this.#head}{"index":${choice},"delta":${toLine(delta)},"finish_reason":null${figures}}${this.#foot}`
  }

  /** Role frames up to a choice. The last one's content is null if the choice starts with something else. */
  #begin(choice: number, content: '' | null): string {
    let text = ''
    for (; this.#begun <= choice; this.#begun += 1) {
      const silent = this.#begun === choice ? content : ''
      text += this.#frame(this.#begun, { role: 'assistant', content: silent, refusal: null })
    }
    return text
  }

  #beginTool({ choice, index, id, name, type }: AnswerEvent & { kind: 'tool' }): string {
    this.#kinds.set(`${choice}/${index}`, type)
    const begun = this.#begin(choice, null)
    if (type === 'function_call') return begun + this.#delta(choice, { function_call: { name, arguments: '' } })
    const head = { index, id, type }
    const call =
      type === 'custom' ? { ...head, custom: { name, input: '' } } : { ...head, function: { name, arguments: '' } }
    return begun + this.#delta(choice, { tool_calls: [call] })
  }

  #toArguments({ choice, index, text }: AnswerEvent & { kind: 'arguments' }): Delta {
    const kind = this.#kinds.get(`${choice}/${index}`)
    if (kind === 'function_call') return { function_call: { arguments: text } }
    if (kind === 'custom') return { tool_calls: [{ index, custom: { input: text } }] }
    return { tool_calls: [{ index, function: { arguments: text } }] }
  }
}

function toThought({ text, details }: AnswerEvent & { kind: 'reasoning' }): Delta {
  return {
    ...(text === '' ? {} : { reasoning: text, reasoning_content: text }),
    ...(details ? { reasoning_details: [...details] } : {}),
  }
}

const toHead = ({ id, created, model }: Identity, origin: AnswerOrigin) =>
  `data: ${toLine({ id: `chatcmpl-${id}`, object: 'chat.completion.chunk', created, model, ...origin }).slice(0, -1)},"choices":[`
