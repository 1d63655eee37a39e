/**
 * WebM and Matroska (RFC 9559), also as recorded by browsers: without a duration, and with clusters of unknown size.
 * Sums the audio packets. For codecs whose packets aren't parsed, uses the time of the last block.
 */
import { bound, type Scan, STEP } from './duration.ts'
import { AAC_SAMPLES, Frame, readFlac, readMp3 } from './frames.ts'
import { aacRateOf } from './mp4.ts'
import { opusMs } from './opus.ts'

/** Children of these elements are read like siblings, so the sizes of these elements don't matter. */
const MASTERS = new Set([0x18538067, 0x1549a966, 0x1654ae6b, 0xae, 0xe1, 0x1f43b675, 0xa0])
const TRACK_ENTRY = 0xae
const CLUSTER = Buffer.from([0x1f, 0x43, 0xb6, 0x75])
const MAX_TRACKS = 64
const MAX_CODEC_CHARS = 32
/** An unknown size, which has all bits set in any width. */
const UNKNOWN = -1

class Track {
  isAudio = false
  codec = ''
  rate = 0
  aacRate = 0
  /** Sum of the parsed packets. */
  seconds = 0
  bytes = 0
}

export function* scanWebm(bytes: Buffer): Scan {
  const tracks = new Map<number, Track>()
  const frame = new Frame()
  const state = { scale: 1_000_000, stated: 0, cluster: 0, last: 0, block: 0 }
  let track = new Track()
  let steps = 0
  for (let at = 0; at + 2 <= bytes.length; ) {
    if (++steps % STEP === 0) yield
    const idWidth = widthAt(bytes, at)
    const sizeWidth = idWidth <= 4 ? widthAt(bytes, at + idWidth) : 9
    if (sizeWidth > 8) {
      const next = bytes.indexOf(CLUSTER, at + 1)
      if (next === -1) break
      at = next
      continue
    }
    const id = uintAt(bytes, at, idWidth)
    const size = vintAt(bytes, at + idWidth, sizeWidth)
    const start = at + idWidth + sizeWidth
    const end = Math.min(bytes.length, size === UNKNOWN ? start : start + size)
    at = MASTERS.has(id) ? start : end
    switch (id) {
      case TRACK_ENTRY:
        track = new Track()
        break
      case 0xd7:
        if (tracks.size < MAX_TRACKS) tracks.set(uintAt(bytes, start, end - start), track)
        break
      case 0x83:
        track.isAudio = uintAt(bytes, start, end - start) === 2
        break
      case 0x86:
        track.codec = bytes.toString('latin1', start, Math.min(end, start + MAX_CODEC_CHARS))
        break
      case 0x63a2:
        track.aacRate = aacRateOf(bytes, start)
        break
      case 0xb5:
        track.rate = floatAt(bytes, start, end)
        break
      case 0x2ad7b1:
        state.scale = uintAt(bytes, start, end - start)
        break
      case 0x4489:
        state.stated = floatAt(bytes, start, end)
        break
      case 0xe7:
        state.cluster = uintAt(bytes, start, end - start)
        break
      case 0x9b:
        state.last = Math.max(state.last, state.block + uintAt(bytes, start, end - start))
        break
      case 0xa3:
      case 0xa1: {
        const width = widthAt(bytes, start)
        const of = tracks.get(vintAt(bytes, start, width))
        if (!of?.isAudio || start + width + 4 > end) break
        state.block = state.cluster + bytes.readInt16BE(start + width)
        state.last = Math.max(state.last, state.block)
        of.bytes += end - start
        takeBlock(of, bytes, start + width + 2, end, frame)
        break
      }
    }
  }
  const claimed = (Math.max(state.last, state.stated) * state.scale) / 1e9
  let longest = 0
  for (const { isAudio, seconds, bytes, codec } of tracks.values()) {
    if (!isAudio) continue
    longest = Math.max(longest, seconds || bound(claimed, bytes, /PCM|ALAC/.test(codec) ? 'lossless' : 'lossy'))
  }
  return longest
}

/** @param at position of the block's flags. */
function takeBlock(track: Track, bytes: Buffer, at: number, end: number, frame: Frame): void {
  const lacing = ((bytes[at] ?? 0) >> 1) & 3
  const count = lacing === 0 ? 1 : (bytes[at + 1] ?? 0) + 1
  const start = lacing === 0 ? at + 1 : afterSizes(bytes, at + 2, end, lacing, count)
  if (start >= end) return
  const { codec, rate } = track
  if (codec.startsWith('A_OPUS')) track.seconds += (count * opusMs(bytes, start, end)) / 1_000
  else if (codec.startsWith('A_AAC') && track.aacRate > 0) track.seconds += (count * AAC_SAMPLES) / track.aacRate
  else if (codec === 'A_FLAC' && readFlac(bytes, start, frame, rate)) track.seconds += count * frame.seconds
  else if (codec.startsWith('A_MPEG/') && readMp3(bytes, start, frame)) track.seconds += count * frame.seconds
}

/** Start of a laced block's frames. It follows the sizes of all frames but the last. */
function afterSizes(bytes: Buffer, from: number, end: number, lacing: number, count: number): number {
  let at = from
  for (let frame = 1; lacing !== 2 && frame < count && at < end; frame++) {
    if (lacing === 3) at += widthAt(bytes, at)
    else {
      while (bytes[at] === 255 && at < end) at++
      at++
    }
  }
  return at
}

/** Width of a variable-length integer in bytes; 9 if it is invalid. */
const widthAt = (bytes: Buffer, at: number) => (at < bytes.length ? Math.clz32(bytes[at] ?? 0) - 23 : 9)

function vintAt(bytes: Buffer, at: number, width: number): number {
  const ones = 2 ** (7 * width) - 1
  let value = (bytes[at] ?? 0) & (0xff >> width)
  for (let next = 1; next < width; next++) value = value * 256 + (bytes[at + next] ?? 0)
  return value === ones ? UNKNOWN : value
}

function uintAt(bytes: Buffer, at: number, width: number): number {
  let value = 0
  for (let next = 0; next < Math.min(width, 8); next++) value = value * 256 + (bytes[at + next] ?? 0)
  return value
}

function floatAt(bytes: Buffer, start: number, end: number): number {
  if (end - start === 4) return bytes.readFloatBE(start)
  return end - start === 8 ? bytes.readDoubleBE(start) : 0
}
