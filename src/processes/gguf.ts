/**
 * Reads the header of an untrusted GGUF file, version 2 or 3
 * (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). Counts are checked against the file size. Only short
 * lists of numbers are kept.
 */

export interface ByteSource {
  size: number
  /** The range is within `size`. */
  read(offset: number, length: number): Uint8Array
}

/** Completes a sentence that begins with the path, such as `is truncated`. */
export class DamagedModel extends Error {
  override name = 'DamagedModel'
}

/** Headers have from some kB to some MB. */
const WINDOW_BYTES = 256 * 1024
const MAX_BYTES = 128 * 1024 * 1024

class Cursor {
  readonly #source: ByteSource
  readonly #end: number
  #offset = 0
  #window: DataView = new DataView(new ArrayBuffer(0))
  #windowOffset = 0

  constructor(source: ByteSource) {
    this.#source = source
    this.#end = Math.min(source.size, MAX_BYTES)
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

  /** @param length bytes. @param most bytes to keep. */
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

  /** @throws if fewer bytes are left. */
  require(length: number): void {
    if (length <= this.#end - this.#offset) return
    throw new DamagedModel(
      this.#end < this.#source.size ? 'has a header over 128 MB, which is not plausible' : 'is truncated in its header',
    )
  }

  #take(length: number): DataView {
    this.require(length)
    const at = this.#offset - this.#windowOffset
    if (at < 0 || at + length > this.#window.byteLength) {
      const most = Math.min(Math.max(length, WINDOW_BYTES), this.#end - this.#offset)
      const { buffer, byteOffset, byteLength } = this.#source.read(this.#offset, most)
      if (byteLength < length) throw new DamagedModel('became shorter while being read')
      this.#window = new DataView(buffer, byteOffset, byteLength)
      this.#windowOffset = this.#offset
    }
    const start = this.#window.byteOffset + this.#offset - this.#windowOffset
    this.#offset += length
    return new DataView(this.#window.buffer, start, length)
  }
}

interface GgufList {
  length: number
  /** Null for other types and for too many. */
  numbers: number[] | null
}

type GgufValue = number | boolean | string | GgufList

export interface GgufHeader {
  version: number
  values: ReadonlyMap<string, GgufValue>
  tensors: number
}

const MAX_KEYS = 100_000
const MAX_TENSORS = 1_000_000
/** Bytes; chat templates have some kB. */
const MAX_TEXT = 1_000_000
const MAX_NUMBERS = 10_000
const MAX_NESTED = 4
const MAX_DIMENSIONS = 8

/** @throws a DamagedModel. */
export function readHeader(source: ByteSource): GgufHeader {
  requireMagic(source)
  const cursor = new Cursor(source)
  cursor.skip(4)
  const version = cursor.u32()
  requireVersion(version)
  const [tensors, keys] = [cursor.u64(), cursor.u64()]
  if (keys > MAX_KEYS || tensors > MAX_TENSORS)
    throw new DamagedModel(`is damaged: its header claims ${keys} keys and ${tensors} tensors`)
  const values = new Map<string, GgufValue>()
  for (let n = 0; n < keys; n++) {
    const name = cursor.text(cursor.u64(), MAX_TEXT)
    values.set(name, readValue(cursor, cursor.u32(), 0))
  }
  const last = readLastOffset(cursor, tensors) + toAligned(cursor.offset, values.get('general.alignment'))
  // The last tensor isn't empty.
  if (last >= source.size && tensors > 0)
    throw new DamagedModel(
      `is truncated: it has ${source.size} bytes, but its tensors extend past ${last}. Download it again`,
    )
  return { version, values, tensors }
}

const READERS: ((cursor: Cursor) => number | boolean | string)[] = [
  ...[(c: Cursor) => c.u8(), (c: Cursor) => c.i8(), (c: Cursor) => c.u16(), (c: Cursor) => c.i16()],
  ...[(c: Cursor) => c.u32(), (c: Cursor) => c.i32(), (c: Cursor) => c.f32(), (c: Cursor) => c.u8() !== 0],
  (c) => c.text(c.u64(), MAX_TEXT),
]
const LIST = 9
const WIDE: Record<number, (cursor: Cursor) => number> = { 10: (c) => c.u64(), 11: (c) => c.i64(), 12: (c) => c.f64() }
const TEXT = 8
/** Bytes of each type; 0 for types with a length prefix. */
const SIZES = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8]

function readValue(cursor: Cursor, type: number, depth: number): GgufValue {
  if (type === LIST) return readList(cursor, depth)
  const read = READERS[type] ?? WIDE[type]
  if (!read) throw new DamagedModel(`is damaged: its header has a value of unknown type ${type}`)
  return read(cursor)
}

function readList(cursor: Cursor, depth: number): GgufList {
  const [type, length] = [cursor.u32(), cursor.u64()]
  const size = SIZES[type]
  if (size === undefined || depth > MAX_NESTED) throw new DamagedModel('is damaged: its header has an invalid list')
  // Strings and lists take at least eight bytes, for their length.
  cursor.require(length * (size || 8))
  if (type === TEXT || type === LIST) {
    for (let n = 0; n < length; n++)
      if (type === TEXT) cursor.skip(cursor.u64())
      else readList(cursor, depth + 1)
    return { length, numbers: null }
  }
  if (length > MAX_NUMBERS) {
    cursor.skip(length * size)
    return { length, numbers: null }
  }
  return { length, numbers: Array.from({ length }, () => Number(readValue(cursor, type, depth))) }
}

const ALIGNMENT = 32

function toAligned(offset: number, said: GgufValue | undefined): number {
  const alignment = typeof said === 'number' && said >= 1 ? said : ALIGNMENT
  return Math.ceil(offset / alignment) * alignment
}

/** Offset of the last tensor, in bytes after the header. */
function readLastOffset(cursor: Cursor, tensors: number): number {
  let last = 0
  for (let n = 0; n < tensors; n++) {
    cursor.skip(cursor.u64())
    const dimensions = cursor.u32()
    if (dimensions > MAX_DIMENSIONS)
      throw new DamagedModel(`is damaged: one of its tensors has ${dimensions} dimensions`)
    // Dimensions, then the type.
    cursor.skip(dimensions * 8 + 4)
    last = Math.max(last, cursor.u64())
  }
  return last
}

function requireMagic(source: ByteSource): void {
  const head = new TextDecoder('latin1').decode(source.read(0, Math.min(source.size, 64)))
  if (head.startsWith('GGUF')) return
  if (source.size === 0) throw new DamagedModel('is empty. Download it again')
  if (head.startsWith('version https://git-lfs'))
    throw new DamagedModel('is a Git LFS pointer, not the model; run `git lfs pull` in its repository')
  if (/^\s*<(!doctype|html)/i.test(head))
    throw new DamagedModel('is a web page. Download the file itself; on Hugging Face, its URL contains /resolve/')
  if (/^(GGML|lmgg|ggjt|tjgg)/.test(head))
    throw new DamagedModel('is in a format older than GGUF, which engines no longer read')
  throw new DamagedModel('is not a GGUF file')
}

function requireVersion(version: number): void {
  if (version === 2 || version === 3) return
  if (version !== 0 && (version & 0xffff) === 0) throw new DamagedModel('is for machines with the other byte order')
  throw new DamagedModel(
    version === 1
      ? 'is GGUF version 1, which engines no longer read; convert the model again'
      : `is GGUF version ${version}, but only 2 and 3 are supported; update Tollgate`,
  )
}
