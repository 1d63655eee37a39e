/**
 * The output of an answer: its events gathered into items, one after the other. In a stream one item is open at a time; what
 * comes for those behind it, as where calls come in turns, waits until it has ended. Pure.
 */
import type { AnswerEvent, FinishReason } from '../../domain/events.ts'
import type { Asked } from './asked.ts'
import { CallItem, PREFIXES } from './call-item.ts'
import { ImageItem } from './image-item.ts'
import type { ChoiceEvent, Item, Place, Say } from './item.ts'
import { MessageItem } from './message-item.ts'
import { ReasoningItem } from './reasoning-item.ts'
import type { OutputItem } from './wire.ts'

export class Output {
  /** Those that have ended. */
  readonly done: OutputItem[] = []
  /** Why it ended; null before that. */
  reason: FinishReason | null = null
  readonly #id: string
  readonly #asked: Asked
  readonly #say: Say
  readonly #items: Item[] = []
  /** Calls by their index. */
  readonly #calls = new Map<number, Item>()
  #hasBegun = false
  /** Details of thoughts that came without any: signatures of texts and calls. */
  #loose: object[] = []

  /** @param id of the request. */
  constructor(id: string, asked: Asked, say: Say) {
    this.#id = id
    this.#asked = asked
    this.#say = say
  }

  take(event: AnswerEvent): void {
    // One choice is asked for.
    if (!('choice' in event) || event.choice !== 0) return
    switch (event.kind) {
      case 'text':
      case 'refusal':
        if (event.text !== '') this.#toLast(event, (place) => new MessageItem(place, this.#asked.wantsLogprobs), 'msg')
        return
      case 'annotations':
        // Of what was said before: where that has ended, nobody waits for them any more.
        if (this.#open()?.take(event)) this.#advance()
        return
      case 'reasoning':
        this.#think(event)
        return
      case 'tool': {
        const tool = this.#asked.names.toolOf(event.name)
        this.#calls.set(
          event.index,
          this.#begin(PREFIXES[tool.type], (place) => new CallItem(place, tool, event)),
        )
        return
      }
      case 'arguments':
        this.#calls.get(event.index)?.take(event)
        this.#advance()
        return
      case 'images':
        for (const image of event.items) this.#begin('ig', (place) => new ImageItem(place, image))
        return
      case 'finish':
        this.#end(event.reason)
        return
      case 'audio':
        // The API has no place for it, and no field that asks for it.
        return
      case 'unmet':
        return
      default:
        event satisfies never
    }
  }

  #think(event: ChoiceEvent & { kind: 'reasoning' }): void {
    if (event.text !== '' || this.#open() instanceof ReasoningItem)
      this.#toLast(event, (place) => new ReasoningItem(place, this.#asked), 'rs')
    else if (this.#asked.wantsSealed) this.#loose.push(...(event.details ?? []))
  }

  /** The last item, which others may be waiting behind. */
  #open(): Item | undefined {
    return this.#items.length > this.done.length ? this.#items.at(-1) : undefined
  }

  /** Gives an event to the last item, or to a new one where that is of another kind. */
  #toLast(event: ChoiceEvent, make: (place: Place) => Item, prefix: string): void {
    if (!this.#open()?.take(event)) this.#begin(prefix, make).take(event)
    this.#advance()
  }

  #begin(prefix: string, make: (place: Place) => Item): Item {
    const output_index = this.#items.length
    const item = make({ item_id: `${prefix}_${this.#id}_${output_index}`, output_index })
    this.#items.push(item)
    this.#advance()
    return item
  }

  /** Says what can be said: all of the first item that has not ended, and of those behind it once it has. */
  #advance(): void {
    for (;;) {
      const item = this.#items[this.done.length]
      if (!item) return
      this.#sayMore(item)
      const isLast = this.done.length === this.#items.length - 1
      if (isLast || !item.isComplete()) return
      this.#sayEnd(item, 'completed')
    }
  }

  #sayMore(item: Item): void {
    if (!this.#hasBegun)
      this.#say('response.output_item.added', { output_index: this.done.length, item: item.toEmpty() })
    this.#hasBegun = true
    item.sayMore(this.#say)
  }

  #sayEnd(item: Item, status: 'completed' | 'incomplete'): void {
    item.sayEnd(this.#say)
    const json = item.toJson(status)
    this.#say('response.output_item.done', { output_index: this.done.length, item: json })
    this.done.push(json)
    this.#hasBegun = false
  }

  #end(reason: FinishReason): void {
    if (this.reason !== null) return
    this.reason = reason
    if (this.#loose.length > 0) {
      const details = this.#loose
      this.#loose = []
      this.#toLast(
        { kind: 'reasoning', choice: 0, text: '', details },
        (place) => new ReasoningItem(place, this.#asked),
        'rs',
      )
    }
    const isCut = reason === 'length' || reason === 'content_filter'
    for (let item = this.#items[this.done.length]; item; item = this.#items[this.done.length]) {
      this.#sayMore(item)
      const isLast = this.done.length === this.#items.length - 1
      this.#sayEnd(item, isCut && isLast ? 'incomplete' : 'completed')
    }
  }
}
