/** Decodes OpenAI-format responses, whole or streamed: chunks, errors, ends, and anything else. */
import { UpstreamError } from '../../../domain/error.ts'
import type { AnswerEvent, AnswerOrigin } from '../../../domain/events.ts'
import { asList, asObject, type JsonObject, tryJson } from '../../../domain/json.ts'
import { toMode } from '../../../domain/usage.ts'
import type { Expected } from '../dialect.ts'
import { JsonDecoder, tryParse } from '../json-decoder.ts'
import { DeltaDecoder, toLogprobs } from './delta.ts'
import { openAiErrors } from './errors.ts'
import { findCharge, toUsageEvent } from './usage.ts'

const NO_REPORT: readonly AnswerEvent[] = []

export class AnswerDecoder extends JsonDecoder {
  protected readonly errors = openAiErrors
  readonly #choices: ChoiceDecoder[] = []
  readonly #plain = new PlainChunks()
  #origin: AnswerOrigin = {}
  #mode: string | null = null
  #report: readonly AnswerEvent[] = NO_REPORT

  protected override takeWhole(answer: JsonObject, text: string, out: AnswerEvent[]): void {
    const choices = inOrder(answer.choices)
    if (choices.length === 0) throw new UpstreamError('broken', 'returned 200 with an invalid completion')
    this.#takeOrigin(answer, out)
    for (const [index, choice] of choices.slice(0, this.expected.choices).entries()) {
      const decoder = this.#choice(index)
      decoder.take(choice, choice.message, out)
      decoder.end(out)
    }
    this.#takeReport(answer, text, out)
    out.push({ kind: 'done' })
  }

  override take(text: string, out: AnswerEvent[]): number {
    let at = 0
    while (at < text.length && !this.isOver) {
      const said = this.#plain.read(text, at)
      if (!said || !this.#choices[said.choice]?.passes) break
      out.push(said)
      at = this.#plain.end
    }
    if (at > 0) this.#report = NO_REPORT
    return at
  }

  override end(out: AnswerEvent[]): void {
    // A finish reason without [DONE] is a complete response; an end without either is truncated.
    const named = this.#choices.filter((choice) => choice.isNamed)
    const isWhole = named.length > 0 && named.every((choice) => choice.isFinished)
    if (isWhole && !this.isOver) this.#finish(out)
    else super.end(out)
  }

  protected override takeText(data: string, out: AnswerEvent[]): void {
    if (isDone(data)) this.#finish(out)
    else if (!isSilence(data)) this.#takeLines(data.split('\n'), out)
  }

  /** Events separated by one line end instead of two arrive as one. */
  #takeLines(all: string[], out: AnswerEvent[]): void {
    const lines = all.filter((line) => !isSilence(line))
    if (lines.length > 1 && lines.every((line) => isDone(line) || tryParse(line))) {
      for (const line of lines) this.event({ name: null, data: line }, out)
    } else super.takeText('', out)
  }

  protected override takeJson(chunk: JsonObject, _name: string | null, data: string, out: AnswerEvent[]): void {
    const from = out.length
    this.#takeOrigin(chunk, out)
    const choices = asList(chunk.choices)
    let isPlain = choices.length === 1
    for (const [place, value] of choices.entries()) {
      const choice = asObject(value)
      const index = toIndex(choice, place)
      const isTaken = choice !== null && index < this.expected.choices
      if (!isTaken || !this.#choice(index).take(choice, choice.delta, out)) isPlain = false
    }
    if (out.length > from) this.#report = NO_REPORT
    this.#takeReport(chunk, data, out)
    const said = out[from]
    if (isPlain && out.length === from + 1 && said?.kind === 'text') this.#plain.learn(data, said)
  }

  #takeOrigin(
    { service_tier: tier, system_fingerprint: fingerprint, moderation }: JsonObject,
    out: AnswerEvent[],
  ): void {
    // Nearly every chunk says nothing, or the same again.
    if (!tier && !fingerprint && !moderation) return
    const mode = tier ? toMode(tier) : this.#mode
    if (mode !== this.#mode) out.push({ kind: 'mode', mode })
    this.#mode = mode
    const found = this.#origin
    const news: AnswerOrigin = {}
    if (!found.moderation && asObject(moderation)) news.moderation = moderation as object
    if (!found.service_tier && isTier(tier)) news.service_tier = tier
    if (!found.system_fingerprint && typeof fingerprint === 'string' && fingerprint !== '') {
      news.system_fingerprint = fingerprint
    }
    if (Object.keys(news).length === 0) return
    this.#origin = { ...news, ...found }
    out.push({ kind: 'origin', origin: this.#origin })
  }

  #takeReport(answer: JsonObject, text: string, out: AnswerEvent[]): void {
    const usage = toUsageEvent(answer)
    const nanoUsd = findCharge(answer, text, this.expected.target.upstream.options.cost)
    if (usage === null && nanoUsd === null) return
    const report: AnswerEvent[] = []
    if (usage !== null) report.push(usage)
    if (nanoUsd !== null) report.push({ kind: 'charged', nanoUsd })
    this.#report = report
    out.push(...report)
  }

  /** The decoder of a choice. Creates it, and those of lower indexes. */
  #choice(index: number): ChoiceDecoder {
    while (this.#choices.length <= index) {
      this.#choices.push(new ChoiceDecoder(this.expected, this.#choices.length))
    }
    return this.#choices[index] as ChoiceDecoder
  }

  #finish(out: AnswerEvent[]): void {
    this.isOver = true
    this.#choice(0)
    const from = out.length
    for (const choice of this.#choices) choice.end(out)
    // Text held back until now belongs before the last report, which counts it.
    if (out.length > from + this.#choices.length) out.push(...this.#report)
    out.push({ kind: 'done' })
  }
}

type Tier = NonNullable<AnswerOrigin['service_tier']>
const TIERS: readonly unknown[] = ['auto', 'default', 'flex', 'scale', 'priority', 'fast'] satisfies Tier[]

const isTier = (value: unknown): value is Tier => TIERS.includes(value)

/** Choices of a whole response, ordered by index; their position becomes the index. */
function inOrder(found: unknown): JsonObject[] {
  const choices = asList(found)
    .map(asObject)
    .filter((choice) => choice !== null)
  if (choices.length === 1) return choices
  return choices
    .map((choice, place) => ({ choice, index: toIndex(choice, place) }))
    .sort((a, b) => a.index - b.index)
    .map(({ choice }) => choice)
}

function toIndex(choice: JsonObject | null, place: number): number {
  const index = choice?.index
  return typeof index === 'number' && Number.isInteger(index) && index >= 0 ? index : place
}

const isDone = (data: string) => data.trimStart().startsWith('[DONE]')

const isSilence = (data: string) => data[0] === ':' || data.trim() === ''

/** Finish reasons of upstreams; calls decide between `stop` and `tool_calls`. */
const REASONS: Record<string, 'stop' | 'length' | 'content_filter'> = {
  stop: 'stop',
  tool_calls: 'stop',
  tool_use: 'stop',
  function_call: 'stop',
  length: 'length',
  max_tokens: 'length',
  max_output_tokens: 'length',
  max_length: 'length',
  model_length: 'length',
  model_context_window_exceeded: 'length',
  content_filter: 'content_filter',
  content_filtered: 'content_filter',
  safety: 'content_filter',
  sensitive: 'content_filter',
}

/** Decodes one choice. Handles plain content deltas, which nearly all are; `delta.ts` reads the rest. */
class ChoiceDecoder {
  readonly #index: number
  readonly #expected: Expected
  /** Created on demand: most choices are content only. */
  #deltas: DeltaDecoder | null = null
  #reason: 'stop' | 'length' | 'content_filter' | null = null
  /** True once the upstream has sent anything for the choice, even only a role. */
  isNamed = false
  isFinished = false

  constructor(expected: Expected, index: number) {
    this.#index = index
    this.#expected = expected
    // With think tags, the content may begin with reasoning.
    if (expected.target.upstream.options.think_tags) this.#deltas = new DeltaDecoder(expected, index)
  }

  /** True if well-formed content goes out unchanged. */
  get passes(): boolean {
    return this.#deltas === null || this.#deltas.passes
  }

  /** Takes a choice with its delta or message. Returns true if it was only content that went out unchanged. */
  take(choice: JsonObject, said: unknown, out: AnswerEvent[]): boolean {
    this.isNamed = true
    const delta = asObject(said) ?? {}
    const logprobs = this.#expected.logprobs ? toLogprobs(choice.logprobs) : null
    const content = logprobs ? null : toPlainText(delta)
    const isPlain = content !== null && content !== '' && this.passes && content.isWellFormed()
    if (isPlain) out.push({ kind: 'text', choice: this.#index, text: content })
    else if (content !== '') {
      this.#deltas ??= new DeltaDecoder(this.#expected, this.#index)
      this.#deltas.take(delta, logprobs, out)
    }
    return !this.#takeReason(choice.finish_reason) && isPlain
  }

  /** Adds held-back text and the finish reason, which is `tool_calls` with calls, whatever the upstream says. */
  end(out: AnswerEvent[]): void {
    const cut = this.#reason === 'length' || this.#reason === 'content_filter' ? this.#reason : null
    const called = this.#deltas?.end(cut === null, out)
    out.push({ kind: 'finish', choice: this.#index, reason: cut ?? called ?? 'stop' })
  }

  /** True for any finish reason; some servers write '' or "null" into every chunk. */
  #takeReason(reason: unknown): boolean {
    if (typeof reason !== 'string' || reason === '' || reason === 'null') return false
    this.isFinished = true
    this.#reason ??= REASONS[reason.toLowerCase()] ?? null
    return true
  }
}

function toPlainText(said: JsonObject): string | null {
  for (const key in said) if (key !== 'content' && key !== 'role' && said[key] != null) return null
  const { content } = said
  return typeof content === 'string' ? content : content == null ? '' : null
}

/** Attempts until a stream whose chunks never look alike is no longer learned from. */
const MAX_LESSONS = 8

/** Escapes other than of line ends, tabs, slashes and backslashes, and characters that may end a line, take the slow path. */
const UNUSUAL = /\\[^\\/bfnrt]|[^\u0020-\u0084\u0086-\u2027\u202a-\uffff]/

const BACKSLASH = 92

/** What surrounds a chunk in its stream. */
const BEFORE = 'data: '
const AFTER = '\n\n'

/**
 * Fast path for content-only chunks, which nearly all are: learns what surrounds the content, and reads the next ones without parsing JSON.
 */
class PlainChunks {
  #prefix = ''
  #suffix = ''
  #choice = 0
  #lessons = MAX_LESSONS
  end = 0

  read(text: string, at: number): (AnswerEvent & { kind: 'text' }) | null {
    const prefix = this.#prefix
    if (prefix === '' || !text.startsWith(prefix, at)) return null
    const from = at + prefix.length
    // The first quote ends the content unless it is escaped; in that case the suffix doesn't follow.
    const to = text.indexOf('"', from)
    if (to <= from || text.charCodeAt(to - 1) === BACKSLASH || !text.startsWith(this.#suffix, to)) return null
    const json = text.slice(from - 1, to + 1)
    if (UNUSUAL.test(json)) return null
    this.end = to + this.#suffix.length
    this.#lessons = MAX_LESSONS
    return {
      kind: 'text',
      choice: this.#choice,
      text: json.includes('\\') ? JSON.parse(json) : json.slice(1, -1),
      json,
    }
  }

  learn(data: string, { text, choice }: { text: string; choice: number }): void {
    // An event of several data lines has line ends that `read` doesn't expect.
    if (this.#lessons === 0 || data.includes('\n')) return
    this.#lessons--
    const json = JSON.stringify(text)
    const at = data.indexOf(json)
    if (at === -1) return
    const prefix = data.slice(0, at + 1)
    const suffix = data.slice(at + json.length - 1)
    // The same text may occur elsewhere, so check that this place is the content.
    if (contentOf(`${prefix}${MARK}${suffix}`) !== MARK) return
    this.#prefix = BEFORE + prefix
    this.#suffix = suffix + AFTER
    this.#choice = choice
  }
}

const MARK = 'tollgate'

const contentOf = (data: string): unknown =>
  asObject(asObject(asList(asObject(tryJson(data))?.choices)[0])?.delta)?.content
