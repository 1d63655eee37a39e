/** Handwritten archives, with entries that no archiver writes. */
import { gzipSync } from 'node:zlib'

export interface Packed {
  name: string
  content?: string
  mode?: number
  /** Target of a link. */
  target?: string
  /** Of tar: '0' file, '2' link, '5' folder. */
  type?: string
  /** The declared size. */
  size?: number
}

const BLOCK = 512
const padded = (bytes: Uint8Array) => Buffer.concat([bytes, Buffer.alloc((BLOCK - (bytes.length % BLOCK)) % BLOCK)])

export function makeTar(entries: readonly Packed[]): Buffer {
  const blocks = entries.flatMap(({ name, content = '', mode = 0o644, target = '', type, size }) => {
    const bytes = Buffer.from(content)
    const kind = type ?? (target === '' ? '0' : '2')
    const isLong = Buffer.byteLength(name) > 100
    const before = isLong
      ? [...toEntry('././@LongLink', 'L', Buffer.byteLength(name), 0, ''), padded(Buffer.from(name))]
      : []
    return [...before, ...toEntry(name.slice(0, 100), kind, size ?? bytes.length, mode, target), padded(bytes)]
  })
  return Buffer.concat([...blocks, Buffer.alloc(2 * BLOCK)])
}

function toEntry(name: string, type: string, size: number, mode: number, target: string): Buffer[] {
  const header = Buffer.alloc(BLOCK)
  header.write(name, 0)
  header.write(`${mode.toString(8).padStart(7, '0')}\0`, 100)
  header.write(`${size.toString(8).padStart(11, '0')}\0`, 124)
  header.write(' '.repeat(8), 148)
  header.write(type, 156)
  header.write(target, 157)
  header.write('ustar\x0000', 257)
  header.write(
    `${header
      .reduce((sum, byte) => sum + byte, 0)
      .toString(8)
      .padStart(6, '0')}\0 `,
    148,
  )
  return [header]
}

export const makeTarGz = (entries: readonly Packed[]): Buffer => gzipSync(makeTar(entries))
