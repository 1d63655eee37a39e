/**
 * Tokens of what is not text. Estimate and count both ask here, so that they never differ about an attachment. The
 * rules are the ones that OpenAI publishes for its models; other models count otherwise, but say so in their usage. Pure.
 */
import { bytesOfBase64, fromDataUrl, readBase64 } from './base64.ts'
import { type Size, sizeOfImage } from './image-size.ts'

/** Guide "Images and vision": a low-detail image costs the base alone, any other one also its tiles. */
const TOKENS_PER_IMAGE = 85
const TOKENS_PER_TILE = 170
const TILE = 512
const LONGEST_SIDE = 2_048
const SHORTEST_SIDE = 768
/** Of an image whose size cannot be known, such as one behind an address: what most photographs and screens come to. */
const UNKNOWN_TILES = 6

/** Guide "Managing costs" of the realtime API: a token for each 100 ms of what a user says. */
const TOKENS_PER_SECOND = 10
/** Taken where the file does not say it: 16-bit mono at 16 kHz, and MP3 as speech has it, 64 kbit/s. */
const WAV_BYTES_PER_SECOND = 32_000
const MP3_BYTES_PER_SECOND = 8_000
/** What a WAV file says is believed between telephone speech and 32-bit stereo at 192 kHz. */
const SLOWEST_WAV = 1_000
const FASTEST_WAV = 1_536_000
/** A WAV file may have other chunks before the one that describes its sound. */
const MOST_CHUNKS = 20

/** A file that is not text, such as a PDF, or one that the upstream keeps. */
export const TOKENS_PER_FILE = 5_000

/** Counts an image: with `detail: low` flat, else by its size, `auto` as `high`. */
export function tokensOfImage({ url, detail }: { url: string; detail?: string | null }): number {
  if (detail === 'low') return TOKENS_PER_IMAGE
  const data = fromDataUrl(url)
  const size = data && sizeOfImage(data.base64)
  return TOKENS_PER_IMAGE + TOKENS_PER_TILE * (size ? tilesOf(size) : UNKNOWN_TILES)
}

/** Shrinks it into a square of 2,048 pixels, then to a shortest side of 768, and counts the tiles that cover it. */
function tilesOf({ width, height }: Size): number {
  const fit = Math.min(1, LONGEST_SIDE / Math.max(width, height))
  const scale = Math.min(fit, SHORTEST_SIDE / Math.min(width, height))
  // Whole pixels, or 512.0000001 of them would take two tiles.
  const along = (side: number) => Math.max(1, Math.ceil(Math.floor(side * scale) / TILE))
  return along(width) * along(height)
}

/** Counts recorded sound by its length: a WAV file's as its header has it, an MP3's by its bytes. */
export function tokensOfAudio({ data, format }: { data: string; format: string }): number {
  const base64 = fromDataUrl(data)?.base64 ?? data
  const bytesPerSecond = format === 'wav' ? bytesPerSecondOf(base64) : MP3_BYTES_PER_SECOND
  return Math.ceil((bytesOfBase64(base64) / bytesPerSecond) * TOKENS_PER_SECOND)
}

function bytesPerSecondOf(base64: string): number {
  let at = 12
  for (let chunk = 0; chunk < MOST_CHUNKS; chunk++) {
    const bytes = readBase64(base64, at, 20)
    if (bytes.length < 20) break
    if (bytes.toString('latin1', 0, 4) === 'fmt ') {
      const stated = bytes.readUInt32LE(16)
      return stated >= SLOWEST_WAV && stated <= FASTEST_WAV ? stated : WAV_BYTES_PER_SECOND
    }
    const length = bytes.readUInt32LE(4)
    // Chunks begin at even places.
    at += 8 + length + (length % 2)
  }
  return WAV_BYTES_PER_SECOND
}
