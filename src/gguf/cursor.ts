/**
 * Reads the values of a GGUF file one after the other, whatever stands in it: nothing is read beyond its end, and what is skipped is
 * not kept. Little-endian. Called by `header.ts`. Pure: bytes come from whoever has the file.
 */

/** The bytes of a file. */
export interface ByteSource {
  size: number
  /** As many as are asked for; they all are within `size`. */
  read(offset: number, length: number): Uint8Array
}

/** What a file has that is no whole model: a sentence's end, such as `is cut off in its header`. */
export class DamagedModel extends Error {
  override name = 'DamagedModel'
}

/** Read at a time: a header takes from some kB to some MB. */
const WINDOW_BYTES = 256 * 1024
/** A header that goes on beyond this is none. */
const MOST_BYTES = 128 * 1024 * 1024

export class Cursor {
  readonly #source: ByteSource
  readonly #end: number
  #offset = 0
  #window: DataView = new DataView(new ArrayBuffer(0))
  #windowOffset = 0

  constructor(source: ByteSource) {
    this.#source = source
    this.#end = Math.min(source.size, MOST_BYTES)
  }

  get offset(): number {
    return this.#offset
  }

  u8 = () => this.#take(1).getUint8(0)
  i8 = () => this.#take(1).getInt8(0)
  u16 = () => this.#take(2).getUint16(0, true)
  i16 = () => this.#take(2).getInt16(0, true)
  u32 = () => this.#take(4).getUint32(0, true)
  i32 = () => this.#take(4).getInt32(0, true)
  f32 = () => this.#take(4).getFloat32(0, true)
  f64 = () => this.#take(8).getFloat64(0, true)
  u64 = () => Number(this.#take(8).getBigUint64(0, true))
  i64 = () => Number(this.#take(8).getBigInt64(0, true))

  /** @param length in bytes, at most so many of which are kept. */
  text(length: number, most = length): string {
    this.require(length)
    const kept = this.#take(Math.min(length, most))
    this.skip(length - kept.byteLength)
    return new TextDecoder().decode(kept)
  }

  skip(length: number): void {
    this.require(length)
    this.#offset += length
  }

  /** Throws where fewer bytes are left. */
  require(length: number): void {
    if (length <= this.#end - this.#offset) return
    throw new DamagedModel(
      this.#end < this.#source.size
        ? 'has a header of more than 128 MB, which no model has'
        : 'is cut off in its header',
    )
  }

  #take(length: number): DataView {
    this.require(length)
    const at = this.#offset - this.#windowOffset
    if (at < 0 || at + length > this.#window.byteLength) {
      const most = Math.min(Math.max(length, WINDOW_BYTES), this.#end - this.#offset)
      const { buffer, byteOffset, byteLength } = this.#source.read(this.#offset, most)
      if (byteLength < length) throw new DamagedModel('has become shorter while it was read')
      this.#window = new DataView(buffer, byteOffset, byteLength)
      this.#windowOffset = this.#offset
    }
    const start = this.#window.byteOffset + this.#offset - this.#windowOffset
    this.#offset += length
    return new DataView(this.#window.buffer, start, length)
  }
}
