/** Writes images: whole, or as server-sent events, of which the last one has the usage. */
import { resultOf } from '../../domain/endpoint-results.ts'
import type { GatewayError } from '../../domain/error.ts'
import type { AnswerEvent } from '../../domain/events.ts'
import type { Image, MadeImages } from '../../domain/images.ts'
import type { Receipt } from '../../domain/usage.ts'
import { type Identity, KEEP_ALIVE, type Writer, withCost } from '../format.ts'

const toImageFields = ({ b64, url, revisedPrompt }: Image) => ({
  ...(url === null ? {} : { url }),
  ...(b64 === null ? {} : { b64_json: b64 }),
  ...(revisedPrompt === null ? {} : { revised_prompt: revisedPrompt }),
})

/** In pieces, because an image may have 20 MB. */
export function* toImagesJson(identity: Identity, events: readonly AnswerEvent[], receipt: Receipt): Generator<string> {
  const { images: made, facts, created } = resultOf('images', events)
  yield `{"created":${created ?? identity.created},"data":[`
  for (const [at, image] of made.entries()) yield `${at === 0 ? '' : ','}${JSON.stringify(toImageFields(image))}`
  const said = Object.entries(facts).map(([name, value]) => `,${JSON.stringify(name)}:${JSON.stringify(value)}`)
  yield `]${said.join('')},"usage":${toUsageJson(receipt)}}`
}

function toUsageJson({ usage, costNanoUsd }: Receipt): string {
  const { prompt, completion, imagePrompt, imageCompletion, images: count = 0 } = usage
  const counts = {
    ...{ input_tokens: prompt, output_tokens: completion, total_tokens: prompt + completion },
    input_tokens_details: { text_tokens: Math.max(0, prompt - imagePrompt), image_tokens: imagePrompt },
    output_tokens_details: { text_tokens: Math.max(0, completion - imageCompletion), image_tokens: imageCompletion },
    images: count,
  }
  return withCost(counts, costNanoUsd)
}

/** Its last event waits for the ledger. */
export class ImagesWriter implements Writer {
  readonly keepAlive = KEEP_ALIVE
  readonly #type: string
  readonly #created: number
  #last: string | null = null

  constructor(kind: 'image_generation' | 'image_edit', { created }: Identity) {
    this.#type = `${kind}.completed`
    this.#created = created
  }

  take(events: readonly AnswerEvent[]): string {
    let frames = ''
    for (const event of events) {
      if (event.kind === 'raw') frames += toFrame(event.name, event.data)
      if (event.kind !== 'result' || event.result.of !== 'images') continue
      for (const image of event.result.images) {
        if (this.#last !== null) frames += toFrame(this.#type, `${this.#last}}`)
        this.#last = this.#toOpenJson(image, event.result)
      }
    }
    return frames
  }

  tail(receipt: Receipt): string {
    return this.#last === null ? '' : toFrame(this.#type, `${this.#last},"usage":${toUsageJson(receipt)}}`)
  }

  failure(error: GatewayError): string {
    return toFrame('error', JSON.stringify({ type: 'error', ...error.toBody() }))
  }

  /** Without its last brace. */
  #toOpenJson(image: Image, { facts, created }: MadeImages): string {
    const fields = { type: this.#type, ...toImageFields(image), created_at: created ?? this.#created, ...facts }
    return JSON.stringify(fields).slice(0, -1)
  }
}

/** JSON of several lines is as many of data. */
const toFrame = (name: string | null, json: string) =>
  `${name === null ? '' : `event: ${name}\n`}data: ${json.replaceAll('\n', '\ndata: ')}\n\n`
