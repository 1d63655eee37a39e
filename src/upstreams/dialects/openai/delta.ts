/** Decodes all other deltas, with any fields and shapes. Holds back incomplete parts. A whole message is one delta. */

import type { AnswerEvent, Logprob, Logprobs, TokenLogprob } from '../../../domain/events.ts'
import { asList, asObject, asText, type JsonObject } from '../../../domain/json.ts'
import type { Expected } from '../dialect.ts'
import { SurrogateBuffer } from '../json-decoder.ts'
import { toLogprobFigure } from '../readings.ts'
import { toReasoningIssuer } from '../reasoning-state.ts'
import { CallIds } from '../tool-calls.ts'
import { signed, toSignatureDetails } from './conversation.ts'
import { ToolCalls } from './tool-calls.ts'

export class DeltaDecoder {
  readonly #index: number
  readonly #callId: string
  readonly #signer: string
  readonly #think: ThinkSplitter | null
  readonly #content = new SurrogateBuffer()
  readonly #reasoning = new SurrogateBuffer()
  readonly #refusal = new SurrogateBuffer()
  readonly #details = new ItemNumbers(true)
  readonly #annotations = new ItemNumbers(false)
  readonly #images = new ItemNumbers(false)
  #tools: ToolCalls | null = null

  constructor({ target, callId }: Expected, index: number) {
    this.#index = index
    this.#callId = callId
    this.#signer = toReasoningIssuer(target)
    this.#think = target.upstream.options.think_tags ? new ThinkSplitter() : null
  }

  get passes(): boolean {
    return (this.#think === null || this.#think.isPast) && this.#content.isEmpty
  }

  take(delta: JsonObject, logprobs: Logprobs | null, out: AnswerEvent[]): void {
    const from = out.length
    const calls: AnswerEvent[] = []
    if (delta.tool_calls || delta.function_call) {
      this.#tools ??= this.#toTools()
      if (delta.tool_calls) this.#tools.take(delta.tool_calls, calls)
      if (delta.function_call) this.#tools.takeLegacy(delta.function_call, calls)
    }
    this.#takeTexts(delta, calls.length > 0, out)
    const audio = asObject(delta.audio)
    if (audio) out.push({ kind: 'audio', choice: this.#index, audio: withoutNulls(audio) })
    const images = this.#images.take(delta.images)
    if (images.length > 0) out.push({ kind: 'images', choice: this.#index, items: images })
    const items = this.#annotations.take(delta.annotations)
    if (items.length > 0) out.push({ kind: 'annotations', choice: this.#index, items })
    for (const call of calls) out.push(call)
    if (logprobs) this.#attach(logprobs, out, from)
  }

  /**
   * Adds held-back text at the end, and returns the finish reason that calls imply, or null.
   * @param isComplete false if the response was truncated, so its last call may be incomplete.
   */
  end(isComplete: boolean, out: AnswerEvent[]): 'tool_calls' | 'function_call' | null {
    const rest = this.#think?.end() ?? { reasoning: '', content: '' }
    this.#sayThought(this.#reasoning.take(rest.reasoning) + this.#reasoning.end(), [], out)
    this.#say('text', this.#content.take(rest.content) + this.#content.end(), out)
    this.#say('refusal', this.#refusal.end(), out)
    this.#tools?.end(isComplete, out)
    return this.#tools?.reason ?? null
  }

  #toTools(): ToolCalls {
    const sign = (extra: JsonObject, id: string) =>
      toSignatureDetails(extra, id, this.#signer).map((detail) => this.#details.add(detail))
    return new ToolCalls(this.#index, new CallIds('call', `${this.#callId}/${this.#index}`), sign)
  }

  #takeTexts(delta: JsonObject, calls: boolean, out: AnswerEvent[]): void {
    const texts = toTexts(delta)
    if (this.#think) {
      const parts = [this.#think.take(texts.content), ...(calls ? [this.#think.end()] : [])]
      texts.reasoning += parts.map((part) => part.reasoning).join('')
      texts.content = parts.map((part) => part.content).join('')
    }
    this.#sayThought(this.#reasoning.take(texts.reasoning), this.#details.take(delta.reasoning_details), out)
    this.#say('text', this.#content.take(texts.content), out)
    this.#say('refusal', this.#refusal.take(texts.refusal), out)
  }

  #sayThought(text: string, details: readonly object[], out: AnswerEvent[]): void {
    if (text === '' && details.length === 0) return
    const event = { kind: 'reasoning', choice: this.#index, text } as const
    if (details.length === 0) out.push(event)
    else out.push({ ...event, details: details.map((item) => signed(item, this.#signer)) })
  }

  #say(kind: 'text' | 'refusal', text: string, out: AnswerEvent[]): void {
    if (text !== '') out.push({ kind, choice: this.#index, text })
  }

  /** Logprobs go with the first text of their delta, or with an empty one. */
  #attach(logprobs: Logprobs, out: AnswerEvent[], from: number): void {
    const first = out[from]
    if (first && (first.kind === 'text' || first.kind === 'refusal' || first.kind === 'reasoning')) {
      first.logprobs = logprobs
    } else out.splice(from, 0, { kind: 'text', choice: this.#index, text: '', logprobs })
  }
}

const withoutNulls = (value: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(value).filter(([, each]) => each !== null))

interface Texts {
  content: string
  reasoning: string
  refusal: string
}

function toTexts(said: JsonObject): Texts {
  const { content } = said
  const texts: Texts = {
    content: asText(content),
    reasoning: asText(said.reasoning_content) || asText(said.reasoning) || toDetailsText(said.reasoning_details),
    refusal: asText(said.refusal),
  }
  if (typeof content === 'object') for (const part of Array.isArray(content) ? content : [content]) addPart(texts, part)
  return texts
}

function addPart(texts: Texts, value: unknown): void {
  const part = asObject(value)
  if (!part) texts.content += asText(value)
  else if (part.type === 'thinking' || part.type === 'reasoning') texts.reasoning += toThought(part)
  else if (part.type === 'refusal') texts.refusal += asText(part.refusal)
  else texts.content += asText(part.text)
}

function toThought(part: JsonObject): string {
  const thought = part.thinking ?? part.reasoning ?? part.text
  if (typeof thought === 'string') return thought
  return asList(thought)
    .map((each) => asText(each) || asText(asObject(each)?.text))
    .join('')
}

function toDetailsText(details: unknown): string {
  return asList(details)
    .map((each) => asText(asObject(each)?.text) || asText(asObject(each)?.summary))
    .join('')
}

/**
 * Separates a leading `<think>…</think>` from the content; also `<reasoning>` (Bedrock) and `<thought>` (Google's OpenAI API). An unclosed
 * block is all reasoning. A closing tag alone stays text, since a stream has already sent what precedes it.
 */
const OPENINGS = ['<think>', '<reasoning>', '<thought>'] as const

export interface Thought {
  reasoning: string
  content: string
}

export class ThinkSplitter {
  #state: 'before' | 'opened' | 'inside' | 'closed' | 'past' = 'before'
  #held = ''
  #closing = ''

  get isPast(): boolean {
    return this.#state === 'past'
  }

  take(text: string): Thought {
    this.#held += text
    const out: Thought = { reasoning: '', content: '' }
    if (this.#state === 'before') this.#open()
    if (this.#state === 'opened') this.#passLineEnds('inside')
    if (this.#state === 'inside') out.reasoning = this.#takeThought()
    if (this.#state === 'closed') this.#passLineEnds('past')
    if (this.#state !== 'past') return out
    out.content = this.#held
    this.#held = ''
    return out
  }

  /** Returns held-back text. From here on, everything is content. */
  end(): Thought {
    const held = this.#held
    const out = { reasoning: this.#state === 'inside' ? held : '', content: this.#state === 'before' ? held : '' }
    this.#held = ''
    this.#state = 'past'
    return out
  }

  #open(): void {
    const text = this.#held.trimStart()
    const opening = OPENINGS.find((tag) => text.startsWith(tag))
    if (opening !== undefined) {
      this.#held = text.slice(opening.length)
      this.#closing = opening.replace('<', '</')
      this.#state = 'opened'
    } else if (!OPENINGS.some((tag) => tag.startsWith(text))) this.#state = 'past'
  }

  #passLineEnds(next: 'inside' | 'past'): void {
    this.#held = this.#held.replace(/^[\r\n]+/, '')
    if (this.#held !== '') this.#state = next
  }

  /** Takes reasoning up to the closing tag, or as far as neither the tag nor the line ends before it can begin. */
  #takeThought(): string {
    const held = this.#held
    const endTag = this.#closing
    const closing = held.indexOf(endTag)
    const tag = closing === -1 ? held.lastIndexOf('<') : closing
    let end = tag !== -1 && (tag === closing || endTag.startsWith(held.slice(tag))) ? tag : held.length
    while (end > 0 && (held[end - 1] === '\n' || held[end - 1] === '\r')) end -= 1
    this.#held = held.slice(closing === -1 ? end : closing + endTag.length)
    if (closing !== -1) this.#state = 'closed'
    return held.slice(0, end)
  }
}

/**
 * Numbers items: clients join streamed items by an integer `index`, and some fail without one (openai-python raises on the second chunk).
 */
const NO_ITEMS: readonly object[] = []

export class ItemNumbers {
  #next = 0
  readonly #byType = new Map<unknown, number>()

  /** @param joins true if an item without an index continues the last of its type. */
  constructor(readonly joins: boolean) {}

  take(list: unknown): readonly object[] {
    // Missing in nearly every delta.
    if (list === undefined) return NO_ITEMS
    return asList(list).flatMap((each) => {
      const item = asObject(each)
      if (!item) return []
      const known = this.joins ? this.#byType.get(item.type) : undefined
      const index = isIndex(item.index) ? item.index : (known ?? this.#next)
      this.#byType.set(item.type, index)
      this.#next = Math.max(this.#next, index + 1)
      return { ...item, index }
    })
  }

  add<Item extends object>(item: Item): Item & { index: number } {
    return { ...item, index: this.#next++ }
  }
}

/** Far beyond any list. Counting becomes inexact with larger numbers. */
const MAX_INDEX = 1e6

const isIndex = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) <= MAX_INDEX

/** Completes logprobs for typed clients: all keys, finite numbers, and lists. Drops items that aren't tokens. */
export function toLogprobs(value: unknown): Logprobs | null {
  const given = asObject(value)
  if (!given) return null
  const content = toTokenLogprobs(given.content)
  const refusal = toTokenLogprobs(given.refusal)
  return content || refusal ? { content, refusal } : null
}

function toTokenLogprobs(value: unknown): TokenLogprob[] | null {
  const tokens = asList(value).flatMap((each): TokenLogprob[] => {
    const item = asObject(each)
    const token = item && toLogprob(item)
    return token ? [{ ...token, top_logprobs: toLikeliest(item.top_logprobs) }] : []
  })
  return tokens.length > 0 ? tokens : null
}

function toLikeliest(value: unknown): Logprob[] {
  const map = asObject(value)
  const items = map ? Object.entries(map).map(([token, logprob]) => ({ token, logprob })) : asList(value)
  return items.flatMap((each) => {
    const item = asObject(each)
    return (item && toLogprob(item)) ?? []
  })
}

function toLogprob({ token, logprob, bytes }: JsonObject): Logprob | null {
  if (typeof token !== 'string') return null
  return { token: token.toWellFormed(), logprob: toLogprobFigure(logprob), bytes: toBytes(token, bytes) }
}

/** A token that is part of a character has bytes that its text doesn't show. */
function toBytes(token: string, given: unknown): number[] | null {
  if (Array.isArray(given)) return given.every(isByte) ? given : null
  return given === null || token.includes('\uFFFD') ? null : [...Buffer.from(token)]
}

const isByte = (value: unknown) => Number.isInteger(value) && (value as number) >= 0 && (value as number) <= 255
