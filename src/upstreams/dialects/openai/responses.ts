/**
 * Passthrough of the Responses API: the request, and usage, end and text of its response, whole or streamed. Unknown events and items are
 * ignored.
 */
import { UpstreamError } from '../../../domain/error.ts'
import type { AnswerEvent, FinishReason } from '../../../domain/events.ts'
import { asList, asObject, asText, type JsonObject } from '../../../domain/json.ts'
import { findMembers, spliceItems } from '../../../domain/json-text.ts'
import type { PassthroughRequest } from '../../../domain/task.ts'
import { MAX_SEARCHES, toMode } from '../../../domain/usage.ts'
import { toQuery } from '../../auth.ts'
import type { SseEvent } from '../../framing.ts'
import type { PassthroughFormat } from '../dialect.ts'
import { type ErrorReader, toBareError } from '../errors.ts'
import { JsonDecoder } from '../json-decoder.ts'
import {
  PlainDeltas,
  toCapEdit,
  toOwnFields,
  toPassthroughHeader,
  toPassthroughReaders,
  toPassthroughText,
  typeOf,
} from '../passthrough.ts'
import { isEncodedState } from '../reasoning-state.ts'
import { openAiErrors } from './errors.ts'
import { findCharge, findUsage } from './usage.ts'

const OF_RESPONSES = toOwnFields(
  'model input instructions max_output_tokens max_tool_calls metadata parallel_tool_calls reasoning store stream stream_options temperature text tool_choice tools top_logprobs top_p truncation user safety_identifier prompt_cache_key prompt_cache_retention include background conversation previous_response_id prompt service_tier context_management',
)

const OTHER_FIELDS =
  /"(?:sequence_number|item_id|output_index|content_index|obfuscation)":(?:\d{1,9}|"[\w-]{0,256}")|"logprobs":\[\]/
    .source

/** A text delta, with the event's other fields in any order. */
const TEXT = new PlainDeltas({
  before: new RegExp(
    String.raw`event: response\.output_text\.delta\ndata: \{"type":"response\.output_text\.delta",(?:(?:${OTHER_FIELDS}),){0,8}"delta":"`,
    'y',
  ),
  after: new RegExp(String.raw`"(?:,(?:${OTHER_FIELDS})){0,8}\}\n\n`, 'y'),
})

export const responses: PassthroughFormat = {
  request: (passthrough, body, target) => ({
    path: `/responses${toQuery(target.upstream.options)}`,
    // Nothing is stored at the provider, because keys could read each other's stored responses.
    body: toPassthroughText(passthrough, target, OF_RESPONSES, {
      store: 'false',
      ...toInputEdit(passthrough),
      ...toCapEdit(passthrough, body, 'max_output_tokens'),
    }),
    headers: toBetaHeaders(passthrough),
  }),

  ...toPassthroughReaders(
    (expected) => new ResponseDecoder(expected),
    (inner) => (event, read) => ({
      origin: OF_THE_WHOLE.has(typeOf(event)) ? 'response' : null,
      isContent: inner.isAtWork,
      isTail: read.at(-1)?.kind === 'done',
    }),
    TEXT,
  ),
}

const OF_THE_WHOLE: ReadonlySet<string> = new Set(
  ['created', 'queued', 'in_progress', 'completed', 'incomplete'].map((state) => `response.${state}`),
)

function toInputEdit({ text, json }: PassthroughRequest): Record<string, string> {
  const isLost = asList(json.input).map((item) => isOfOthers(item) || isKept(item))
  const held = isLost.includes(true) && findMembers(text)?.find(({ name }) => name === 'input')
  const kept = held && spliceItems(text, held.from, (_, at) => (isLost[at] ? [] : null))
  return kept ? { input: kept } : {}
}

const toThought = (value: unknown) => {
  const item = asObject(value)
  return item?.type === 'reasoning' ? item : null
}

/** True for state that Tollgate encoded, which another model issued. */
const isOfOthers = (item: unknown) => isEncodedState(asText(toThought(item)?.encrypted_content))

/**
 * True for an item that is only the ID of reasoning stored at the provider. Tollgate stores none, and keys must not find each other's
 * (https://github.com/langchain-ai/langchain/pull/38372).
 */
function isKept(item: unknown): boolean {
  const { id, encrypted_content: encoded, content } = toThought(item) ?? {}
  return typeof id === 'string' && !encoded && asList(content).length === 0
}

export function toBetaHeaders(passthrough: PassthroughRequest): Record<string, string> {
  const betas = toPassthroughHeader(passthrough, 'openai-beta')
  return betas === null ? {} : { 'openai-beta': betas }
}

interface Call {
  index: number
  chars: number
}

/** Items with text or reasoning. Others are calls, or work at the provider. */
const SAID: ReadonlySet<unknown> = new Set(['message', 'reasoning'])

const CALLED: ReadonlyMap<unknown, string> = new Map([
  ['function_call', 'arguments'],
  ['custom_tool_call', 'input'],
])

/** Search actions that cost only tokens (https://platform.openai.com/docs/guides/tools-web-search). */
const IN_PAGE: ReadonlySet<unknown> = new Set(['open_page', 'find_in_page'])

/** A response has its own status, and a failure event contains the response. */
const responseErrors: ErrorReader = {
  find(answer) {
    const { type, error, status, output } = answer
    const response = asObject(answer.response)
    // Some servers name an event only outside its data.
    if (type === 'response.failed' || response?.status === 'failed') return toBareError(response ?? answer)
    if (type === 'error' || error || status === 'failed') return toBareError(answer)
    return Array.isArray(output) || asText(type).startsWith('response.') ? null : openAiErrors.find(answer)
  },
  read: openAiErrors.read,
}

class ResponseDecoder extends JsonDecoder {
  protected readonly errors = responseErrors
  isAtWork = false
  readonly #calls = new Map<number, Call>()
  #searches = 0

  protected override takeWhole(answer: JsonObject, text: string, out: AnswerEvent[]): void {
    const { output, status } = answer
    if (!Array.isArray(output)) throw new UpstreamError('broken', 'returned 200 with an invalid response')
    if (status === 'queued' || status === 'in_progress')
      throw new UpstreamError('broken', 'returned 200 with an incomplete response')
    for (const [at, value] of output.entries()) this.#takeItem(asObject(value) ?? {}, at, true, out)
    this.#finish(answer, text, null, out)
  }

  override event(event: SseEvent, out: AnswerEvent[]): void {
    this.isAtWork = false
    super.event(event, out)
  }

  /** Some servers end the stream as chats do. */
  protected override takeText(data: string, out: AnswerEvent[]): void {
    if (data.trim() !== '[DONE]') super.takeText(data, out)
  }

  protected override takeJson(event: JsonObject, name: string | null, data: string, out: AnswerEvent[]): void {
    const text = asText(event.delta).toWellFormed()
    const at = typeof event.output_index === 'number' ? event.output_index : -1
    switch (asText(event.type) || name) {
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
      case 'response.completed':
      case 'response.incomplete':
        this.#finish(event, data, 'response', out)
    }
  }

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
      // The part that wasn't streamed.
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

  #finish(sent: JsonObject, text: string, place: string | null, out: AnswerEvent[]): void {
    this.isOver = true
    const response = place === null ? sent : (asObject(sent[place]) ?? {})
    const mode = toMode(response.service_tier)
    if (mode !== null) out.push({ kind: 'mode', mode })
    out.push({ kind: 'finish', choice: 0, reason: this.#toReason(response) })
    const usage = findUsage(response)
    if (usage) {
      const webSearches = Math.max(usage.webSearches, this.#searches)
      out.push({ kind: 'usage', usage: { ...usage, webSearches } })
    }
    const nanoUsd = findCharge(sent, text, this.expected.target.upstream.options.cost, place)
    if (nanoUsd !== null) out.push({ kind: 'charged', nanoUsd })
    out.push({ kind: 'done' })
  }

  #toReason({ status, incomplete_details: details }: JsonObject): FinishReason {
    if (status === 'incomplete') return asObject(details)?.reason === 'content_filter' ? 'content_filter' : 'length'
    return this.#calls.size > 0 ? 'tool_calls' : 'stop'
  }
}

function readWords(item: JsonObject, out: AnswerEvent[]): void {
  const isThought = item.type === 'reasoning'
  for (const value of asList(item.summary)) {
    const text = asText(asObject(value)?.text).toWellFormed()
    if (text !== '') out.push(toSummary(text))
  }
  for (const value of asList(item.content)) {
    const part = asObject(value) ?? {}
    const text = asText(part.text).toWellFormed()
    const refusal = asText(part.refusal).toWellFormed()
    if (text !== '') out.push({ kind: isThought ? 'reasoning' : 'text', choice: 0, text })
    if (refusal !== '') out.push({ kind: 'refusal', choice: 0, text: refusal })
  }
}

const toSummary = (text: string): AnswerEvent => ({
  kind: 'reasoning',
  choice: 0,
  text,
  details: [{ type: 'reasoning.summary', index: 0 }],
})

const toHidden = (): AnswerEvent => ({
  kind: 'reasoning',
  choice: 0,
  text: '',
  details: [{ type: 'reasoning.encrypted', index: 0 }],
})
