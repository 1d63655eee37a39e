/**
 * The header of a GGUF file, version 2 or 3 (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): its keys with what they say, and where
 * its tensors lie. The file is somebody else's: every count is held to the bytes that are there, nothing is read beyond its end, and of lists only short
 * ones of numbers are kept. Pure: bytes come from whoever has the file.
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

interface GgufList {
  length: number
  /** Null where they are none, or too many to keep. */
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
/** Chat templates are some kB. */
const MAX_TEXT = 1_000_000
const MAX_NUMBERS = 10_000
const MAX_NESTED = 4
const MAX_DIMENSIONS = 8

/** Throws a DamagedModel. */
export function readHeader(source: ByteSource): GgufHeader {
  requireMagic(source)
  const cursor = new Cursor(source)
  cursor.skip(4)
  const version = cursor.u32()
  requireVersion(version)
  const [tensors, keys] = [cursor.u64(), cursor.u64()]
  if (keys > MAX_KEYS || tensors > MAX_TENSORS)
    throw new DamagedModel(`is damaged: its header counts ${keys} keys and ${tensors} tensors`)
  const values = new Map<string, GgufValue>()
  for (let n = 0; n < keys; n++) {
    const name = cursor.text(cursor.u64(), MAX_TEXT)
    values.set(name, readValue(cursor, cursor.u32(), 0))
  }
  const last = readLastOffset(cursor, tensors) + toAligned(cursor.offset, values.get('general.alignment'))
  // The last one has at least some bytes.
  if (last >= source.size && tensors > 0)
    throw new DamagedModel(
      `is cut off: it has ${source.size} bytes, and its tensors go beyond ${last}. Download it again`,
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
/** Bytes of each type; 0 where it says itself how long it is. */
const SIZES = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8]

function readValue(cursor: Cursor, type: number, depth: number): GgufValue {
  if (type === LIST) return readList(cursor, depth)
  const read = READERS[type] ?? WIDE[type]
  if (!read) throw new DamagedModel(`is damaged: its header has a value of the unknown type ${type}`)
  return read(cursor)
}

function readList(cursor: Cursor, depth: number): GgufList {
  const [type, length] = [cursor.u32(), cursor.u64()]
  const size = SIZES[type]
  if (size === undefined || depth > MAX_NESTED) throw new DamagedModel('is damaged: its header has a list of nothing')
  // Texts and lists take eight bytes at least, for their length.
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

/** Of the tensor that begins last, in bytes behind the header. */
function readLastOffset(cursor: Cursor, tensors: number): number {
  let last = 0
  for (let n = 0; n < tensors; n++) {
    cursor.skip(cursor.u64())
    const dimensions = cursor.u32()
    if (dimensions > MAX_DIMENSIONS) throw new DamagedModel(`is damaged: a tensor of it has ${dimensions} dimensions`)
    // Behind its dimensions, its type.
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
    throw new DamagedModel('only points to the model, which git has not fetched: run git lfs pull in its repository')
  if (/^\s*<(!doctype|html)/i.test(head))
    throw new DamagedModel('is a web page. Download the file itself: on Hugging Face, its address has /resolve/ in it')
  if (/^(GGML|lmgg|ggjt|tjgg)/.test(head))
    throw new DamagedModel('is of a format before GGUF, which no engine reads any more')
  throw new DamagedModel('is no GGUF file')
}

function requireVersion(version: number): void {
  if (version === 2 || version === 3) return
  if (version !== 0 && (version & 0xffff) === 0) throw new DamagedModel('is for machines of the other byte order')
  throw new DamagedModel(
    version === 1
      ? 'is GGUF of version 1, which no engine reads any more: convert the model again'
      : `is GGUF of version ${version}, and 2 and 3 are known: this program may be too old for it`,
  )
}
