/** Passthrough of legacy completions: the request, and usage and text of its response, whole or streamed. */
import { UpstreamError } from '../../../domain/error.ts'
import type { AnswerEvent } from '../../../domain/events.ts'
import { asList, asObject, asText, type JsonObject } from '../../../domain/json.ts'
import type { PassthroughRequest } from '../../../domain/task.ts'
import { toMode } from '../../../domain/usage.ts'
import { toQuery } from '../../auth.ts'
import type { SseEvent } from '../../framing.ts'
import type { PassthroughFormat } from '../dialect.ts'
import { JsonDecoder } from '../json-decoder.ts'
import { toCapEdit, toOwnFields, toPassthroughReaders, toPassthroughText } from '../passthrough.ts'
import { openAiErrors } from './errors.ts'
import { toBetaHeaders } from './responses.ts'
import { findCharge, toUsageEvent } from './usage.ts'

const OF_COMPLETIONS = toOwnFields(
  'model prompt suffix max_tokens n stream stream_options temperature top_p logprobs echo stop presence_penalty frequency_penalty logit_bias seed user',
)

export const completions: PassthroughFormat = {
  request(passthrough, body, target) {
    const { options } = target.upstream
    // Always requested: a stream without usage could only be billed by an estimate.
    const asked = JSON.stringify({ ...asObject(passthrough.json.stream_options), include_usage: true })
    const isAsked = body.stream && options.stream_options !== false
    return {
      path: `/completions${toQuery(options)}`,
      body: toPassthroughText(passthrough, target, OF_COMPLETIONS, {
        ...(isAsked && !wantsUsage(passthrough) ? { stream_options: asked } : {}),
        ...toCapEdit(passthrough, body, 'max_tokens'),
      }),
      headers: toBetaHeaders(passthrough),
    }
  },

  ...toPassthroughReaders(
    (expected) => new CompletionDecoder(expected),
    (inner, expected) => {
      const isWanted = expected.body.stream_options?.include_usage === true
      return () => {
        // The client may not understand what it didn't request.
        if (inner.isUsageAlone && !isWanted) return null
        return { origin: inner.isOver ? null : '', isTail: inner.isFinished }
      }
    },
  ),
}

const wantsUsage = ({ json }: PassthroughRequest) => asObject(json.stream_options)?.include_usage === true

class CompletionDecoder extends JsonDecoder {
  protected readonly errors = openAiErrors
  isUsageAlone = false
  readonly #finished = new Set<number>()

  get isFinished(): boolean {
    return this.isOver || this.#finished.size >= this.expected.choices
  }

  protected override takeWhole(answer: JsonObject, text: string, out: AnswerEvent[]): void {
    if (asList(answer.choices).length === 0)
      throw new UpstreamError('broken', 'returned 200 with an invalid completion')
    this.#take(answer, text, out)
    for (let choice = 0; choice < this.expected.choices; choice++) this.#end(choice, null, out)
    out.push({ kind: 'done' })
  }

  override event(event: SseEvent, out: AnswerEvent[]): void {
    this.isUsageAlone = false
    super.event(event, out)
  }

  override end(out: AnswerEvent[]): void {
    if (this.isFinished && !this.isOver) this.#finish(out)
    else super.end(out)
  }

  protected override takeJson(chunk: JsonObject, _name: string | null, data: string, out: AnswerEvent[]): void {
    this.#take(chunk, data, out)
  }

  protected override takeText(data: string, out: AnswerEvent[]): void {
    if (data.trim() === '[DONE]') this.#finish(out)
    else super.takeText(data, out)
  }

  #take(chunk: JsonObject, text: string, out: AnswerEvent[]): void {
    const choices = asList(chunk.choices)
    this.isUsageAlone = choices.length === 0 && Boolean(chunk.usage)
    const mode = chunk.service_tier ? toMode(chunk.service_tier) : null
    if (mode !== null) out.push({ kind: 'mode', mode })
    for (const [place, value] of choices.entries()) {
      const choice = asObject(value) ?? {}
      const index = typeof choice.index === 'number' ? choice.index : place
      // Unrequested choices weren't reserved. They are forwarded and charged as reported.
      if (!Number.isInteger(index) || index < 0 || index >= this.expected.choices) continue
      const said = asText(choice.text).toWellFormed()
      if (said !== '') out.push({ kind: 'text', choice: index, text: said })
      if (choice.finish_reason) this.#end(index, choice.finish_reason, out)
    }
    const usage = toUsageEvent(chunk)
    if (usage) out.push(usage)
    const nanoUsd = findCharge(chunk, text, this.expected.target.upstream.options.cost)
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

  #finish(out: AnswerEvent[]): void {
    this.isOver = true
    for (let choice = 0; choice < this.expected.choices; choice++) this.#end(choice, null, out)
    out.push({ kind: 'done' })
  }
}
