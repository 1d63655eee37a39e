/** A request to classify texts and images as harmful or not. Free at providers that offer it. */
import { EndpointRequest } from './endpoint-request.ts'
import type { JsonObject } from './json.ts'

export type ModerationPart = { type: 'text'; text: string } | { type: 'image_url'; image_url: { url: string } }

export class ModerationsRequest extends EndpointRequest {
  readonly endpoint = 'moderations'
  readonly inputs: readonly string[]

  /** @param input one text, several, or parts that are classified together. */
  constructor(
    readonly model: string,
    readonly input: string | readonly string[] | readonly ModerationPart[],
    readonly extras: Readonly<JsonObject>,
  ) {
    super()
    const items: readonly (string | ModerationPart)[] = typeof input === 'string' ? [input] : input
    this.inputs = items.flatMap((item) => (typeof item === 'string' ? item : item.type === 'text' ? item.text : []))
  }

  /** Number of results to expect. */
  get count(): number {
    return typeof this.input === 'string' || typeof this.input[0] !== 'string' ? 1 : this.input.length
  }

  get hasImages(): boolean {
    return typeof this.input !== 'string' && this.input.some((item) => typeof item !== 'string' && item.type !== 'text')
  }
}
