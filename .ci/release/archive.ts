/** Writes tar, gzip, and ar files that depend on nothing but their contents. */
import { gzipSync } from 'node:zlib'

export interface Entry {
  /** Ends in `/` for a folder. */
  name: string
  content?: Uint8Array | string
  /** Default 0644, or 0755 for a folder. */
  mode?: number
  /** Owner and group; default root. */
  owner?: number
}

const BLOCK = 512

const toPadding = (length: number, block: number) => Buffer.alloc((block - (length % block)) % block)

/** @param seconds time of all entries. */
export function toTar(entries: readonly Entry[], seconds: number): Buffer {
  const blocks = entries.flatMap((entry) => {
    const content = Buffer.from(entry.content ?? '')
    return [toHeader(entry, content.length, seconds), content, toPadding(content.length, BLOCK)]
  })
  return Buffer.concat([...blocks, Buffer.alloc(2 * BLOCK)])
}

/** POSIX ustar. */
function toHeader({ name, mode, owner = 0 }: Entry, size: number, seconds: number): Buffer {
  if (Buffer.byteLength(name) > 100) throw new Error(`${name} is too long for a tar header.`)
  const isFolder = name.endsWith('/')
  const header = Buffer.alloc(BLOCK)
  const octal = (value: number, at: number, digits: number) =>
    header.write(`${value.toString(8).padStart(digits, '0')}\0`, at)
  header.write(name, 0)
  octal(mode ?? (isFolder ? 0o755 : 0o644), 100, 7)
  octal(owner, 108, 7)
  octal(owner, 116, 7)
  octal(size, 124, 11)
  octal(seconds, 136, 11)
  header.write(' '.repeat(8), 148)
  header.write(isFolder ? '5' : '0', 156)
  header.write('ustar\x0000', 257)
  octal(
    header.reduce((sum, byte) => sum + byte, 0),
    148,
    6,
  )
  return header
}

export const toTarGz = (entries: readonly Entry[], seconds: number): Buffer => gzipSync(toTar(entries, seconds))

/** As dpkg takes it. */
export function toAr(entries: readonly { name: string; content: Uint8Array }[], seconds: number): Buffer {
  const blocks = entries.flatMap(({ name, content }) => [
    Buffer.from(
      `${name.padEnd(16)}${String(seconds).padEnd(12)}${'0'.padEnd(6)}${'0'.padEnd(6)}${'100644'.padEnd(8)}${String(content.length).padEnd(10)}\`\n`,
    ),
    content,
    Buffer.from(content.length % 2 === 0 ? '' : '\n'),
  ])
  return Buffer.concat([Buffer.from('!<arch>\n'), ...blocks])
}
