/**
 * Cuts base64 images out of server-sent events before the events are parsed. Decoding, searching, parsing, and writing many MB would delay
 * other requests.
 */

import type { RawEvent } from '../domain/events.ts'
import { Base64Pieces } from '../domain/images.ts'
import { asBuffer } from '../domain/multipart.ts'
import { toReadingMs } from './answer-stream.ts'
import type { BackendCall } from './backend.ts'
import { eventTooLong } from './framing.ts'
import { Pieces } from './pieces.ts'
import type { BodyTaker, Incoming } from './transport.ts'

const NAME = '"b64_json"'
/**
 * The text before an image. Requires five characters of base64, so that empty strings and data URLs stay. Strings that look like a mark
 * are cut, too, so that no upstream can forge one. Nothing matches within strings, since their quotes are escaped.
 */
const HEAD = /^"b64_json"[ \t]{0,20}:[ \t]{0,20}"(?=[\w+/-]{5}|#)/
/** A head that may continue in the next piece. */
const HEAD_BEGUN = /"b?6?4?_?j?s?o?n?(?:"[ \t]{0,20}:?[ \t]{0,20}(?:"[\w+/-]{0,4})?)?$/
const MAX_HEAD_BYTES = 64
/** A mark, which replaces an image: its number. */
const MARK = /(?<="b64_json"[ \t]{0,20}:[ \t]{0,20}")#\d+/g
/** The end of the base64. If the string continues, the rest stays in the event. */
const NO_BASE64 = /[^\w+/=-]/
/** Bytes read per turn. */
const TURN_BYTES = 64 * 1024
/** Memory per image in addition to its bytes. */
const PICTURE_BYTES = 1024
const NOTHING = new Uint8Array()

interface CutCall extends Pick<BackendCall, 'inTurn'> {
  readonly maxEventBytes: number
}

export class PictureCutter {
  /** Images by mark, until their event is read. */
  readonly #pictures = new Map<string, Base64Pieces>()
  #bytes = 0
  #count = 0
  /** The image being received. */
  #open: Pieces | null = null
  /** Bytes that may begin a head. */
  #held: Uint8Array = NOTHING
  #unpaced = 0

  /** A body without its images. Throws an UpstreamError if the images of unread events exceed the limit of an event. */
  of(body: Incoming, call: CutCall): Pick<Incoming, 'pump' | 'leave'> {
    return {
      leave: () => body.leave(),
      pump: async (taker) => {
        const takeBytes: BodyTaker['takeBytes'] = (bytes, from, to) => this.#take(taker, call, bytes.subarray(from, to))
        if (!(await body.pump({ takeBytes }))) return false
        const last = this.#end()
        return taker.takeBytes(last, 0, last.length)
      },
    }
  }

  /** The original data of an event. */
  restore(data: string): string {
    return this.#pictures.size === 0 ? data : data.replace(MARK, (mark) => this.take(mark)?.toString() ?? mark)
  }

  /** The same, but with a single image kept separate. */
  split(data: string): Pick<RawEvent, 'data' | 'picture'> {
    const [found, ...others] = this.#pictures.size === 0 ? [] : data.matchAll(MARK)
    const base64 = found && others.length === 0 ? this.take(found[0]) : null
    if (!found || base64 === null) return { data: this.restore(data) }
    const { 0: mark, index: at } = found
    return { data: data.slice(0, at) + data.slice(at + mark.length), picture: { at, base64 } }
  }

  /** Returns null if the text isn't a mark. */
  take(mark: string): Base64Pieces | null {
    const picture = this.#pictures.get(mark) ?? null
    this.#pictures.delete(mark)
    if (picture) this.#bytes -= picture.length + PICTURE_BYTES
    return picture
  }

  #take(taker: BodyTaker, call: CutCall, piece: Uint8Array): boolean | Promise<boolean> {
    const rest = this.#cut(piece)
    if (this.#bytes + (this.#open?.bytes ?? 0) > call.maxEventBytes) throw eventTooLong(call.maxEventBytes)
    // Also called without bytes, since any activity resets the idle timeout.
    const went = taker.takeBytes(rest, 0, rest.length)
    this.#unpaced += piece.length
    if (this.#unpaced < TURN_BYTES) return went
    const elsewhereMs = toReadingMs(this.#unpaced)
    this.#unpaced = 0
    return this.#inTurn(call, went, elsewhereMs)
  }

  async #inTurn(call: CutCall, went: boolean | Promise<boolean>, elsewhereMs: number): Promise<boolean> {
    return (await went) && call.inTurn(() => true, elsewhereMs)
  }

  /** Returns the bytes that aren't part of an image. */
  #cut(piece: Uint8Array): Buffer {
    const bytes = this.#held.length === 0 ? asBuffer(piece) : Buffer.concat([this.#held, piece])
    this.#held = NOTHING
    const rest: Buffer[] = []
    for (let at = 0; at < bytes.length; ) {
      if (this.#open !== null) {
        const end = endOf(bytes, at)
        this.#open.push(bytes.subarray(at, end))
        if (end < bytes.length) this.#close(this.#open)
        at = end
        continue
      }
      const begin = findPicture(bytes, at)
      if (begin !== -1) {
        this.#open = new Pieces()
        rest.push(bytes.subarray(at, begin), Buffer.from(`#${this.#count}`))
        at = begin
        continue
      }
      const held =
        HEAD_BEGUN.exec(bytes.toString('latin1', Math.max(at, bytes.length - MAX_HEAD_BYTES)))?.[0].length ?? 0
      rest.push(bytes.subarray(at, bytes.length - held))
      // A copy, since a view would keep the whole piece.
      this.#held = new Uint8Array(bytes.subarray(bytes.length - held))
      break
    }
    const [only] = rest
    return rest.length === 1 && only ? only : Buffer.concat(rest)
  }

  #close(picture: Pieces): void {
    this.#open = null
    this.#bytes += picture.bytes + PICTURE_BYTES
    this.#pictures.set(`#${this.#count++}`, new Base64Pieces(picture.takeAll()))
  }

  #end(): Uint8Array {
    if (this.#open) this.#close(this.#open)
    return this.#held
  }
}

/** Returns the start of the next image, or -1. */
function findPicture(bytes: Buffer, from: number): number {
  for (let name = bytes.indexOf(NAME, from); name !== -1; name = bytes.indexOf(NAME, name + 1)) {
    const head = HEAD.exec(bytes.toString('latin1', name, name + MAX_HEAD_BYTES))
    if (head) return name + head[0].length
  }
  return -1
}

function endOf(bytes: Buffer, from: number): number {
  const quote = bytes.indexOf('"', from)
  const most = quote === -1 ? bytes.length : quote
  const end = bytes.toString('latin1', from, most).search(NO_BASE64)
  return end === -1 ? most : from + end
}
