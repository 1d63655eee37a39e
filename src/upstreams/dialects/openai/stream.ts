/** Decodes a stream of the OpenAI format into events: what is a chunk, an error, an end, and what is none of them. Pure. */
import { UpstreamError } from '../../../domain/error.ts'
import type { AnswerEvent, Origin } from '../../../domain/events.ts'
import { asList, asObject, type JsonObject, parseJson } from '../../../domain/json.ts'
import type { Decoder, Expected } from '../../backend.ts'
import type { SseEvent } from '../../sse.ts'
import { ChoiceDecoder } from './choice.ts'
import { toIndex } from './choices.ts'
import { findError, toBodyError, toUpstreamError } from './error.ts'
import { isFinish } from './finish.ts'
import { toLogprobs } from './logprobs.ts'
import { addOrigin } from './origin.ts'
import { PlainChunks } from './plain-chunks.ts'
import { toPlainText } from './texts.ts'
import { findUsage } from './usage.ts'

export class StreamDecoder implements Decoder {
  readonly #expected: Expected
  readonly #choices: ChoiceDecoder[] = []
  readonly #plain = new PlainChunks()
  #origin: Origin = {}
  #isOver = false

  constructor(expected: Expected) {
    this.#expected = expected
  }

  take(text: string, out: AnswerEvent[]): number {
    let at = 0
    while (at < text.length && !this.#isOver) {
      const said = this.#plain.read(text, at)
      if (!said || !this.#choices[said.choice]?.passesAll) break
      out.push(said)
      at = this.#plain.end
    }
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
    const origin = addOrigin(this.#origin, chunk)
    if (origin !== this.#origin) out.push({ kind: 'origin', origin })
    this.#origin = origin
    const choices = asList(chunk.choices)
    let isPlain = choices.length === 1
    choices.forEach((choice, place) => {
      isPlain = this.#takeChoice(choice, place, out) && isPlain
    })
    const usage = findUsage(chunk)
    if (usage) out.push({ kind: 'usage', usage })
    const [said] = out.slice(from)
    if (isPlain && out.length === from + 1 && said?.kind === 'text') this.#plain.learn(data, said)
  }

  /** Returns whether it was a piece of content, which went out as it came, and nothing else. */
  #takeChoice(value: unknown, place: number, out: AnswerEvent[]): boolean {
    const choice = asObject(value)
    const index = toIndex(choice?.index, place)
    if (!choice || index >= this.#expected.choices) return false
    const decoder = this.#choice(index)
    decoder.isNamed = true
    const { delta, finish_reason: reason } = choice
    const logprobs = this.#expected.logprobs ? toLogprobs(choice.logprobs) : null
    const content = logprobs ? null : toPlainText(delta)
    if (content === null || (content !== '' && !decoder.passes(content))) {
      decoder.take(delta, logprobs, out)
    } else if (content !== '') out.push({ kind: 'text', choice: index, text: content })
    decoder.finish(reason)
    return content !== null && content !== '' && !isFinish(reason)
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
    for (const choice of this.#choices) choice.end(out)
    out.push({ kind: 'done' })
  }

  #fail(error: UpstreamError, out: AnswerEvent[]): void {
    this.#isOver = true
    out.push({ kind: 'failure', error })
  }
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
