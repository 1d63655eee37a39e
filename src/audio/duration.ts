/**
 * Measures the duration of audio from the contents that a decoder would play: frames, packets, samples. A duration in a
 * header refines the result by less than half a second, so a forged header neither lowers nor raises a charge.
 */
import type { AudioLength } from '../domain/transcriptions.ts'
import { type Codec, scanFlac, scanFrames } from './frames.ts'
import { scanMp4 } from './mp4.ts'
import { scanOgg } from './ogg.ts'
import { scanWav } from './wav.ts'
import { scanWebm } from './webm.ts'

/** Yields after each step, so that other keys get their turns. Returns seconds, or null if unknown. */
export type Scan = Generator<void, number | null>

/** Items (frames, boxes, bytes of junk) per step, which takes less than a millisecond. */
export const STEP = 4_096

/** 6 kbit/s, the lowest bit rate for speech (Opus). */
const LEAST_BYTES_PER_SECOND = 750
/** 512 kbit/s, more than lossy encoders produce. For lossless ones: two channels at 96 kHz and 16 bits. */
const MOST_BYTES_PER_SECOND = { lossy: 64_000, lossless: 384_000 }

export const mostSeconds = (bytes: number) => bytes / LEAST_BYTES_PER_SECOND

/** Maximum encoder delay and padding. */
const TRIM_SECONDS = 0.3

/** @param counted seconds. @param claimed seconds in a header; 0 if missing. */
export const refine = (counted: number, claimed: number) =>
  Math.abs(claimed - counted) <= TRIM_SECONDS && claimed > 0 ? claimed : counted

/** For codecs whose packets aren't parsed: the claimed duration, limited to what this number of bytes can hold. */
export function bound(claimed: number, bytes: number, kind: Codec): number {
  const least = bytes / MOST_BYTES_PER_SECOND[kind]
  return claimed > 0 ? Math.min(Math.max(claimed, least), mostSeconds(bytes)) : mostSeconds(bytes)
}

function scanOf(bytes: Buffer): Scan {
  const magic = bytes.toString('latin1', 0, 12)
  if (/^(?:RIFF|RF64|BW64)....WAVE/s.test(magic)) return scanWav(bytes)
  if (magic.startsWith('OggS')) return scanOgg(bytes)
  if (magic.startsWith('fLaC')) return scanFlac(bytes, 0)
  if (magic.startsWith('\x1a\x45\xdf\xa3')) return scanWebm(bytes)
  if (/^....(?:ftyp|moov|mdat|wide|free|skip|styp|moof)/s.test(magic)) return scanMp4(bytes)
  return scanFrames(bytes)
}

/** Time between turns of the event loop. */
const SLICE_MS = 5

/** Takes linear time and no memory. @param turn runs work when it is the owner's turn. Short scans don't use it. */
export async function measureAudio(
  bytes: Buffer,
  turn: <T>(work: () => T) => Promise<T>,
  signal?: Pick<AbortSignal, 'aborted'>,
): Promise<AudioLength> {
  const scan = scanOf(bytes)
  const advance = () => {
    const endMs = performance.now() + SLICE_MS
    let step = scan.next()
    while (!step.done && performance.now() < endMs) step = scan.next()
    return step
  }
  let step = advance()
  while (!step.done && !signal?.aborted) step = await turn(advance)
  const seconds = step.done ? step.value : null
  return seconds !== null && seconds > 0 && Number.isFinite(seconds)
    ? { ms: Math.ceil(seconds * 1_000 - 1e-6), from: 'contents' }
    : { ms: Math.ceil(mostSeconds(bytes.length) * 1_000), from: 'size' }
}
