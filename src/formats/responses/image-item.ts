/** A picture that a model drew, as the result of a tool that draws. Pure. */
import { asObject, asText, type JsonObject } from '../../domain/json.ts'
import type { Item, Place } from './item.ts'
import type { OutputItem, Status } from './wire.ts'

export class ImageItem implements Item {
  readonly #place: Place
  /** In base64. */
  readonly #data: string

  constructor(place: Place, image: object) {
    this.#place = place
    const url = asText(asObject((image as JsonObject).image_url)?.url)
    this.#data = url.slice(url.indexOf(',') + 1)
  }

  take(): boolean {
    return false
  }

  isComplete(): boolean {
    return true
  }

  toEmpty(): OutputItem {
    return { type: 'image_generation_call', id: this.#place.item_id, status: 'in_progress', result: null }
  }

  toJson(status: Status): OutputItem {
    return { type: 'image_generation_call', id: this.#place.item_id, status, result: this.#data }
  }

  sayMore(): void {}

  sayEnd(): void {}
}
