/**
 * Tokens of attachments by OpenAI's published rules; other models count differently but report their usage. Decodes
 * only the few bytes needed.
 */

/** Guide "Images and vision": a low-detail image costs only the base, others also their tiles. */
const TOKENS_PER_IMAGE = 85
const TOKENS_PER_TILE = 170
const TILE = 512
const LONGEST_SIDE = 2_048
const SHORTEST_SIDE = 768
/** For images of unknown size, such as by URL: typical of photos and screenshots. */
const UNKNOWN_TILES = 6

/** Guide "Managing costs" of the realtime API: a token per 100 ms of user audio. */
const TOKENS_PER_SECOND = 10
/** Defaults: 16-bit mono at 16 kHz, and MP3 speech at 64 kbit/s. */
const WAV_BYTES_PER_SECOND = 32_000
const MP3_BYTES_PER_SECOND = 8_000
/** Plausible range of a WAV header: telephone speech to 32-bit stereo at 192 kHz. */
const SLOWEST_WAV = 1_000
const FASTEST_WAV = 1_536_000
const MAX_CHUNKS = 20

/** For a file that isn't text, such as a PDF, or one stored upstream. */
export const TOKENS_PER_FILE = 5_000
/**
 * For data of unknown type. Speech, photos, and video have 200 or more bytes per token (Gemini: 258 tokens per second
 * of video, 32 of audio), so this overestimates.
 */
const BYTES_PER_TOKEN_OF_DATA = 100

/** At least the tokens of a file. */
export const tokensOfData = (base64: string): number =>
  Math.max(TOKENS_PER_FILE, Math.ceil(bytesOfBase64(base64) / BYTES_PER_TOKEN_OF_DATA))

/** Tokens by size. `detail: auto` counts as `high`, and `low` has a flat cost. */
export function tokensOfImage({ url, detail }: { url: string; detail?: string | null }): number {
  if (detail === 'low') return TOKENS_PER_IMAGE
  const data = fromDataUrl(url)
  const size = data && sizeOfImage(data.base64)
  return TOKENS_PER_IMAGE + TOKENS_PER_TILE * (size ? tilesOf(size) : UNKNOWN_TILES)
}

/** Scales it into a square of 2,048 pixels, then to a shortest side of 768. */
function tilesOf({ width, height }: Size): number {
  const fit = Math.min(1, LONGEST_SIDE / Math.max(width, height))
  const scale = Math.min(fit, SHORTEST_SIDE / Math.min(width, height))
  // Avoids an extra tile for 512.0000001 pixels.
  const along = (side: number) => Math.max(1, Math.ceil(Math.floor(side * scale) / TILE))
  return along(width) * along(height)
}

export function tokensOfAudio({ data, format }: { data: string; format: string }): number {
  const base64 = fromDataUrl(data)?.base64 ?? data
  const bytesPerSecond = format === 'wav' ? bytesPerSecondOf(base64) : MP3_BYTES_PER_SECOND
  return Math.ceil((bytesOfBase64(base64) / bytesPerSecond) * TOKENS_PER_SECOND)
}

/** Guide "Managing costs" of the realtime API: a token per 50 ms of model audio, 24 kHz 16-bit mono. */
const SPOKEN_TOKENS_PER_SECOND = 20
const PCM_BYTES_PER_SECOND = 48_000

/** Compressed formats count as MP3, an upper bound for their size. */
export function tokensOfSpeech(base64Chars: number, format: string | undefined): number {
  const bytesPerSecond = format === 'pcm16' || format === 'wav' ? PCM_BYTES_PER_SECOND : MP3_BYTES_PER_SECOND
  return Math.ceil((((base64Chars * 3) / 4) * SPOKEN_TOKENS_PER_SECOND) / bytesPerSecond)
}

function bytesPerSecondOf(base64: string): number {
  let at = 12
  for (let chunk = 0; chunk < MAX_CHUNKS; chunk++) {
    const bytes = readBase64(base64, at, 20)
    if (bytes.length < 20) break
    if (bytes.toString('latin1', 0, 4) === 'fmt ') {
      const stated = bytes.readUInt32LE(16)
      return stated >= SLOWEST_WAV && stated <= FASTEST_WAV ? stated : WAV_BYTES_PER_SECOND
    }
    const length = bytes.readUInt32LE(4)
    // Chunks are aligned to even offsets.
    at += 8 + length + (length % 2)
  }
  return WAV_BYTES_PER_SECOND
}

interface Size {
  width: number
  height: number
}

/** A JPEG's size follows its metadata segments; the search stops after this many. */
const MAX_SEGMENTS = 200
/** Enough for the other formats. */
const HEAD_BYTES = 30

/** Null if unknown. */
function sizeOfImage(base64: string): Size | null {
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

/** Follows the segments to the frame header (ITU T.81, B.1.1). */
function sizeOfJpeg(base64: string): Size | null {
  let at = 2
  for (let segment = 0; segment < MAX_SEGMENTS; segment++) {
    const bytes = readBase64(base64, at, 9)
    if (bytes.length < 9 || bytes[0] !== 0xff) return null
    const marker = bytes[1] ?? 0
    if (isFrame(marker)) return toSize(bytes.readUInt16BE(7), bytes.readUInt16BE(5))
    at += marker === 0xff ? 1 : 2 + bytes.readUInt16BE(2)
  }
  return null
}

const isFrame = (marker: number) =>
  marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc

const toSize = (width: number, height: number): Size | null => (width > 0 && height > 0 ? { width, height } : null)

/** Maximum length of a media type with parameters. */
const LONGEST_HEAD = 256

/** Media type in lower case. */
export interface Data {
  mediaType: string
  base64: string
}

/** Null if it is not a base64 `data:` URL. */
export function fromDataUrl(url: string): Data | null {
  const head = /^data:([^;,]*)(?:;[^,]*)?;base64,/i.exec(url.slice(0, LONGEST_HEAD))
  return head ? { mediaType: (head[1] ?? '').toLowerCase(), base64: url.slice(head[0].length) } : null
}

const TEXT_TYPE = /^text\/|^application\/(?:.+\+)?(?:json|xml|yaml|x-yaml|javascript|toml|sql|x-ndjson|jsonl)$/
const TEXT_NAME =
  /\.(?:txt|text|md|markdown|rst|tex|csv|tsv|json|jsonl|ndjson|ya?ml|toml|xml|html?|css|log|ini|sql|sh|[cm]?[jt]sx?|py|rb|go|rs|java|kt|swift|c|h|cc|cpp|hpp|cs|php|vue)$/i

export const isText = ({ mediaType }: Data, name: string | null | undefined) =>
  TEXT_TYPE.test(mediaType) ||
  ((mediaType === '' || mediaType === 'application/octet-stream') && TEXT_NAME.test(name ?? ''))

export function bytesOfBase64(base64: string): number {
  const padding = base64.endsWith('==') ? 2 : base64.endsWith('=') ? 1 : 0
  return Math.floor(((base64.length - padding) * 3) / 4)
}

export function readBase64(base64: string, from: number, count: number): Buffer {
  const group = Math.floor(from / 3)
  const bytes = Buffer.from(base64.slice(group * 4, Math.ceil((from + count) / 3) * 4), 'base64')
  return bytes.subarray(from - group * 3, from - group * 3 + count)
}
