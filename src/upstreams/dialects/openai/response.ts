/**
 * Reads an answer of the Responses API for what it used, how it ended and what was said, whole or streamed: it passes to its client
 * as it came. Kinds of events and items that are not known here say nothing. Pure.
 */
import { UpstreamError } from '../../../domain/error.ts'
import type { AnswerEvent, FinishReason } from '../../../domain/events.ts'
import { asObject, asText, type JsonObject, parseJson } from '../../../domain/json.ts'
import { toMode } from '../../../domain/mode.ts'
import { MAX_SEARCHES } from '../../../domain/usage.ts'
import type { Decoder, Expected } from '../../backend.ts'
import type { SseEvent } from '../../sse.ts'
import { findError, toBodyError, toUpstreamError } from './error.ts'
import { readWords, toHidden, toSummary } from './response-words.ts'
import { findCharge, findUsage } from './usage.ts'

/** A call of a tool that the answer has begun, and how much of its arguments has come. */
interface Call {
  index: number
  chars: number
}

/** Items in which something is said, or thought; any other one is work at the provider, unless it is a call. */
const SAID: ReadonlySet<unknown> = new Set(['message', 'reasoning'])

/** Calls of the client's own tools, by where their arguments are. */
const CALLED: ReadonlyMap<unknown, string> = new Map([
  ['function_call', 'arguments'],
  ['custom_tool_call', 'input'],
])

/** What a search may turn out to be that costs nothing beside tokens (https://platform.openai.com/docs/guides/tools-web-search). */
const IN_PAGE: ReadonlySet<unknown> = new Set(['open_page', 'find_in_page'])

export class ResponseDecoder implements Pick<Decoder, 'event' | 'end'> {
  /** Whether the event that was read last tells of work that has no words. */
  isAtWork = false
  readonly #expected: Expected
  /** By the place of their items. */
  readonly #calls = new Map<number, Call>()
  #searches = 0
  #isOver = false

  constructor(expected: Expected) {
    this.#expected = expected
  }

  /** Reads a whole answer, up to `done`. Throws an UpstreamError where it is none. */
  whole(answer: JsonObject, text: string): AnswerEvent[] {
    const { error, status } = answer
    if (error || status === 'failed') throw this.#toError(error ?? answer)
    if (!Array.isArray(answer.output)) {
      const failed = findError(answer)
      throw failed
        ? this.#toError(failed)
        : new UpstreamError('broken', 'answered 200 with something that is no response')
    }
    if (status === 'queued' || status === 'in_progress')
      throw new UpstreamError('broken', 'answered 200 with a response that is not complete')
    const out: AnswerEvent[] = []
    for (const [at, value] of answer.output.entries()) this.#takeItem(asObject(value) ?? {}, at, true, out)
    this.#finish(answer, text, null, out)
    return out
  }

  event({ name, data }: SseEvent, out: AnswerEvent[]): void {
    if (this.#isOver || data.trim() === '') return
    this.isAtWork = false
    let event: JsonObject | null = null
    try {
      event = asObject(parseJson(data))
    } catch {}
    if (name === 'error' || event?.type === 'error') this.#fail(toBodyError(null, data, this.#expected.target), out)
    else if (event !== null) this.#takeEvent(asText(event.type) || (name ?? ''), event, data, out)
    // Some end as chats do.
    else if (data.trim() !== '[DONE]')
      this.#fail(new UpstreamError('broken', 'sent a stream event that is not JSON'), out)
  }

  end(out: AnswerEvent[]): void {
    if (!this.#isOver) this.#fail(new UpstreamError('broken', 'ended its stream in the middle of the answer'), out)
  }

  #takeEvent(type: string, event: JsonObject, data: string, out: AnswerEvent[]): void {
    const text = asText(event.delta).toWellFormed()
    const at = typeof event.output_index === 'number' ? event.output_index : -1
    switch (type) {
      case 'response.output_text.delta':
        if (text !== '') out.push({ kind: 'text', choice: 0, text })
        break
      case 'response.refusal.delta':
        if (text !== '') out.push({ kind: 'refusal', choice: 0, text })
        break
      case 'response.reasoning_text.delta':
        if (text !== '') out.push({ kind: 'reasoning', choice: 0, text })
        break
      case 'response.reasoning_summary_text.delta':
        if (text !== '') out.push(toSummary(text))
        break
      case 'response.function_call_arguments.delta':
      case 'response.custom_tool_call_input.delta':
        this.#takeArguments(at, text, out)
        break
      case 'response.output_item.added':
        this.#takeItem(asObject(event.item) ?? {}, at, false, out)
        break
      case 'response.output_item.done':
        this.#endItem(asObject(event.item) ?? {}, at, out)
        break
      case 'response.failed':
        this.#fail(this.#toError(asObject(event.response)?.error ?? event), out)
        break
      case 'response.completed':
      case 'response.incomplete':
        this.#finish(event, data, 'response', out)
        break
      default:
        if (event.error) this.#fail(this.#toError(event.error), out)
    }
  }

  /** An item begins, or, where it `isWhole`, is all there. */
  #takeItem(item: JsonObject, at: number, isWhole: boolean, out: AnswerEvent[]): void {
    const held = CALLED.get(item.type)
    if (held !== undefined) {
      const index = this.#calls.size
      const type = held === 'input' ? 'custom' : 'function'
      this.#calls.set(at, { index, chars: 0 })
      out.push({
        kind: 'tool',
        choice: 0,
        index,
        id: asText(item.call_id),
        name: asText(item.name).toWellFormed(),
        type,
      })
    } else if (!SAID.has(item.type)) {
      this.isAtWork = true
      if (item.type === 'web_search_call') this.#searches = Math.min(this.#searches + 1, MAX_SEARCHES)
    } else if (isWhole) readWords(item, out)
    else if (item.type === 'reasoning') out.push({ kind: 'working' })
    if (isWhole) this.#endItem(item, at, out)
  }

  #endItem(item: JsonObject, at: number, out: AnswerEvent[]): void {
    const held = CALLED.get(item.type)
    if (held !== undefined) {
      if (!this.#calls.has(at)) this.#takeItem(item, at, false, out)
      // What did not come piece by piece.
      this.#takeArguments(
        at,
        asText(item[held])
          .toWellFormed()
          .slice(this.#calls.get(at)?.chars ?? 0),
        out,
      )
    } else if (item.type === 'reasoning' && item.encrypted_content) out.push(toHidden())
    else if (item.type === 'web_search_call' && IN_PAGE.has(asObject(item.action)?.type))
      this.#searches = Math.max(0, this.#searches - 1)
  }

  #takeArguments(at: number, text: string, out: AnswerEvent[]): void {
    const call = this.#calls.get(at)
    if (!call || text === '') return
    call.chars += text.length
    out.push({ kind: 'arguments', choice: 0, index: call.index, text })
  }

  /** @param place the name that the response has in what was sent; null where it is all of that. */
  #finish(sent: JsonObject, text: string, place: string | null, out: AnswerEvent[]): void {
    this.#isOver = true
    const response = place === null ? sent : (asObject(sent[place]) ?? {})
    const mode = toMode(response.service_tier)
    if (mode !== null) out.push({ kind: 'mode', mode })
    out.push({ kind: 'finish', choice: 0, reason: this.#toReason(response) })
    const usage = findUsage(response)
    if (usage) {
      const webSearches = Math.max(usage.webSearches, this.#searches)
      out.push({ kind: 'usage', usage: { ...usage, webSearches } })
    }
    const nanoUsd = findCharge(sent, text, this.#expected.target.upstream.options.cost, place)
    if (nanoUsd !== null) out.push({ kind: 'charged', nanoUsd })
    out.push({ kind: 'done' })
  }

  #toReason({ status, incomplete_details: details }: JsonObject): FinishReason {
    if (status === 'incomplete') return asObject(details)?.reason === 'content_filter' ? 'content_filter' : 'length'
    return this.#calls.size > 0 ? 'tool_calls' : 'stop'
  }

  #toError(error: unknown): UpstreamError {
    return toUpstreamError(null, error, this.#expected.target)
  }

  #fail(error: UpstreamError, out: AnswerEvent[]): void {
    this.#isOver = true
    out.push({ kind: 'failure', error })
  }
}
