/** Reads images from server-sent events. Partial images are forwarded unchanged, and completed ones are decoded. */
import { UpstreamError } from '../../../domain/error.ts'
import type { AnswerEvent } from '../../../domain/events.ts'
import type { Base64Pieces, ImagesRequest } from '../../../domain/images.ts'
import { asObject, asText, type JsonObject, tryJson } from '../../../domain/json.ts'
import type { Target } from '../../../domain/snapshot.ts'
import { addUsage, NO_USAGE, type Usage } from '../../../domain/usage.ts'
import type { SseEvent } from '../../framing.ts'
import type { PictureCutter } from '../../pictures.ts'
import type { Decoder } from '../dialect.ts'
import { estimateTokens, toFacts, toImage, toModeEvent, toUsage } from '../images.ts'
import { openAiErrors } from './errors.ts'
import { findCharge, findUsage } from './usage.ts'

const PARTIAL = '.partial_image'
const COMPLETED = '.completed'

export class ImageDecoder implements Decoder {
  readonly #asked: ImagesRequest
  readonly #target: Target
  readonly #pictures: PictureCutter
  #partials = 0
  #completed = 0
  #usage: Usage | null = null
  #facts: Record<string, string> = {}
  #nanoUsd: number | null = null
  #isDone = false

  /** @param pictures images cut out of the events. */
  constructor(asked: ImagesRequest, target: Target, pictures: PictureCutter) {
    this.#asked = asked
    this.#target = target
    this.#pictures = pictures
  }

  take(): number {
    return 0
  }

  event({ name, data }: SseEvent, out: AnswerEvent[]): void {
    if (this.#isDone) return
    if (data === '[DONE]') {
      this.end(out)
      return
    }
    // Not parsed, since the field of its image may have another name.
    if (name?.endsWith(PARTIAL)) {
      this.#pass(name, data, out)
      return
    }
    const json = asObject(tryJson(data))
    if (json === null) throw new UpstreamError('broken', 'sent an event that is not JSON')
    const type = asText(json.type) || name || ''
    const error = type.startsWith('image') ? null : openAiErrors.find(json)
    if (error) {
      this.#isDone = true
      out.push({ kind: 'failure', error: openAiErrors.read(null, error, this.#target) })
    } else if (type.endsWith(COMPLETED)) this.#complete(json, data, out)
    else if (type.endsWith(PARTIAL)) this.#pass(type, data, out)
    else out.push(this.#toRaw(type || null, data, false))
  }

  end(out: AnswerEvent[]): void {
    if (this.#isDone) return
    this.#isDone = true
    const error = new UpstreamError('broken', 'ended its stream before the image was complete')
    out.push(this.#completed > 0 ? { kind: 'done' } : { kind: 'failure', error })
  }

  #toBase64(json: JsonObject, data: string): string | Base64Pieces | null {
    const cut = this.#pictures.take(asText(json.b64_json))
    if (cut) return cut
    const whole = this.#pictures.restore(data)
    return asText(whole === data ? json.b64_json : asObject(tryJson(whole))?.b64_json) || null
  }

  /** An event with an image counts as content. */
  #toRaw(name: string | null, data: string, isContent: boolean): AnswerEvent {
    const own = this.#pictures.split(data)
    const isImage = isContent || own.picture !== undefined || own.data.length > data.length
    return { kind: 'raw', name, ...own, origin: null, isContent: isImage, isTail: false }
  }

  #pass(name: string, data: string, out: AnswerEvent[]): void {
    this.#partials += 1
    out.push(this.#toRaw(name, data, true))
    if (this.#usage !== null) return
    // If the stream ends here, the image in progress is charged.
    const begun = this.#completed + 1
    const estimated = estimateTokens(this.#asked, this.#target, this.#facts, begun, this.#partials)
    out.push({ kind: 'usage', usage: toUsage(null, estimated, begun) }, toModeEvent(this.#asked, this.#facts))
  }

  /** With several images, each has its own usage. */
  #complete(json: JsonObject, data: string, out: AnswerEvent[]): void {
    const image = toImage(this.#toBase64(json, data), asText(json.url) || null)
    this.#completed += 1
    this.#facts = { ...this.#facts, ...toFacts(json) }
    const created = Number.isSafeInteger(json.created_at) ? Number(json.created_at) : null
    out.push({ kind: 'result', result: { of: 'images', images: [image], facts: this.#facts, created } })
    const said = findUsage(json)
    if (said) {
      this.#usage ??= { ...NO_USAGE }
      addUsage(this.#usage, said)
    }
    const estimated = estimateTokens(this.#asked, this.#target, this.#facts, this.#completed, this.#partials)
    out.push({ kind: 'usage', usage: toUsage(this.#usage, estimated, this.#completed) })
    out.push(toModeEvent(this.#asked, this.#facts))
    const nanoUsd = findCharge(json, data, this.#target.upstream.options.cost)
    if (nanoUsd !== null) {
      this.#nanoUsd = (this.#nanoUsd ?? 0) + nanoUsd
      out.push({ kind: 'charged', nanoUsd: this.#nanoUsd })
    }
    if (this.#completed < this.#asked.asked.count) return
    this.#isDone = true
    out.push({ kind: 'done' })
  }
}
