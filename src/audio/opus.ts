/** Milliseconds of a packet's frames (RFC 6716, section 3.1), at most 120; 0 if it is empty. */
export function opusMs(bytes: Buffer, at: number, end: number): number {
  if (at >= end) return 0
  const toc = bytes[at] ?? 0
  const config = toc >> 3
  const code = toc & 3
  const frames = code === 0 ? 1 : code < 3 ? 2 : at + 1 < end ? (bytes[at + 1] ?? 0) & 63 : 0
  const ms = config < 12 ? SILK[config & 3] : config < 16 ? HYBRID[config & 1] : CELT[config & 3]
  return Math.min(120, frames * (ms ?? 0))
}

const SILK = [10, 20, 40, 60]
const HYBRID = [10, 20]
const CELT = [2.5, 5, 10, 20]
