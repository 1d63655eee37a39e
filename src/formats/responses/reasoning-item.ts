/** What a model thinks: its text as a summary where that is asked for, and sealed where it is to come back. Pure. */
import { encodeThought } from '../../upstreams/dialects/thought-state.ts'
import type { Asked } from './asked.ts'
import type { ChoiceEvent, Item, Place, Say } from './item.ts'
import type { OutputItem } from './wire.ts'

export class ReasoningItem implements Item {
  readonly #place: Place
  readonly #asked: Pick<Asked, 'wantsSummary' | 'wantsSealed'>
  #text = ''
  #unsaid = ''
  #hasBegun = false
  readonly #details: object[] = []

  constructor(place: Place, asked: Pick<Asked, 'wantsSummary' | 'wantsSealed'>) {
    this.#place = place
    this.#asked = asked
  }

  take(event: ChoiceEvent): boolean {
    if (event.kind !== 'reasoning') return false
    this.#text += event.text
    if (this.#asked.wantsSummary) this.#unsaid += event.text
    if (event.details && this.#asked.wantsSealed) this.#details.push(...event.details)
    return true
  }

  isComplete(): boolean {
    return true
  }

  toEmpty(): OutputItem {
    return { type: 'reasoning', id: this.#place.item_id, summary: [] }
  }

  toJson(): OutputItem {
    const shown = this.#asked.wantsSummary ? this.#text : ''
    const sealed = this.#asked.wantsSealed ? encodeThought({ text: this.#text, details: this.#details }, shown) : null
    return {
      type: 'reasoning',
      id: this.#place.item_id,
      summary: shown === '' ? [] : [{ type: 'summary_text', text: shown }],
      ...(sealed === null ? {} : { encrypted_content: sealed }),
    }
  }

  sayMore(say: Say): void {
    if (this.#unsaid === '') return
    const place = { ...this.#place, summary_index: 0 }
    if (!this.#hasBegun)
      say('response.reasoning_summary_part.added', { ...place, part: { type: 'summary_text', text: '' } })
    this.#hasBegun = true
    say('response.reasoning_summary_text.delta', { ...place, delta: this.#unsaid })
    this.#unsaid = ''
  }

  sayEnd(say: Say): void {
    if (!this.#hasBegun) return
    const place = { ...this.#place, summary_index: 0 }
    say('response.reasoning_summary_text.done', { ...place, text: this.#text })
    say('response.reasoning_summary_part.done', { ...place, part: { type: 'summary_text', text: this.#text } })
  }
}
