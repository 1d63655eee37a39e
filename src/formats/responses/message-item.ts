/** What a model says to whoever asked: texts, and refusals. Pure. */
import type { Logprob as KnownLogprob, TokenLogprob as KnownTokenLogprob } from '../../domain/events.ts'
import { asObject, type JsonObject } from '../../domain/json.ts'
import type { ChoiceEvent, Item, Place, Say } from './item.ts'
import type { OutputItem, RefusalPart, Status, TextPart, TokenLogprob } from './wire.ts'

type Part = TextPart | RefusalPart

/** What of a part was not said yet. */
interface Unsaid {
  index: number
  text: string
  logprobs: TokenLogprob[]
  annotations: object[]
}

export class MessageItem implements Item {
  readonly #place: Place
  readonly #wantsLogprobs: boolean
  readonly #parts: Part[] = []
  #unsaid: Unsaid[] = []
  /** So many parts have begun in the stream, and so many annotations of the last of them were told. */
  #begun = 0
  #annotated = 0

  constructor(place: Place, wantsLogprobs: boolean) {
    this.#place = place
    this.#wantsLogprobs = wantsLogprobs
  }

  take(event: ChoiceEvent): boolean {
    if (event.kind === 'text') {
      const logprobs = this.#wantsLogprobs ? (event.logprobs?.content ?? []).map(toLogprob) : []
      const part = this.#textPart()
      part.text += event.text
      part.logprobs.push(...logprobs)
      this.#keep(event.text, logprobs, [])
      return true
    }
    if (event.kind === 'refusal') {
      this.#refusalPart().refusal += event.text
      this.#keep(event.text, [], [])
      return true
    }
    if (event.kind !== 'annotations') return false
    const annotations = event.items.flatMap((item) => toAnnotation(item) ?? [])
    this.#textPart().annotations.push(...annotations)
    this.#keep('', [], annotations)
    return true
  }

  isComplete(): boolean {
    return true
  }

  toEmpty(): OutputItem {
    return { type: 'message', id: this.#place.item_id, status: 'in_progress', role: 'assistant', content: [] }
  }

  toJson(status: Status): OutputItem {
    return { type: 'message', id: this.#place.item_id, status, role: 'assistant', content: this.#parts }
  }

  sayMore(say: Say): void {
    for (const { index, text, logprobs, annotations } of this.#unsaid) {
      const part = this.#parts[index]
      if (!part) continue
      if (index >= this.#begun) this.#begin(part, say)
      const place = { ...this.#place, content_index: index }
      if (part.type === 'refusal') say('response.refusal.delta', { ...place, delta: text })
      else if (text !== '') say('response.output_text.delta', { ...place, delta: text, logprobs })
      for (const annotation of annotations)
        say('response.output_text.annotation.added', { ...place, annotation_index: this.#annotated++, annotation })
    }
    this.#unsaid = []
  }

  sayEnd(say: Say): void {
    const content_index = this.#begun - 1
    const part = this.#parts[content_index]
    if (!part) return
    const place = { ...this.#place, content_index }
    if (part.type === 'refusal') say('response.refusal.done', { ...place, refusal: part.refusal })
    else say('response.output_text.done', { ...place, text: part.text, logprobs: part.logprobs })
    say('response.content_part.done', { ...place, part })
  }

  #begin(part: Part, say: Say): void {
    this.sayEnd(say)
    const empty = part.type === 'refusal' ? toRefusalPart() : toTextPart()
    say('response.content_part.added', { ...this.#place, content_index: this.#begun, part: empty })
    this.#begun += 1
    this.#annotated = 0
  }

  #textPart(): TextPart {
    const last = this.#parts.at(-1)
    if (last?.type === 'output_text') return last
    const part = toTextPart()
    this.#parts.push(part)
    return part
  }

  #refusalPart(): RefusalPart {
    const last = this.#parts.at(-1)
    if (last?.type === 'refusal') return last
    const part = toRefusalPart()
    this.#parts.push(part)
    return part
  }

  #keep(text: string, logprobs: readonly TokenLogprob[], annotations: readonly object[]): void {
    const index = this.#parts.length - 1
    const last = this.#unsaid.at(-1)
    const into = last?.index === index ? last : { index, text: '', logprobs: [], annotations: [] }
    if (into !== last) this.#unsaid.push(into)
    into.text += text
    into.logprobs.push(...logprobs)
    into.annotations.push(...annotations)
  }
}

const toTextPart = (): TextPart => ({ type: 'output_text', text: '', annotations: [], logprobs: [] })
const toRefusalPart = (): RefusalPart => ({ type: 'refusal', refusal: '' })

const toOne = ({ token, logprob, bytes }: KnownLogprob) => ({ token, logprob, bytes: bytes ?? [] })
const toLogprob = ({ top_logprobs, ...one }: KnownTokenLogprob): TokenLogprob => ({
  ...toOne(one),
  top_logprobs: top_logprobs.map(toOne),
})

/** Citations of addresses alone have a form here that does not name a file of the provider's. */
function toAnnotation(item: object): object | null {
  const { type, url_citation: cited } = item as JsonObject
  const citation = asObject(cited)
  if (type !== 'url_citation' || citation === null) return null
  const { url = '', title = '', start_index = 0, end_index = 0 } = citation
  return { type, url, title, start_index, end_index }
}
