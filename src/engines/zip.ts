/** Reads zip archives by the directory at their end (https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT), without those parts that only larger ones than 4 GiB need. */
import { createReadStream } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { pipeline } from 'node:stream'
import { createInflateRaw } from 'node:zlib'
import { BadArchive, type Unpacker } from './unpacker.ts'

const END = { signature: 0x06054b50, bytes: 22, comment: 65_535 }
const ENTRY = { signature: 0x02014b50, bytes: 46 }
const LOCAL = { signature: 0x04034b50, bytes: 30 }
const MOST_DIRECTORY = 16 * 1024 * 1024
const MOST_TARGET = 4_096
const [STORED, DEFLATED] = [0, 8]
const UNIX = 3
const [TYPE, LINK] = [0o170000, 0o120000]

/** Throws a BadArchive. */
export async function unzip(path: string, unpacker: Unpacker): Promise<void> {
  const file = await open(path, 'r')
  try {
    const { size } = await file.stat()
    for (const entry of await readDirectory(file, size)) {
      const { name, mode } = entry
      if (name.endsWith('/')) unpacker.folder({ name })
      else if ((mode & TYPE) === LINK) unpacker.link({ name }, await readTarget(path, file, entry))
      else await unpacker.file({ name, mode }, entry.size, await toPieces(path, file, entry))
    }
  } finally {
    await file.close()
  }
}

interface ZipEntry {
  name: string
  mode: number
  method: number
  packed: number
  size: number
  offset: number
}

async function read(file: FileHandle, offset: number, length: number): Promise<DataView> {
  const bytes = new Uint8Array(length)
  const { bytesRead } = await file.read(bytes, 0, length, offset)
  if (bytesRead < length) throw new BadArchive('is cut off')
  return new DataView(bytes.buffer)
}

async function readDirectory(file: FileHandle, size: number): Promise<ZipEntry[]> {
  const length = Math.min(size, END.bytes + END.comment)
  const tail = await read(file, size - length, length)
  let at = length - END.bytes
  while (at >= 0 && tail.getUint32(at, true) !== END.signature) at--
  if (at < 0) throw new BadArchive('is no whole zip archive: its end is missing')
  const [bytes, offset] = [tail.getUint32(at + 12, true), tail.getUint32(at + 16, true)]
  if (bytes > MOST_DIRECTORY || offset + bytes > size) throw new BadArchive('is too large, or damaged')
  const directory = await read(file, offset, bytes)
  const entries: ZipEntry[] = []
  for (let next = 0; next < bytes; ) {
    if (next + ENTRY.bytes > bytes || directory.getUint32(next, true) !== ENTRY.signature)
      throw new BadArchive('is damaged: its directory is none')
    const u16 = (field: number) => directory.getUint16(next + field, true)
    const u32 = (field: number) => directory.getUint32(next + field, true)
    const end = next + ENTRY.bytes + u16(28)
    if (end > bytes) throw new BadArchive('is damaged: its directory is cut off')
    if (u16(8) & 1) throw new BadArchive('is encrypted')
    entries.push({
      name: new TextDecoder().decode(new Uint8Array(directory.buffer, next + ENTRY.bytes, u16(28))),
      mode: u16(4) >> 8 === UNIX ? u32(38) >>> 16 : 0o755,
      ...{ method: u16(10), packed: u32(20), size: u32(24), offset: u32(42) },
    })
    next = end + u16(30) + u16(32)
  }
  return entries
}

async function toPieces(path: string, file: FileHandle, { name, method, packed, offset }: ZipEntry) {
  const local = await read(file, offset, LOCAL.bytes)
  if (local.getUint32(0, true) !== LOCAL.signature) throw new BadArchive(`is damaged: ${name} is not where it says`)
  if (method !== STORED && method !== DEFLATED) throw new BadArchive(`has ${name} packed in an unknown way`)
  const start = offset + LOCAL.bytes + local.getUint16(26, true) + local.getUint16(28, true)
  if (packed === 0) return toNothing()
  const bytes = createReadStream(path, { start, end: start + packed - 1 })
  // An error of one ends the other; whoever reads hears of it.
  return method === STORED ? bytes : pipeline(bytes, createInflateRaw(), () => {})
}

async function* toNothing(): AsyncGenerator<Uint8Array> {}

async function readTarget(path: string, file: FileHandle, entry: ZipEntry): Promise<string> {
  if (entry.size > MOST_TARGET) throw new BadArchive(`has a link that is none: ${entry.name}`)
  const decoder = new TextDecoder()
  let text = ''
  for await (const piece of await toPieces(path, file, entry)) {
    text += decoder.decode(piece, { stream: true })
    if (text.length > MOST_TARGET) throw new BadArchive(`has a link that is none: ${entry.name}`)
  }
  return text
}
