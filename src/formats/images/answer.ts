/** Writes images as one JSON object or as server-sent events. The last event has the usage. */
import { resultOf } from '../../domain/endpoint-results.ts'
import type { GatewayError } from '../../domain/error.ts'
import type { AnswerEvent, RawEvent } from '../../domain/events.ts'
import { Base64Pieces, type Image, type MadeImages } from '../../domain/images.ts'
import type { Receipt } from '../../domain/usage.ts'
import { type Identity, KEEP_ALIVE, type Piece, type Writer, withCost } from '../format.ts'

const toImageFields = ({ b64, url, revisedPrompt }: Image) => ({
  ...(url === null ? {} : { url }),
  ...(b64 === null ? {} : { b64_json: b64 }),
  ...(revisedPrompt === null ? {} : { revised_prompt: revisedPrompt }),
})

/** Writes in pieces, because an image may have 20 MB. */
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

/** Writes the last event only once the ledger has the outcome. */
export class ImagesWriter implements Writer {
  readonly keepAlive = KEEP_ALIVE
  readonly #type: string
  readonly #created: number
  /** The last image's event, without its end. */
  #last: Frame | null = null

  constructor(kind: 'image_generation' | 'image_edit', { created }: Identity) {
    this.#type = `${kind}.completed`
    this.#created = created
  }

  take(events: readonly AnswerEvent[]): Piece[] {
    const frames: Piece[] = []
    for (const event of events) {
      if (event.kind === 'raw') frames.push(...toFrame(event.name, toRawFrame(event)))
      if (event.kind !== 'result' || event.result.of !== 'images') continue
      for (const image of event.result.images) {
        if (this.#last !== null) frames.push(...toFrame(this.#type, this.#last, '}'))
        this.#last = this.#toOpenFrame(image, event.result)
      }
    }
    return frames
  }

  tail(receipt: Receipt): Piece[] {
    return this.#last === null ? [] : toFrame(this.#type, this.#last, `,"usage":${toUsageJson(receipt)}}`)
  }

  failure(error: GatewayError): string {
    return `event: error\ndata: ${JSON.stringify({ type: 'error', ...error.toBody() })}\n\n`
  }

  /** An event without the closing brace. */
  #toOpenFrame(image: Image, { facts, created }: MadeImages): Frame {
    const base64 = image.b64 instanceof Base64Pieces ? image.b64 : null
    const own = toImageFields(base64 ? { ...image, b64: null } : image)
    const json = JSON.stringify({ type: this.#type, ...own, created_at: created ?? this.#created, ...facts }).slice(
      0,
      -1,
    )
    return base64 ? { head: `${json},"b64_json":"`, base64, rest: '"' } : { head: json, base64, rest: '' }
  }
}

/** JSON in two parts, with an image's base64 between them. */
interface Frame {
  head: string
  base64: Base64Pieces | null
  rest: string
}

const toRawFrame = ({ data, picture }: RawEvent): Frame =>
  picture
    ? { head: data.slice(0, picture.at), base64: picture.base64, rest: data.slice(picture.at) }
    : { head: data, base64: null, rest: '' }

function toFrame(name: string | null, { head, base64, rest }: Frame, end = ''): Piece[] {
  const begin = `${name === null ? '' : `event: ${name}\n`}data: ${toLines(head)}`
  const ending = `${toLines(rest)}${end}\n\n`
  return base64 ? [begin, ...base64.pieces, ending] : [begin + ending]
}

/** Each line of the JSON becomes a line of `data:`. */
const toLines = (json: string) => json.replaceAll('\n', '\ndata: ')
