/**
 * Responses API responses, as an object or as numbered stream events (platform.openai.com/docs/api-reference/responses-streaming). One item
 * is open at a time, and later ones wait. The last event, with the whole response, is written only once the ledger has the outcome; there
 * is no `[DONE]`.
 */

import type { GatewayError } from '../../domain/error.ts'
import type { AnswerEvent, AnswerOrigin, FinishReason } from '../../domain/events.ts'
import { asObject, type JsonObject, toLine, tryJson } from '../../domain/json.ts'
import type { ChatTask } from '../../domain/task.ts'
import type { Receipt } from '../../domain/usage.ts'
import { type Identity, KEEP_ALIVE, type Writer, withCost } from '../format.ts'
import type { Passed } from '../passthrough.ts'
import { toFailure } from './errors.ts'
import {
  CallItem,
  type ChoiceEvent,
  ImageItem,
  type Item,
  type ItemPosition,
  type OutputItem,
  PREFIXES,
  ReasoningItem,
  type Say,
} from './items.ts'
import { MessageItem } from './message-item.ts'
import { optionsOf, type ResponseOptions } from './request.ts'

interface ResponseState {
  output: readonly OutputItem[]
  origin: AnswerOrigin
  /** Null while the response is in progress. */
  reason?: FinishReason | null
  error?: { code: string; message: string }
  receipt?: Receipt
}

export function toResponseJson(
  options: ResponseOptions,
  { id, created, model }: Identity,
  state: ResponseState,
): string {
  const { output, origin, reason = null, error, receipt } = state
  const cut = CUTS.get(reason)
  const response = {
    id: `resp_${id}`,
    object: 'response',
    created_at: created,
    completed_at: receipt && !cut ? created + Math.floor(receipt.durationMs / 1_000) : null,
    status: toStatus(state),
    error: error ?? null,
    incomplete_details: cut ? { reason: cut } : null,
    model,
    service_tier: origin.service_tier ?? 'default',
    output,
  }
  const usage = receipt ? toUsageJson(receipt) : null
  return `${toLine(response).slice(0, -1)},${options.echoJson},"usage":${usage}}`
}

const CUTS: ReadonlyMap<FinishReason | null, string> = new Map<FinishReason | null, string>([
  ['length', 'max_output_tokens'],
  ['content_filter', 'content_filter'],
])

function toStatus({ error, receipt, reason = null }: ResponseState): string {
  if (error) return 'failed'
  if (!receipt) return 'in_progress'
  return CUTS.has(reason) ? 'incomplete' : 'completed'
}

function toUsageJson({ usage, costNanoUsd }: Receipt): string {
  const counts = {
    input_tokens: usage.prompt,
    input_tokens_details: {
      cached_tokens: usage.cacheRead,
      cache_write_tokens: usage.cacheWrite + usage.cacheWrite1h,
    },
    output_tokens: usage.completion,
    output_tokens_details: { reasoning_tokens: usage.reasoning },
    total_tokens: usage.prompt + usage.completion,
  }
  return withCost(counts, costNanoUsd)
}

export class Output {
  readonly done: OutputItem[] = []
  reason: FinishReason | null = null
  readonly #items: Item[] = []
  readonly #calls = new Map<number, Item>()
  #hasBegun = false
  #loose: object[] = []

  constructor(
    private readonly id: string,
    private readonly options: ResponseOptions,
    private readonly say: Say,
  ) {}

  take(event: AnswerEvent): void {
    // Only one choice is requested.
    if (!('choice' in event) || event.choice !== 0) return
    switch (event.kind) {
      case 'text':
      case 'refusal':
        if (event.text !== '') this.#toLast(event, (place) => new MessageItem(place, this.options.wantsLogprobs), 'msg')
        return
      case 'annotations':
        // Annotations of earlier text are dropped if its item has ended.
        if (this.#open()?.take(event)) this.#advance()
        return
      case 'reasoning':
        this.#think(event)
        return
      case 'tool': {
        const tool = this.options.names.toolOf(event.name)
        this.#calls.set(
          event.index,
          this.#begin(PREFIXES[tool.type], (place) => new CallItem(place, tool, event)),
        )
        return
      }
      case 'arguments':
        this.#calls.get(event.index)?.take(event)
        this.#advance()
        return
      case 'images':
        for (const image of event.items) this.#begin('ig', (place) => new ImageItem(place, image))
        return
      case 'finish':
        this.#end(event.reason)
        return
      case 'audio':
        // The API has no audio output.
        return
      case 'unmet':
        return
      default:
        event satisfies never
    }
  }

  #think(event: ChoiceEvent & { kind: 'reasoning' }): void {
    if (event.text !== '' || this.#open() instanceof ReasoningItem)
      this.#toLast(event, (place) => new ReasoningItem(place, this.options), 'rs')
    else if (this.options.wantsState) this.#loose.push(...(event.details ?? []))
  }

  #open(): Item | undefined {
    return this.#items.length > this.done.length ? this.#items.at(-1) : undefined
  }

  /** Adds an event to the last item, or to a new item if the event is of another kind. */
  #toLast(event: ChoiceEvent, make: (place: ItemPosition) => Item, prefix: string): void {
    if (!this.#open()?.take(event)) this.#begin(prefix, make).take(event)
    this.#advance()
  }

  #begin(prefix: string, make: (place: ItemPosition) => Item): Item {
    const output_index = this.#items.length
    const item = make({ item_id: `${prefix}_${this.id}_${output_index}`, output_index })
    this.#items.push(item)
    this.#advance()
    return item
  }

  /** Writes everything of the first open item, and of those after it once it has ended. */
  #advance(): void {
    for (;;) {
      const item = this.#items[this.done.length]
      if (!item) return
      this.#sayMore(item)
      const isLast = this.done.length === this.#items.length - 1
      if (isLast || !item.isComplete()) return
      this.#sayEnd(item, 'completed')
    }
  }

  #sayMore(item: Item): void {
    if (!this.#hasBegun)
      this.say('response.output_item.added', { output_index: this.done.length, item: item.toEmpty() })
    this.#hasBegun = true
    item.sayMore(this.say)
  }

  #sayEnd(item: Item, status: 'completed' | 'incomplete'): void {
    item.sayEnd(this.say)
    const json = item.toJson(status)
    this.say('response.output_item.done', { output_index: this.done.length, item: json })
    this.done.push(json)
    this.#hasBegun = false
  }

  #end(reason: FinishReason): void {
    if (this.reason !== null) return
    this.reason = reason
    if (this.#loose.length > 0) {
      const details = this.#loose
      this.#loose = []
      this.#toLast(
        { kind: 'reasoning', choice: 0, text: '', details },
        (place) => new ReasoningItem(place, this.options),
        'rs',
      )
    }
    const isCut = reason === 'length' || reason === 'content_filter'
    for (let item = this.#items[this.done.length]; item; item = this.#items[this.done.length]) {
      this.#sayMore(item)
      const isLast = this.done.length === this.#items.length - 1
      this.#sayEnd(item, isCut && isLast ? 'incomplete' : 'completed')
    }
  }
}

export class ResponsesWriter implements Writer {
  readonly keepAlive = KEEP_ALIVE
  readonly #options: ResponseOptions
  readonly #output: Output
  #origin: AnswerOrigin = {}
  #next = 0
  #text = ''

  constructor(
    task: ChatTask,
    private readonly identity: Identity,
  ) {
    this.#options = optionsOf(task)
    this.#output = new Output(identity.id, this.#options, (type, fields) =>
      this.#say(type, typeof fields === 'string' ? fields : toLine(fields).slice(1)),
    )
  }

  take(events: readonly AnswerEvent[]): string {
    for (const event of events) if (event.kind === 'origin') this.#origin = event.origin
    this.#begin()
    for (const event of events) this.#output.take(event)
    return this.#flush()
  }

  tail(receipt: Receipt): string {
    const { done: output, reason } = this.#output
    const isCut = reason === 'length' || reason === 'content_filter'
    this.#sayResponse(isCut ? 'response.incomplete' : 'response.completed', { output, reason, receipt })
    return this.#flush()
  }

  failure(error: GatewayError): string {
    this.#begin()
    this.#sayResponse('response.failed', { output: this.#output.done, error: toFailure(error) })
    return this.#flush()
  }

  #begin(): void {
    if (this.#next > 0) return
    this.#sayResponse('response.created', { output: [] })
    this.#sayResponse('response.in_progress', { output: [] })
  }

  #sayResponse(type: string, state: Omit<ResponseState, 'origin'>): void {
    const response = toResponseJson(this.#options, this.identity, { ...state, origin: this.#origin })
    this.#say(type, `"response":${response}}`)
  }

  /** @param rest the remaining fields as JSON without the opening brace. */
  #say(type: string, rest: string): void {
    this.#text += `event: ${type}\ndata: {"type":"${type}","sequence_number":${this.#next++},${rest}\n\n`
  }

  #flush(): string {
    const text = this.#text
    this.#text = ''
    return text
  }
}

/** A `response.failed` event with the response as it began and the next number. */
export function toPassthroughFailure(error: GatewayError, { identity, opening, last }: Passed): string {
  const { id, created, model } = identity
  const begun = asObject(read(opening).response) ?? { id: `resp_${id}`, object: 'response', created_at: created, model }
  const number = read(last).sequence_number
  const event = {
    type: 'response.failed',
    sequence_number: typeof number === 'number' ? number + 1 : 0,
    response: { ...begun, status: 'failed', error: toFailure(error), output: [] },
  }
  return `event: response.failed\ndata: ${toLine(event)}\n\n`
}

const read = (data: string | null): JsonObject => asObject(tryJson(data ?? '')) ?? {}
