/** Ogg (RFC 3533) with Opus, Vorbis, or FLAC: sums the packets. The position in the pages only refines the sum. */
import { refine, type Scan, STEP } from './duration.ts'
import { Frame, readFlac } from './frames.ts'
import { opusMs } from './opus.ts'

const PAGE = Buffer.from('OggS')
const MAX_STREAMS = 64
/** Limit for a Vorbis setup header, which usually has 4 KB. */
const MAX_SETUP_BYTES = 1024 * 1024

interface Stream {
  codec: 'opus' | 'vorbis' | 'flac' | null
  rate: number
  /** Samples to drop at the beginning. */
  skip: number
  /** Samples; 0 if not stated. */
  position: number
  packets: number
  seconds: number
  /** The last packet continues in the next page. */
  isOpen: boolean
  setup: Buffer[]
  setupBytes: number
  vorbis: Vorbis | null
}

interface Vorbis {
  short: number
  long: number
  /** True for each mode with long blocks, by mode number. */
  modes: readonly boolean[]
  before: number
}

export function* scanOgg(bytes: Buffer): Scan {
  const streams = new Map<number, Stream>()
  const frame = new Frame()
  let steps = 0
  for (let at = bytes.indexOf(PAGE); at !== -1 && at + 27 <= bytes.length; at = bytes.indexOf(PAGE, at)) {
    const serial = bytes.readUInt32LE(at + 14)
    const segments = bytes[at + 26] ?? 0
    const begins = ((bytes[at + 5] ?? 0) & 2) !== 0
    let from = at + 27 + segments
    let stream = streams.get(serial)
    if (begins || stream === undefined) {
      if (streams.size === MAX_STREAMS) return null
      const earlier = stream?.seconds ?? 0
      stream = toStream(bytes, from)
      stream.seconds = earlier
      streams.set(serial, stream)
    }
    const position = bytes.readUInt32LE(at + 6) + bytes.readUInt32LE(at + 10) * 2 ** 32
    if (position < 2 ** 53) stream.position = position
    for (let table = at + 27, start = from; table < at + 27 + segments && table < bytes.length; table++) {
      if (++steps % STEP === 0) yield
      const lacing = bytes[table] ?? 0
      from += lacing
      if (lacing === 255 && table < at + 26 + segments) continue
      const end = Math.min(from, bytes.length)
      if (!stream.isOpen) stream.packets++
      takePacket(stream, bytes, start, end, frame)
      stream.isOpen = lacing === 255
      start = from
    }
    at = Math.max(from, at + 27)
  }
  let seconds = 0
  for (const each of streams.values()) seconds += refine(each.seconds, (each.position - each.skip) / (each.rate || 1))
  return seconds
}

function toStream(bytes: Buffer, at: number): Stream {
  const head = bytes.toString('latin1', at, at + 8)
  const stream: Stream = {
    ...{ codec: null, rate: 0, skip: 0, position: 0, packets: 0, seconds: 0, isOpen: false },
    ...{ setup: [], setupBytes: 0, vorbis: null },
  }
  if (head === 'OpusHead' && at + 12 <= bytes.length)
    return Object.assign(stream, { codec: 'opus', rate: 48_000, skip: bytes.readUInt16LE(at + 10) })
  if (head.startsWith('\x01vorbis') && at + 29 <= bytes.length) {
    const sizes = bytes[at + 28] ?? 0
    const vorbis = { short: 2 ** (sizes & 15), long: 2 ** (sizes >> 4), modes: [], before: 0 }
    return Object.assign(stream, { codec: 'vorbis', rate: bytes.readUInt32LE(at + 12), vorbis })
  }
  if (head.startsWith('\x7fFLAC') && at + 30 <= bytes.length)
    return Object.assign(stream, { codec: 'flac', rate: bytes.readUIntBE(at + 27, 3) >> 4 })
  return stream
}

/** Takes a packet, or the part of a packet in this page. */
function takePacket(stream: Stream, bytes: Buffer, start: number, end: number, frame: Frame): void {
  const { codec, packets, isOpen, vorbis } = stream
  if (codec === 'vorbis' && packets === 3 && stream.setupBytes < MAX_SETUP_BYTES) {
    stream.setup.push(bytes.subarray(start, end))
    stream.setupBytes += end - start
  }
  if (isOpen || start >= end) return
  if (codec === 'opus' && packets > 2) stream.seconds += opusMs(bytes, start, end) / 1_000
  if (codec === 'flac' && readFlac(bytes, start, frame, stream.rate)) stream.seconds += frame.seconds
  if (codec !== 'vorbis' || packets < 4 || vorbis === null || stream.rate === 0) return
  if (packets === 4) vorbis.modes = toModes(Buffer.concat(stream.setup))
  const { short, long, modes, before } = vorbis
  const bits = Math.ceil(Math.log2(modes.length))
  const number = ((bytes[start] ?? 0) >> 1) & (2 ** bits - 1)
  const size = (modes[number] ?? true) ? long : short
  if (before > 0) stream.seconds += (before + size) / 4 / stream.rate
  vorbis.before = size
}

/**
 * Reads the modes backwards from the end of the setup header (Vorbis I specification, section 4.2.4). A mode is a flag,
 * two 16-bit fields that are 0, and a number below 64. The 6-bit mode count is before the first mode.
 */
function toModes(setup: Buffer): boolean[] {
  let at = setup.length * 8
  /** Reads bits backwards, the last one first. */
  const bits = (count: number, from: number) => {
    let value = 0
    for (let bit = from - 1; bit >= from - count; bit--) value = value * 2 + (((setup[bit >> 3] ?? 0) >> (bit & 7)) & 1)
    return value
  }
  // The last set bit is the framing bit, which isn't part of a mode.
  while (at > setup.length * 8 - 8 && bits(1, at) === 0) at--
  at--
  const flags: boolean[] = []
  let found: boolean[] = []
  while (at >= 47 && flags.length < 64 && bits(8, at) < 64 && bits(32, at - 8) === 0) {
    flags.unshift(bits(1, at - 40) === 1)
    at -= 41
    if (bits(6, at) + 1 === flags.length) found = [...flags]
  }
  return found.length > 0 ? found : [true]
}
