/** The size of an image as the head of its file says it: PNG, JPEG, GIF and WebP. Decodes a few bytes, never the image. Pure. */
import { readBase64 } from './base64.ts'

/** Pixels. */
export interface Size {
  width: number
  height: number
}

/** A JPEG says its size behind segments of metadata; more of them than this and it is not looked for any further. */
const MOST_SEGMENTS = 200
/** As far as any of the other formats needs to be read. */
const HEAD_BYTES = 30

/** Finds the size of an image in base64; null where it cannot be told. */
export function sizeOfImage(base64: string): Size | null {
  const head = readBase64(base64, 0, HEAD_BYTES)
  const starts = (text: string, at = 0) => head.toString('latin1', at, at + text.length) === text
  if (starts('\xff\xd8')) return sizeOfJpeg(base64)
  if (head.length < HEAD_BYTES) return null
  if (starts('\x89PNG\r\n\x1a\n')) return toSize(head.readUInt32BE(16), head.readUInt32BE(20))
  if (starts('GIF8')) return toSize(head.readUInt16LE(6), head.readUInt16LE(8))
  return starts('RIFF') && starts('WEBP', 8) ? sizeOfWebp(head) : null
}

function sizeOfWebp(head: Buffer): Size | null {
  const kind = head.toString('latin1', 12, 16)
  if (kind === 'VP8X') return toSize(head.readUIntLE(24, 3) + 1, head.readUIntLE(27, 3) + 1)
  if (kind === 'VP8 ') return toSize(head.readUInt16LE(26) & 0x3fff, head.readUInt16LE(28) & 0x3fff)
  if (kind !== 'VP8L') return null
  const bits = head.readUInt32LE(21)
  return toSize((bits & 0x3fff) + 1, ((bits >>> 14) & 0x3fff) + 1)
}

/** Walks from segment to segment up to the frame header (ITU T.81, B.1.1). */
function sizeOfJpeg(base64: string): Size | null {
  let at = 2
  for (let segment = 0; segment < MOST_SEGMENTS; segment++) {
    const bytes = readBase64(base64, at, 9)
    if (bytes.length < 9 || bytes[0] !== 0xff) return null
    const marker = bytes[1] ?? 0
    if (isFrame(marker)) return toSize(bytes.readUInt16BE(7), bytes.readUInt16BE(5))
    // A marker may be led by any number of fill bytes.
    at += marker === 0xff ? 1 : 2 + bytes.readUInt16BE(2)
  }
  return null
}

const isFrame = (marker: number) =>
  marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc

const toSize = (width: number, height: number): Size | null => (width > 0 && height > 0 ? { width, height } : null)
