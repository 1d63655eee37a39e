/** Streams of frames that state their own duration: MP3 (also layers I and II), AAC in ADTS, and FLAC. */
import { type Scan, STEP } from './duration.ts'

export type Codec = 'lossy' | 'lossless'

/** A frame's header. One object is reused, as files have tens of thousands of frames. */
export class Frame {
  /** Bytes; 0 if unknown. */
  length = 0
  samples = 0
  /** Hz. */
  rate = 0
  /** Header bits shared by all frames of a stream. */
  kind = 0

  get seconds(): number {
    return this.samples / this.rate
  }
}

const RATES = [44_100, 48_000, 32_000]
/** kbit/s, by index from 1. */
const BITRATES = {
  1: [32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
  2: [32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
  3: [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
  half1: [32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
  half: [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
}

/** ISO 11172-3, 2.4.1.3. False if there is no header, or the header has no length. */
export function readMp3(bytes: Buffer, at: number, frame: Frame): boolean {
  const [b1 = 0, b2 = 0] = [bytes[at + 1], bytes[at + 2]]
  if (bytes[at] !== 0xff || (b1 & 0xe0) !== 0xe0) return false
  const version = (b1 >> 3) & 3
  const layer = 4 - ((b1 >> 1) & 3)
  const rate = RATES[(b2 >> 2) & 3]
  if (version === 1 || layer === 4 || rate === undefined) return false
  const isHalf = version !== 3
  const rates = isHalf ? BITRATES[layer === 1 ? 'half1' : 'half'] : BITRATES[layer === 1 ? 1 : layer === 2 ? 2 : 3]
  const kbits = rates[(b2 >> 4) - 1]
  if (kbits === undefined) return false
  const padding = (b2 >> 1) & 1
  frame.rate = rate / (version === 3 ? 1 : version === 2 ? 2 : 4)
  frame.samples = layer === 1 ? 384 : layer === 3 && isHalf ? 576 : 1_152
  const slots = ((frame.samples / 8) * kbits * 1_000) / frame.rate
  frame.length = layer === 1 ? (Math.floor(slots / 4) + padding) * 4 : Math.floor(slots) + padding
  frame.kind = ((b1 & 0xfe) << 8) | (b2 & 0x0c)
  return true
}

export const AAC_RATES = [
  96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350,
]
export const AAC_SAMPLES = 1_024

/** ISO 13818-7, 6.2. */
function readAdts(bytes: Buffer, at: number, frame: Frame): boolean {
  if (at + 7 > bytes.length || bytes[at] !== 0xff) return false
  const [b1 = 0, b2 = 0] = [bytes[at + 1], bytes[at + 2]]
  const rate = AAC_RATES[(b2 >> 2) & 15]
  if ((b1 & 0xf6) !== 0xf0 || rate === undefined) return false
  frame.length = (bytes.readUIntBE(at + 3, 3) >> 5) & 0x1fff
  frame.samples = AAC_SAMPLES * (((bytes[at + 6] ?? 0) & 3) + 1)
  frame.rate = rate
  frame.kind = (b1 << 8) | (b2 & 0xfc)
  return frame.length >= 7
}

const readEither = (bytes: Buffer, at: number, frame: Frame) => readMp3(bytes, at, frame) || readAdts(bytes, at, frame)

/** Null if half of the bytes or more aren't in frames. */
export function* scanFrames(bytes: Buffer): Scan {
  const [frame, next] = [new Frame(), new Frame()]
  const isFollowed = (end: number) => end >= bytes.length || (readEither(bytes, end, next) && next.kind === frame.kind)
  const begin = afterId3(bytes)
  let [seconds, framed, kind, at, steps] = [0, 0, 0, begin, 0]
  while (at + 4 <= bytes.length) {
    if (++steps % STEP === 0) yield
    if (!readEither(bytes, at, frame) || (frame.kind !== kind && !isFollowed(at + frame.length))) {
      at++
      continue
    }
    seconds += kind === 0 ? toFirstSeconds(bytes, at, frame) : frame.seconds
    kind = frame.kind
    framed += frame.length
    at += frame.length
  }
  return framed * 2 > bytes.length - begin ? seconds : null
}

/** Skips ID3 tags at the beginning, as all decoders do. Tags may be long, since they contain images. */
function afterId3(bytes: Buffer): number {
  let at = 0
  while (bytes.toString('latin1', at, at + 3) === 'ID3' && at + 10 <= bytes.length) {
    let size = 0
    for (let digit = at + 6; digit < at + 10; digit++) size = size * 128 + ((bytes[digit] ?? 0) & 0x7f)
    if (at + 10 + size > bytes.length) break
    at += 10 + size
  }
  return at
}

/** Bytes of a LAME tag before the encoder delay and padding. */
const LAME_BYTES = 21

/**
 * Seconds of an MP3's first frame. It may contain statistics instead of audio (LAME, "MP3 Info Tag"). Then the result is
 * negative: the samples to drop at both ends, at most 8,190. The frame count in the tag is ignored.
 */
function toFirstSeconds(bytes: Buffer, at: number, frame: Frame): number {
  const header = /^.{4,40}(?:Xing|Info)/s.exec(bytes.toString('latin1', at, at + 44))?.[0].length
  if (header === undefined) return frame.seconds
  const flags = bytes[at + header + 3] ?? 0
  const fields = (flags & 1 ? 4 : 0) + (flags & 2 ? 4 : 0) + (flags & 4 ? 100 : 0) + (flags & 8 ? 4 : 0)
  const lame = at + header + 4 + fields
  if (!/^(?:LAME|Lav).{20}/s.test(bytes.toString('latin1', lame, lame + LAME_BYTES + 3))) return 0
  const trims = bytes.readUIntBE(lame + LAME_BYTES, 3)
  return -((trims >> 12) + (trims & 0xfff)) / frame.rate
}

const FLAC_RATES = [0, 88_200, 176_400, 192_000, 8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000]

/** RFC 9639, section 9.1. Sets no length, since headers have none. @param rate Hz, from the stream's header. */
export function readFlac(bytes: Buffer, at: number, frame: Frame, rate: number): boolean {
  const [b1 = 0, b2 = 0, b3 = 0] = [bytes[at + 1], bytes[at + 2], bytes[at + 3]]
  if (bytes[at] !== 0xff || (b1 & 0xfe) !== 0xf8) return false
  const [size, speed] = [b2 >> 4, b2 & 15]
  if (size === 0 || speed === 15 || b3 >> 4 > 10 || (b3 & 0x0e) === 0x06 || (b3 & 1) === 1) return false
  let end = at + 5
  for (let bit = 0x80; ((bytes[at + 4] ?? 0) & bit) !== 0 && end < at + 11; bit >>= 1) if (bit < 0x80) end++
  const sizeAt = end
  end += size === 6 ? 1 : size === 7 ? 2 : 0
  const rateAt = end
  end += speed === 12 ? 1 : speed > 12 ? 2 : 0
  if (end >= bytes.length || crc8(bytes, at, end) !== bytes[end]) return false
  if (size === 1) frame.samples = 192
  else if (size < 6) frame.samples = 576 << (size - 2)
  else if (size < 8) frame.samples = bytes.readUIntBE(sizeAt, size - 5) + 1
  else frame.samples = 256 << (size - 8)
  if (speed < 12) frame.rate = FLAC_RATES[speed] || rate
  else frame.rate = speed === 12 ? (bytes[rateAt] ?? 0) * 1_000 : bytes.readUInt16BE(rateAt) * (speed === 13 ? 1 : 10)
  frame.kind = (b1 << 16) | (speed << 8) | (b3 & 0x0f)
  return frame.rate > 0
}

function crc8(bytes: Buffer, from: number, to: number): number {
  let crc = 0
  for (let at = from; at < to; at++) {
    crc ^= bytes[at] ?? 0
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x80 ? ((crc << 1) ^ 0x07) & 0xff : crc << 1
  }
  return crc
}

/** Audio contains bytes that look like a frame header about once in this many bytes. */
const CHANCE_BYTES = 4 * 1024 * 1024

/** Finds frames by their headers, since a frame ends where the next begins. @param begin position of `fLaC`. */
export function* scanFlac(bytes: Buffer, begin: number): Scan {
  let at = begin + 4
  const rate = at + 17 <= bytes.length ? bytes.readUIntBE(at + 14, 3) >> 4 : 0
  for (let isLast = false; !isLast && at + 4 <= bytes.length; ) {
    isLast = ((bytes[at] ?? 0) & 0x80) !== 0
    at += 4 + bytes.readUIntBE(at + 1, 3)
  }
  const frame = new Frame()
  let [kind, usual, odd, odds, steps] = [0, 0, 0, 0, 0]
  const most = 2 + bytes.length / CHANCE_BYTES
  for (; at + 6 <= bytes.length; at++) {
    if (++steps % STEP === 0) yield
    if (bytes[at] !== 0xff || !readFlac(bytes, at, frame, rate)) continue
    if (kind === 0) kind = frame.kind
    if (frame.kind === kind) usual += frame.seconds
    else {
      odd += frame.seconds
      odds++
    }
  }
  return odds > most ? usual + odd : usual
}
