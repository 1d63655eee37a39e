/** Reads tar archives as they come: ustar, with the long names of pax and GNU (https://www.gnu.org/software/tar/manual/html_node/Standard.html). */
import { BadArchive, type Unpacker } from './unpacker.ts'

const BLOCK = 512
/** Names are some hundred bytes. */
const MOST_EXTRA = 64 * 1024

/** Throws a BadArchive. */
export async function untar(bytes: AsyncIterable<Uint8Array>, unpacker: Unpacker): Promise<void> {
  const reader = new PieceReader(bytes)
  /** What is said of the next entry before it. */
  let next: { path?: string; linkpath?: string; size?: string } = {}
  for (;;) {
    const block = await reader.take(BLOCK)
    if (block.every((byte) => byte === 0)) return
    const header = toHeader(block)
    const size = next.size === undefined ? header.size : Number(next.size)
    if (!Number.isSafeInteger(size) || size < 0) throw new BadArchive('is damaged: an entry has no size')
    const name = next.path ?? header.name
    const target = next.linkpath ?? header.target
    const { type } = header
    if ('xgLK'.includes(type)) {
      const text = await reader.text(size)
      if (type === 'x') next = { ...next, ...toRecords(text) }
      if (type === 'L') next = { ...next, path: text }
      if (type === 'K') next = { ...next, linkpath: text }
      continue
    }
    next = {}
    if (type === '0' || type === '7') {
      await unpacker.file({ name, mode: header.mode }, size, reader.pieces(size))
      await reader.take(toPadding(size))
    } else if (type === '5') unpacker.folder({ name })
    else if (type === '2') unpacker.link({ name }, target)
    else throw new BadArchive(`has an entry that is neither file, folder nor link: ${name.slice(0, 100)}`)
  }
}

const toPadding = (size: number) => (BLOCK - (size % BLOCK)) % BLOCK

function toHeader(block: Uint8Array) {
  const text = (at: number, length: number) => {
    const field = block.subarray(at, at + length)
    const end = field.indexOf(0)
    return new TextDecoder().decode(end === -1 ? field : field.subarray(0, end))
  }
  const octal = (at: number, length: number) => Number.parseInt(text(at, length).trim() || '0', 8)
  // The field of the sum itself counts as spaces.
  const sum = block.reduce((total, byte, at) => total + (at >= 148 && at < 156 ? 32 : byte), 0)
  if (sum !== octal(148, 8)) throw new BadArchive('is no tar archive, or is damaged')
  const prefix = text(257, 5) === 'ustar' && text(263, 2) === '00' ? text(345, 155) : ''
  return {
    name: prefix === '' ? text(0, 100) : `${prefix}/${text(0, 100)}`,
    mode: octal(100, 8),
    // A size of more than 8 GiB would have the first bit set: no engine has such a file.
    size: octal(124, 12),
    type: text(156, 1) || '0',
    target: text(157, 100),
  }
}

/** Records such as `18 path=some/name\n`, each with its own length before it. */
function toRecords(text: string): { path?: string; linkpath?: string; size?: string } {
  const records = [...text.matchAll(/\d+ (path|linkpath|size)=([^\n]*)\n/g)]
  return Object.fromEntries(records.map(([, key, value]) => [key, value]))
}

/** Bytes that come in pieces of any length, taken by count. */
class PieceReader {
  readonly #pieces: AsyncIterator<Uint8Array>
  #rest: Uint8Array = new Uint8Array(0)

  constructor(bytes: AsyncIterable<Uint8Array>) {
    this.#pieces = bytes[Symbol.asyncIterator]()
  }

  /** @param length small. */
  async take(length: number): Promise<Uint8Array> {
    const taken = new Uint8Array(length)
    let at = 0
    for await (const piece of this.pieces(length)) {
      taken.set(piece, at)
      at += piece.byteLength
    }
    return taken
  }

  async text(size: number): Promise<string> {
    if (size > MOST_EXTRA) throw new BadArchive('has a name that is too long')
    const bytes = await this.take(size)
    await this.take(toPadding(size))
    return new TextDecoder().decode(bytes).replace(/\0+$/, '')
  }

  async *pieces(length: number): AsyncGenerator<Uint8Array> {
    let left = length
    while (left > 0) {
      if (this.#rest.byteLength === 0) {
        const { done, value } = await this.#pieces.next()
        if (done) throw new BadArchive('is cut off')
        this.#rest = value
      }
      const piece = this.#rest.subarray(0, left)
      this.#rest = this.#rest.subarray(piece.byteLength)
      left -= piece.byteLength
      yield piece
    }
  }
}
