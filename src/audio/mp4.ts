/** MP4 and M4A (ISO 14496-12), also with the index at the end or in fragments: counts the audio samples. */
import { bound, refine, type Scan, STEP } from './duration.ts'
import { AAC_RATES, AAC_SAMPLES } from './frames.ts'

/** Boxes within these are read like siblings. */
const CONTAINERS = new Set(['moov', 'trak', 'mdia', 'minf', 'stbl', 'moof', 'traf', 'mvex'])
const MAX_TRACKS = 64
const LOSSLESS = /^(?:alac|fLaC|lpcm|ipcm|fpcm|sowt|twos|raw |in24|fl32)$/

class Track {
  isAudio = false
  codec = ''
  /** Hz, from the settings of the AAC decoder; 0 for other codecs. */
  aacRate = 0
  timescale = 0
  /** Stated duration of the track, in units of the timescale. */
  stated = 0
  /** Sum of the stated durations of samples. */
  summed = 0
  samples = 0
  bytes = 0
  /** Default for fragments. */
  usualDuration = 0
  usualBytes = 0
}

export function* scanMp4(bytes: Buffer): Scan {
  const tracks = new Map<number, Track>()
  let movie = 0
  let track = new Track()
  let fragment = { duration: 0, bytes: 0 }
  let steps = 0
  for (let at = 0; at + 8 <= bytes.length; ) {
    if (++steps % STEP === 0) yield
    const type = bytes.toString('latin1', at + 4, at + 8)
    const short = bytes.readUInt32BE(at)
    const isLong = short === 1 && at + 16 <= bytes.length
    const size = isLong ? Number(bytes.readBigUInt64BE(at + 8)) : short === 0 ? bytes.length - at : short
    const start = at + (isLong ? 16 : 8)
    const end = Math.min(at + size, bytes.length)
    if (at + size < start) break
    at = CONTAINERS.has(type) ? start : end
    const box = new Box(bytes, start, end)
    switch (type) {
      case 'trak':
        track = new Track()
        break
      case 'tkhd':
        if (tracks.size < MAX_TRACKS) tracks.set(box.uint(box.isWide ? 20 : 12), track)
        break
      case 'mvhd':
        movie = box.isWide ? box.long(24) / box.uint(20) : box.uint(16) / box.uint(12)
        break
      case 'mdhd':
        track.timescale = box.uint(box.isWide ? 20 : 12)
        track.stated = box.isWide ? box.long(24) : box.uint(16)
        break
      case 'hdlr':
        // Metadata has its own handlers, with other types.
        if (box.text(8) === 'soun') track.isAudio = true
        break
      case 'stsd':
        Object.assign(track, toCodec(bytes, start + 8, end))
        break
      case 'stts':
        for (let entry = 8; entry + 8 <= end - start; entry += 8) {
          if (++steps % STEP === 0) yield
          track.summed += box.uint(entry) * box.uint(entry + 4)
        }
        break
      case 'stsz': {
        const each = box.uint(4)
        const count = Math.min(box.uint(8), bytes.length)
        track.samples += count
        track.bytes += each * count
        for (let entry = 12; each === 0 && entry + 4 <= end - start; entry += 4) {
          if (++steps % STEP === 0) yield
          track.bytes += box.uint(entry)
        }
        break
      }
      case 'trex':
        Object.assign(tracks.get(box.uint(4)) ?? {}, { usualDuration: box.uint(12), usualBytes: box.uint(16) })
        break
      case 'tfhd': {
        track = tracks.get(box.uint(4)) ?? new Track()
        const flags = box.uint(0)
        let field = 8 + (flags & 1 ? 8 : 0) + (flags & 2 ? 4 : 0)
        fragment = { duration: track.usualDuration, bytes: track.usualBytes }
        if (flags & 8) fragment.duration = box.uint(field)
        if (flags & 8) field += 4
        if (flags & 16) fragment.bytes = box.uint(field)
        break
      }
      case 'trun': {
        const flags = box.uint(0)
        const fields = [flags & 0x100, flags & 0x200, flags & 0x400, flags & 0x800]
        const width = 4 * fields.filter(Boolean).length
        let row = 8 + (flags & 1 ? 4 : 0) + (flags & 4 ? 4 : 0)
        const most = width > 0 ? Math.max(0, Math.floor((end - start - row) / width)) : bytes.length
        const count = Math.min(box.uint(4), most)
        track.samples += count
        if (!(flags & 0x300)) {
          track.summed += count * fragment.duration
          track.bytes += count * fragment.bytes
          break
        }
        for (let sample = 0; sample < count; sample++, row += width) {
          if (++steps % STEP === 0) yield
          track.summed += flags & 0x100 ? box.uint(row) : fragment.duration
          track.bytes += flags & 0x200 ? box.uint(row + (flags & 0x100 ? 4 : 0)) : fragment.bytes
        }
        break
      }
    }
  }
  let longest = 0
  for (const each of tracks.values()) if (each.isAudio) longest = Math.max(longest, secondsOf(each, bytes, movie))
  return longest
}

/** Each sample has at least a byte, and one second of AAC has 7 samples or more. */
function secondsOf(track: Track, { length }: Buffer, movie: number): number {
  const { aacRate, timescale, stated, summed, codec } = track
  const samples = Math.min(track.samples, length)
  if (aacRate > 0 && samples > 0) return refine((samples * AAC_SAMPLES) / aacRate, movie)
  const claimed = timescale > 0 ? Math.max(stated, summed) / timescale : 0
  const held = track.bytes > 0 ? Math.min(track.bytes, length) : length
  return bound(claimed, held, LOSSLESS.test(codec) ? 'lossless' : 'lossy')
}

function toCodec(bytes: Buffer, at: number, end: number): Pick<Track, 'codec' | 'aacRate'> {
  const codec = bytes.toString('latin1', at + 4, at + 8)
  const esds = codec === 'mp4a' ? bytes.subarray(at, end).indexOf('esds') : -1
  return { codec, aacRate: esds === -1 ? 0 : toAacRate(bytes, at + esds + 8, end) }
}

/** Reads an elementary stream descriptor (ISO 14496-1, 7.2.6.5), with the decoder's descriptor and settings. */
function toAacRate(bytes: Buffer, from: number, end: number): number {
  let at = from
  /** Enters a descriptor, whose fields follow a length of one to four bytes. */
  const enter = (tag: number, skipped: number) => {
    const isThere = bytes[at] === tag && at < end
    at++
    while (((bytes[at] ?? 0) & 0x80) !== 0 && at < end) at++
    at += 1 + skipped
    return isThere
  }
  if (!enter(3, 3) || !enter(4, 0) || bytes[at] !== 0x40) return 0
  at += 13
  return enter(5, 0) ? aacRateOf(bytes, at) : 0
}

/** ISO 14496-3, 1.6.2.1: the sample rate of the core, which has 1,024 samples per frame. */
export function aacRateOf(bytes: Buffer, at: number): number {
  if (at + 5 > bytes.length) return 0
  const index = (bytes.readUInt16BE(at) >> 7) & 15
  return index === 15 ? (bytes.readUIntBE(at + 1, 4) >> 7) & 0xffffff : (AAC_RATES[index] ?? 0)
}

/** Reads 0 beyond the end. */
class Box {
  constructor(
    readonly bytes: Buffer,
    readonly start: number,
    readonly end: number,
  ) {}

  /** True if times have 64 bits. */
  get isWide(): boolean {
    return this.bytes[this.start] === 1
  }

  uint(offset: number): number {
    const at = this.start + offset
    return at + 4 <= this.end ? this.bytes.readUInt32BE(at) : 0
  }

  long(offset: number): number {
    return this.uint(offset) * 2 ** 32 + this.uint(offset + 4)
  }

  text(offset: number): string {
    return this.bytes.toString('latin1', this.start + offset, Math.min(this.start + offset + 4, this.end))
  }
}
