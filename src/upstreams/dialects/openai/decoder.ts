/** Reads an answer of the OpenAI format as events, whole or streamed: what is a chunk, an error, an end, and what is none of them. Pure. */
import { UpstreamError } from '../../../domain/error.ts'
import type { AnswerEvent, AnswerOrigin } from '../../../domain/events.ts'
import { asList, asObject, type JsonObject, parseJson } from '../../../domain/json.ts'
import { toMode } from '../../../domain/mode.ts'
import type { Decoder, Expected } from '../../backend.ts'
import type { SseEvent } from '../../sse.ts'
import { ChoiceDecoder } from './choice.ts'
import { findError, toBodyError, toUpstreamError } from './error.ts'
import { PlainChunks } from './plain-chunks.ts'
import { findCharge, toUsageEvent } from './usage.ts'

const NO_REPORT: readonly AnswerEvent[] = []

export class AnswerDecoder implements Decoder {
  readonly #expected: Expected
  readonly #choices: ChoiceDecoder[] = []
  readonly #plain = new PlainChunks()
  #origin: AnswerOrigin = {}
  #mode: string | null = null
  /** What was reported last, as long as nothing else came after it. */
  #report: readonly AnswerEvent[] = NO_REPORT
  #isOver = false

  constructor(expected: Expected) {
    this.#expected = expected
  }

  /** See `Dialect.whole`. Choices beyond those that were asked for are left out. */
  whole(answer: JsonObject, text = JSON.stringify(answer)): AnswerEvent[] {
    const error = findError(answer)
    if (error) throw toUpstreamError(null, error, this.#expected.target)
    const choices = inOrder(answer.choices)
    if (choices.length === 0) throw new UpstreamError('broken', 'answered 200 with something that is no completion')
    const out: AnswerEvent[] = []
    this.#takeOrigin(answer, out)
    for (const [index, choice] of choices.slice(0, this.#expected.choices).entries()) {
      const decoder = this.#choice(index)
      decoder.take(choice, choice.message, out)
      decoder.end(out)
    }
    this.#takeReport(answer, text, out)
    out.push({ kind: 'done' })
    return out
  }

  take(text: string, out: AnswerEvent[]): number {
    let at = 0
    while (at < text.length && !this.#isOver) {
      const said = this.#plain.read(text, at)
      if (!said || !this.#choices[said.choice]?.passes) break
      out.push(said)
      at = this.#plain.end
    }
    if (at > 0) this.#report = NO_REPORT
    return at
  }

  event({ name, data }: SseEvent, out: AnswerEvent[]): void {
    if (this.#isOver) return
    if (name === 'error') this.#fail(toBodyError(null, data, this.#expected.target), out)
    else this.#takeData(data, out)
  }

  end(out: AnswerEvent[]): void {
    if (this.#isOver) return
    // A finish reason without [DONE] is a finished answer; an end without either is a truncated one.
    const named = this.#choices.filter((choice) => choice.isNamed)
    if (named.length > 0 && named.every((choice) => choice.isFinished)) this.#finish(out)
    else this.#fail(new UpstreamError('broken', 'ended its stream in the middle of the answer'), out)
  }

  #takeData(data: string, out: AnswerEvent[]): void {
    const chunk = tryParse(data)
    if (chunk) this.#takeChunk(chunk, data, out)
    else if (isDone(data)) this.#finish(out)
    else if (!isSilence(data)) this.#takeLines(data.split('\n'), out)
  }

  /** Events that are parted by one line end instead of two arrive as one. */
  #takeLines(all: string[], out: AnswerEvent[]): void {
    const lines = all.filter((line) => !isSilence(line))
    if (lines.length > 1 && lines.every((line) => isDone(line) || tryParse(line))) {
      for (const line of lines) if (!this.#isOver) this.#takeData(line, out)
    } else this.#fail(new UpstreamError('broken', 'sent a stream event that is not JSON'), out)
  }

  #takeChunk(chunk: JsonObject, data: string, out: AnswerEvent[]): void {
    const error = findError(chunk)
    if (error) {
      this.#fail(toUpstreamError(null, error, this.#expected.target), out)
      return
    }
    const from = out.length
    this.#takeOrigin(chunk, out)
    const choices = asList(chunk.choices)
    let isPlain = choices.length === 1
    for (const [place, value] of choices.entries()) {
      const choice = asObject(value)
      const index = toIndex(choice, place)
      const isTaken = choice !== null && index < this.#expected.choices
      if (!isTaken || !this.#choice(index).take(choice, choice.delta, out)) isPlain = false
    }
    if (out.length > from) this.#report = NO_REPORT
    this.#takeReport(chunk, data, out)
    const said = out[from]
    if (isPlain && out.length === from + 1 && said?.kind === 'text') this.#plain.learn(data, said)
  }

  /** Takes what an upstream says about itself, in words that typed clients know: what was said first stays. */
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
    const nanoUsd = findCharge(answer, text, this.#expected.target.upstream.options.cost)
    if (usage === null && nanoUsd === null) return
    const report: AnswerEvent[] = []
    if (usage !== null) report.push(usage)
    if (nanoUsd !== null) report.push({ kind: 'charged', nanoUsd })
    this.#report = report
    out.push(...report)
  }

  /** The decoder of a choice; those of lower ones, which may not have begun, are made with it. */
  #choice(index: number): ChoiceDecoder {
    while (this.#choices.length <= index) {
      this.#choices.push(new ChoiceDecoder(this.#expected, this.#choices.length))
    }
    return this.#choices[index] as ChoiceDecoder
  }

  #finish(out: AnswerEvent[]): void {
    this.#isOver = true
    this.#choice(0)
    const from = out.length
    for (const choice of this.#choices) choice.end(out)
    // What was held back until now had come before the last report, which counts it.
    if (out.length > from + this.#choices.length) out.push(...this.#report)
    out.push({ kind: 'done' })
  }

  #fail(error: UpstreamError, out: AnswerEvent[]): void {
    this.#isOver = true
    out.push({ kind: 'failure', error })
  }
}

type Tier = NonNullable<AnswerOrigin['service_tier']>
const TIERS: readonly unknown[] = ['auto', 'default', 'flex', 'scale', 'priority', 'fast'] satisfies Tier[]

const isTier = (value: unknown): value is Tier => TIERS.includes(value)

/** The choices of a whole answer by their index; the place in what is returned is the one that counts. */
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

/** Reads a choice's index; its place where there is none. */
function toIndex(choice: JsonObject | null, place: number): number {
  const index = choice?.index
  return typeof index === 'number' && Number.isInteger(index) && index >= 0 ? index : place
}

/** The mark of the end, whatever stands around it. */
const isDone = (data: string) => data.trimStart().startsWith('[DONE]')

/** A keep-alive in the place of data: nothing, or a comment. */
const isSilence = (data: string) => data[0] === ':' || data.trim() === ''

function tryParse(data: string): JsonObject | null {
  const text = data[0] === '{' ? data : data.trimStart()
  if (text[0] !== '{') return null
  try {
    return asObject(parseJson(text))
  } catch {
    return null
  }
}
