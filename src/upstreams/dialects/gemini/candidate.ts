/** Decodes one candidate, whole or in chunks: parts, calls, citations and logprobs. */
import type { AnswerEvent, Logprob, Logprobs } from '../../../domain/events.ts'
import { asList, asObject, asText, type JsonObject } from '../../../domain/json.ts'
import type { Expected } from '../dialect.ts'
import { toLogprobFigure } from '../readings.ts'
import { toReasoningIssuer } from '../reasoning-state.ts'
import { CallBook } from '../tool-calls.ts'
import { toDetail, toExtra } from './conversation.ts'

type Reason = 'stop' | 'length' | 'content_filter'

/** Other reasons mean a normal end. */
const REASONS = new Map<string, Reason>(
  Object.entries({
    MAX_TOKENS: 'length',
    CONTINUATION: 'length',
    SAFETY: 'content_filter',
    RECITATION: 'content_filter',
    LANGUAGE: 'content_filter',
    BLOCKLIST: 'content_filter',
    PROHIBITED_CONTENT: 'content_filter',
    SPII: 'content_filter',
    MODEL_ARMOR: 'content_filter',
    IMAGE_SAFETY: 'content_filter',
    IMAGE_PROHIBITED_CONTENT: 'content_filter',
    IMAGE_RECITATION: 'content_filter',
  } as const),
)

const toReason = (word: string): Reason => REASONS.get(word) ?? 'stop'

export class Candidate {
  readonly #index: number
  readonly #expected: Expected
  readonly #calls: Calls
  readonly #signer: string
  #reason: Reason | null = null
  /** Text of the candidate so far, for citations; null without search. */
  #said: string | null = null
  #grounding: unknown = null
  #details = 0
  #images = 0

  constructor(expected: Expected, index: number) {
    this.#index = index
    this.#expected = expected
    this.#signer = toReasoningIssuer(expected.target)
    this.#calls = new Calls(expected, index)
    if (expected.body.web_search_options) this.#said = ''
  }

  get isFinished(): boolean {
    return this.#reason !== null
  }

  take(candidate: JsonObject, out: AnswerEvent[]): void {
    const from = out.length
    for (const part of asList(asObject(candidate.content)?.parts)) this.#takePart(asObject(part) ?? {}, out)
    if (this.#expected.logprobs) this.#attach(candidate.logprobsResult, out, from)
    this.#grounding = candidate.groundingMetadata ?? this.#grounding
    const reason = asText(candidate.finishReason)
    if (reason !== '') this.#reason ??= toReason(reason)
  }

  /** Adds the finish reason at the end. @param blocked true if the prompt was refused and nothing was written. */
  end(blocked: boolean, out: AnswerEvent[]): void {
    this.#calls.end(out)
    const items = this.#said === null ? [] : toCitations(this.#grounding, this.#said)
    if (items.length > 0) out.push({ kind: 'annotations', choice: this.#index, items })
    const reason = blocked ? 'content_filter' : this.#reason
    const called = reason === 'length' || reason === 'content_filter' ? null : this.#calls.reason
    out.push({ kind: 'finish', choice: this.#index, reason: called ?? reason ?? 'stop' })
  }

  #takePart(part: JsonObject, out: AnswerEvent[]): void {
    // Calls of Google's own tools are skipped: clients don't send their signatures back.
    if (part.toolCall || part.toolResponse) return
    const text = asText(part.text).toWellFormed()
    const signature = asSound(part.thoughtSignature)
    const call = asObject(part.functionCall)
    const image = toImage(part.inlineData, signature, this.#signer)
    if (image) {
      out.push({ kind: 'images', choice: this.#index, items: [{ ...image, index: this.#images++ }] })
      return
    }
    const kind = part.thought === true ? 'reasoning' : 'text'
    if (text !== '') out.push({ kind, choice: this.#index, text })
    if (kind === 'text' && this.#said !== null) this.#said += text
    const id = call ? this.#calls.take(call, out) : null
    if (signature === '' || (call && !id)) return
    const details = [toDetail(signature, this.#signer, this.#details++, id)]
    out.push({ kind: 'reasoning', choice: this.#index, text: '', details })
  }

  /** Logprobs go with the first text of their chunk, or with an empty one. */
  #attach(result: unknown, out: AnswerEvent[], from: number): void {
    const logprobs = toLogprobs(result)
    if (logprobs === null) return
    const said = out.slice(from).find((event) => event.kind === 'text')
    if (said?.kind === 'text') said.logprobs = logprobs
    else out.push({ kind: 'text', choice: this.#index, text: '', logprobs })
  }
}

/** Base64 or a name; '' for text with half a character, which is neither. */
function asSound(value: unknown): string {
  const text = asText(value)
  return text.isWellFormed() ? text : ''
}

function toImage(value: unknown, signature: string, signer: string): object | null {
  const blob = asObject(value) ?? {}
  const [mimeType, data] = [asSound(blob.mimeType), asSound(blob.data)]
  if (!mimeType.startsWith('image/') || data === '') return null
  return {
    type: 'image_url',
    image_url: { url: `data:${mimeType};base64,${data}` },
    ...(signature === '' ? {} : toExtra(signature, signer)),
  }
}

/** Function calls as events. They arrive whole, or start with `willContinue` and continue in parts without a name. */
class Calls {
  readonly #choice: number
  readonly #book: CallBook
  /** The call whose arguments are still arriving; its index is null if the call is dropped. */
  #open: { index: number | null; args: PartialArgs } | null = null

  constructor({ callId, body }: Pick<Expected, 'callId' | 'body'>, choice: number) {
    this.#choice = choice
    this.#book = new CallBook(body, `${callId}/${choice}`, choice)
  }

  get reason(): 'tool_calls' | 'function_call' | null {
    return this.#book.reason
  }

  /** Takes one `functionCall`. Returns the ID of the call it begins; null if it begins none, or one too many. */
  take(call: JsonObject, out: AnswerEvent[]): string | null {
    const name = asText(call.name)
    if (name === '') {
      this.#goOn(call, out)
      return null
    }
    this.end(out)
    const isPartial = call.willContinue === true || call.partialArgs !== undefined
    const begun = this.#book.begin(name, asText(call.id), out)
    if (isPartial) {
      this.#open = { index: begun?.index ?? null, args: new PartialArgs() }
      if (begun) this.#goOn(call, out)
    } else if (begun) this.#say(begun.index, JSON.stringify(asObject(call.args) ?? {}), out)
    return begun?.id ?? null
  }

  end(out: AnswerEvent[]): void {
    const open = this.#open
    this.#open = null
    if (open && open.index !== null) this.#say(open.index, open.args.toJson(), out)
  }

  #goOn(call: JsonObject, out: AnswerEvent[]): void {
    this.#open?.args.take(call.partialArgs)
    if (call.willContinue !== true) this.end(out)
  }

  #say(index: number, text: string, out: AnswerEvent[]): void {
    out.push({ kind: 'arguments', choice: this.#choice, index, text: text.toWellFormed() })
  }
}

type Holder = Record<string, unknown>

const STEP = /\.([^.[\]]+)|\[(\d{1,6})\]|\['([^']*)'\]/g
const MAX_STEPS = 64

/**
 * Assembles arguments sent in pieces with the path of each value: `$.city`, `$.stops[0].name`. Vertex sends them if a model's settings
 * enable it.
 */
export class PartialArgs {
  readonly #root: Holder = {}

  take(list: unknown): void {
    for (const each of asList(list)) {
      const item = asObject(each)
      const steps = item ? toSteps(asText(item.jsonPath)) : []
      if (item && steps.length > 0) put(this.#root, steps, item)
    }
  }

  toJson(): string {
    return JSON.stringify(this.#root)
  }
}

function toSteps(path: string): (string | number)[] {
  const steps = [...path.matchAll(STEP)].map(([, name, place, quoted]) =>
    place === undefined ? (name ?? quoted ?? '') : Number(place),
  )
  return steps.length <= MAX_STEPS ? steps : []
}

function put(root: Holder, steps: (string | number)[], item: JsonObject): void {
  let holder: Holder = root
  for (const [at, step] of steps.entries()) {
    if (typeof step === 'number' && step > (Array.isArray(holder) ? holder.length : 0)) return
    const held = Object.hasOwn(holder, step) ? holder[step] : undefined
    if (at === steps.length - 1) {
      set(holder, step, toValue(item, held))
      return
    }
    const next = typeof held === 'object' && held !== null ? held : typeof steps[at + 1] === 'number' ? [] : {}
    if (next !== held) set(holder, step, next)
    holder = next as Holder
  }
}

/** Defines names such as `__proto__` like any other. */
const set = (holder: Holder, step: string | number, value: unknown) =>
  Object.defineProperty(holder, step, { value, enumerable: true, configurable: true, writable: true })

function toValue({ stringValue, numberValue, boolValue }: JsonObject, held: unknown): unknown {
  if (typeof stringValue === 'string') return asText(held) + stringValue
  if (typeof numberValue === 'number') return numberValue
  return typeof boolValue === 'boolean' ? boolValue : null
}

const MAX_CITATIONS = 1_000
/** Total UTF-16 units searched. Segments in order take as many as the text has. */
const MAX_SEARCHED = 10_000_000

/** Segments of `groundingMetadata` are found by their text, since their offsets are bytes of a part and streams cut parts anywhere. */
export function toCitations(metadata: unknown, text: string): object[] {
  const { groundingChunks, groundingSupports } = asObject(metadata) ?? {}
  const pages = asList(groundingChunks).map((chunk) =>
    asObject(asObject(chunk)?.web ?? asObject(chunk)?.retrievedContext),
  )
  const citations: object[] = []
  let from = 0
  let searched = 0
  for (const each of asList(groundingSupports)) {
    const { segment, groundingChunkIndices } = asObject(each) ?? {}
    const words = asText(asObject(segment)?.text)
    if (words === '') continue
    const next = text.indexOf(words, from)
    const start = next === -1 ? text.indexOf(words) : next
    searched += next === -1 ? 2 * text.length : next - from + words.length
    if (searched > MAX_SEARCHED) return citations
    if (start === -1) continue
    from = start
    for (const place of asList(groundingChunkIndices)) {
      if (citations.length >= MAX_CITATIONS) return citations
      const page = typeof place === 'number' ? pages[place] : null
      const url = asText(page?.uri)
      if (url === '') continue
      const span = { start_index: start, end_index: start + words.length }
      const url_citation = { ...span, url, title: asText(page?.title).toWellFormed() }
      citations.push({ type: 'url_citation', url_citation, index: citations.length })
    }
  }
  return citations
}

function toLogprobs(value: unknown): Logprobs | null {
  const given = asObject(value)
  const tops = asList(given?.topCandidates)
  const content = asList(given?.chosenCandidates).map((each, place) => ({
    ...toLogprob(each),
    top_logprobs: asList(asObject(tops[place])?.candidates).map(toLogprob),
  }))
  return content.length > 0 ? { content, refusal: null } : null
}

function toLogprob(value: unknown): Logprob {
  const { token, logProbability } = asObject(value) ?? {}
  const text = asText(token)
  return {
    token: text.toWellFormed(),
    logprob: toLogprobFigure(logProbability),
    // A token that is part of a character has bytes that its text doesn't show.
    bytes: text.isWellFormed() && !text.includes('\uFFFD') ? [...Buffer.from(text)] : null,
  }
}
