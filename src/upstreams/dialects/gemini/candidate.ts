/** Reads one candidate of an answer, whole or as it comes in chunks. Pure. */
import type { AnswerEvent } from '../../../domain/events.ts'
import { asList, asObject, asText, type JsonObject } from '../../../domain/json.ts'
import type { Expected } from '../../backend.ts'
import { toSigner } from '../signer.ts'
import { Calls } from './calls.ts'
import { toCitations } from './citations.ts'
import { type Reason, toReason } from './finish.ts'
import { toLogprobs } from './logprobs.ts'
import { toDetail, toExtra } from './signatures.ts'

export class Candidate {
  readonly #index: number
  readonly #expected: Expected
  readonly #calls: Calls
  readonly #signer: string
  #reason: Reason | null = null
  /** What it has said and where it has that from, where it may have searched. */
  #said: string | null = null
  #grounding: unknown = null
  #details = 0
  #images = 0

  constructor(expected: Expected, index: number) {
    this.#index = index
    this.#expected = expected
    this.#signer = toSigner(expected.target)
    this.#calls = new Calls(expected, index)
    if (expected.body.web_search_options) this.#said = ''
  }

  get isFinished(): boolean {
    return this.#reason !== null
  }

  /** Takes a candidate of a chunk; its content, or the parts of that, may be missing. */
  take(candidate: JsonObject, out: AnswerEvent[]): void {
    const from = out.length
    for (const part of asList(asObject(candidate.content)?.parts)) this.#takePart(asObject(part) ?? {}, out)
    if (this.#expected.logprobs) this.#attach(candidate.logprobsResult, out, from)
    this.#grounding = candidate.groundingMetadata ?? this.#grounding
    const reason = asText(candidate.finishReason)
    if (reason !== '') this.#reason ??= toReason(reason)
  }

  /** Why it ended, once nothing more comes. @param blocked where the prompt was refused: nothing was written. */
  end(blocked: boolean, out: AnswerEvent[]): void {
    this.#calls.end(out)
    const items = this.#said === null ? [] : toCitations(this.#grounding, this.#said)
    if (items.length > 0) out.push({ kind: 'annotations', choice: this.#index, items })
    const reason = blocked ? 'content_filter' : this.#reason
    const called = reason === 'length' || reason === 'content_filter' ? null : this.#calls.reason
    out.push({ kind: 'finish', choice: this.#index, reason: called ?? reason ?? 'stop' })
  }

  #takePart(part: JsonObject, out: AnswerEvent[]): void {
    // What Google itself did beside functions: its signature is of nothing that clients send back.
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

  /** Log probabilities go with the first words of their chunk, or with no words at all. */
  #attach(result: unknown, out: AnswerEvent[], from: number): void {
    const logprobs = toLogprobs(result)
    if (logprobs === null) return
    const said = out.slice(from).find((event) => event.kind === 'text')
    if (said?.kind === 'text') said.logprobs = logprobs
    else out.push({ kind: 'text', choice: this.#index, text: '', logprobs })
  }
}

/** What is base64 or a name there; '' for a text that has half a character in it, and so is neither. */
function asSound(value: unknown): string {
  const text = asText(value)
  return text.isWellFormed() ? text : ''
}

/** An item of `images`, as OpenRouter's clients know it; null for bytes that are none. */
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
