/** Reads an answer of legacy completions for what it used and what was said, whole or streamed: it passes as it came. Pure. */
import { UpstreamError } from '../../../domain/error.ts'
import type { AnswerEvent } from '../../../domain/events.ts'
import { asList, asObject, asText, type JsonObject, parseJson } from '../../../domain/json.ts'
import { toMode } from '../../../domain/mode.ts'
import type { Decoder, Expected } from '../../backend.ts'
import type { SseEvent } from '../../sse.ts'
import { findError, toBodyError, toUpstreamError } from './error.ts'
import { findCharge, toUsageEvent } from './usage.ts'

export class CompletionDecoder implements Pick<Decoder, 'event' | 'end'> {
  /** Whether the chunk that was read last tells usage and nothing else. */
  isUsageAlone = false
  isOver = false
  readonly #expected: Expected
  readonly #finished = new Set<number>()

  constructor(expected: Expected) {
    this.#expected = expected
  }

  /** Whether every choice has ended. */
  get isFinished(): boolean {
    return this.isOver || this.#finished.size >= this.#expected.choices
  }

  /** Reads a whole answer, up to `done`. Throws an UpstreamError where it is none. */
  whole(answer: JsonObject, text: string): AnswerEvent[] {
    const error = findError(answer)
    if (error) throw toUpstreamError(null, error, this.#expected.target)
    if (asList(answer.choices).length === 0)
      throw new UpstreamError('broken', 'answered 200 with something that is no completion')
    const out: AnswerEvent[] = []
    this.#take(answer, text, out)
    for (let choice = 0; choice < this.#expected.choices; choice++) this.#end(choice, null, out)
    out.push({ kind: 'done' })
    return out
  }

  event({ name, data }: SseEvent, out: AnswerEvent[]): void {
    if (this.isOver || data.trim() === '') return
    this.isUsageAlone = false
    if (data.trim() === '[DONE]') {
      this.#finish(out)
      return
    }
    let chunk: JsonObject | null = null
    try {
      chunk = asObject(parseJson(data))
    } catch {}
    const { target } = this.#expected
    if (name === 'error') this.#fail(toBodyError(null, data, target), out)
    else if (chunk === null) this.#fail(new UpstreamError('broken', 'sent a stream event that is not JSON'), out)
    else {
      const error = findError(chunk)
      if (error) this.#fail(toUpstreamError(null, error, target), out)
      else this.#take(chunk, data, out)
    }
  }

  end(out: AnswerEvent[]): void {
    if (this.isOver) return
    if (this.isFinished) this.#finish(out)
    else this.#fail(new UpstreamError('broken', 'ended its stream in the middle of the answer'), out)
  }

  #take(chunk: JsonObject, text: string, out: AnswerEvent[]): void {
    const choices = asList(chunk.choices)
    this.isUsageAlone = choices.length === 0 && Boolean(chunk.usage)
    const mode = chunk.service_tier ? toMode(chunk.service_tier) : null
    if (mode !== null) out.push({ kind: 'mode', mode })
    for (const [place, value] of choices.entries()) {
      const choice = asObject(value) ?? {}
      const index = typeof choice.index === 'number' ? choice.index : place
      // What was not asked for was not reserved; it is passed on, and charged by what is reported.
      if (!Number.isInteger(index) || index < 0 || index >= this.#expected.choices) continue
      const said = asText(choice.text).toWellFormed()
      if (said !== '') out.push({ kind: 'text', choice: index, text: said })
      if (choice.finish_reason) this.#end(index, choice.finish_reason, out)
    }
    const usage = toUsageEvent(chunk)
    if (usage) out.push(usage)
    const nanoUsd = findCharge(chunk, text, this.#expected.target.upstream.options.cost)
    if (nanoUsd !== null) out.push({ kind: 'charged', nanoUsd })
  }

  #end(choice: number, reason: unknown, out: AnswerEvent[]): void {
    if (this.#finished.has(choice)) return
    this.#finished.add(choice)
    const isFiltered = reason === 'content_filter'
    out.push({
      kind: 'finish',
      choice,
      reason: reason === 'length' ? 'length' : isFiltered ? 'content_filter' : 'stop',
    })
  }

  /** Its upstream's word is enough. */
  #finish(out: AnswerEvent[]): void {
    this.isOver = true
    for (let choice = 0; choice < this.#expected.choices; choice++) this.#end(choice, null, out)
    out.push({ kind: 'done' })
  }

  #fail(error: UpstreamError, out: AnswerEvent[]): void {
    this.isOver = true
    out.push({ kind: 'failure', error })
  }
}
