/** A message item: texts and refusals. */
import type { Logprob as KnownLogprob, TokenLogprob as KnownTokenLogprob } from '../../domain/events.ts'
import { asObject, type JsonObject, toLine } from '../../domain/json.ts'
import type {
  ChoiceEvent,
  Item,
  ItemPosition,
  OutputItem,
  RefusalPart,
  Say,
  Status,
  TextPart,
  TokenLogprob,
} from './items.ts'

type Part = TextPart | RefusalPart

interface Unsaid {
  index: number
  text: string
  /** The text as a single-line JSON string, if known. */
  json: string | undefined
  logprobs: readonly TokenLogprob[]
  annotations: readonly object[]
}

const NONE: readonly never[] = []

export class MessageItem implements Item {
  readonly #parts: Part[] = []
  #unsaid: Unsaid[] = []
  /** Number of parts begun in the stream, and of written annotations of the last one. */
  #begun = 0
  #annotated = 0
  #head = ''
  #headIndex = -1

  constructor(
    private readonly place: ItemPosition,
    private readonly wantsLogprobs: boolean,
  ) {}

  take(event: ChoiceEvent): boolean {
    if (event.kind === 'text') {
      const logprobs = this.wantsLogprobs ? (event.logprobs?.content ?? NONE).map(toLogprob) : NONE
      const part = this.#textPart()
      part.text += event.text
      part.logprobs.push(...logprobs)
      this.#keep({ text: event.text, json: event.json, logprobs, annotations: NONE })
      return true
    }
    if (event.kind === 'refusal') {
      this.#refusalPart().refusal += event.text
      this.#keep({ text: event.text, json: undefined, logprobs: NONE, annotations: NONE })
      return true
    }
    if (event.kind !== 'annotations') return false
    const annotations = event.items.flatMap((item) => toAnnotation(item) ?? [])
    this.#textPart().annotations.push(...annotations)
    this.#keep({ text: '', json: undefined, logprobs: NONE, annotations })
    return true
  }

  isComplete(): boolean {
    return true
  }

  toEmpty(): OutputItem {
    return { type: 'message', id: this.place.item_id, status: 'in_progress', role: 'assistant', content: [] }
  }

  toJson(status: Status): OutputItem {
    return { type: 'message', id: this.place.item_id, status, role: 'assistant', content: this.#parts }
  }

  sayMore(say: Say): void {
    for (const { index, text, json, logprobs, annotations } of this.#unsaid) {
      const part = this.#parts[index]
      if (!part) continue
      if (index >= this.#begun) this.#begin(part, say)
      const head = this.#toHead(index)
      const delta = `${head}"delta":${json ?? toLine(text)}`
      if (part.type === 'refusal') say('response.refusal.delta', `${delta}}`)
      else if (text !== '') {
        const known = logprobs.length === 0 ? '[]' : toLine(logprobs)
        say('response.output_text.delta', `${delta},"logprobs":${known}}`)
      }
      for (const annotation of annotations) {
        const told = { annotation_index: this.#annotated++, annotation }
        say('response.output_text.annotation.added', head + toLine(told).slice(1))
      }
    }
    this.#unsaid = []
  }

  sayEnd(say: Say): void {
    const content_index = this.#begun - 1
    const part = this.#parts[content_index]
    if (!part) return
    const place = { ...this.place, content_index }
    if (part.type === 'refusal') say('response.refusal.done', { ...place, refusal: part.refusal })
    else say('response.output_text.done', { ...place, text: part.text, logprobs: part.logprobs })
    say('response.content_part.done', { ...place, part })
  }

  #toHead(index: number): string {
    if (index !== this.#headIndex) this.#head = `${toLine({ ...this.place, content_index: index }).slice(1, -1)},`
    this.#headIndex = index
    return this.#head
  }

  #begin(part: Part, say: Say): void {
    this.sayEnd(say)
    const empty = part.type === 'refusal' ? toRefusalPart() : toTextPart()
    say('response.content_part.added', { ...this.place, content_index: this.#begun, part: empty })
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

  #keep(said: Omit<Unsaid, 'index'>): void {
    const index = this.#parts.length - 1
    const last = this.#unsaid.at(-1)
    const isText = said.logprobs.length === 0 && said.annotations.length === 0
    if (last?.index !== index || !isText || last.logprobs.length > 0 || last.annotations.length > 0) {
      this.#unsaid.push({ index, ...said })
      return
    }
    last.text += said.text
    last.json = undefined
  }
}

const toTextPart = (): TextPart => ({ type: 'output_text', text: '', annotations: [], logprobs: [] })
const toRefusalPart = (): RefusalPart => ({ type: 'refusal', refusal: '' })

const toOne = ({ token, logprob, bytes }: KnownLogprob) => ({ token, logprob, bytes: bytes ?? [] })
const toLogprob = ({ top_logprobs, ...one }: KnownTokenLogprob): TokenLogprob => ({
  ...toOne(one),
  top_logprobs: top_logprobs.map(toOne),
})

/** Only URL citations can be expressed without a provider's file ID. */
function toAnnotation(item: object): object | null {
  const { type, url_citation: cited } = item as JsonObject
  const citation = asObject(cited)
  if (type !== 'url_citation' || citation === null) return null
  const { url = '', title = '', start_index = 0, end_index = 0 } = citation
  return { type, url, title, start_index, end_index }
}
