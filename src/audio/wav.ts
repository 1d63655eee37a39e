/** WAV (RIFF, RF64): counts all bytes after the start of the data chunk, because its stated size may be wrong. */
import { mostSeconds, type Scan, STEP } from './duration.ts'

const [PCM, FLOAT, A_LAW, MU_LAW, EXTENSIBLE] = [1, 3, 6, 7, 0xfffe]
/** Microsoft's and IMA's ADPCM, with four bits per sample. */
const ADPCM = [2, 0x11]

/** Limit for chunks after the data, such as names and images. If there are more bytes, they count as audio. */
const MAX_TRAILER_BYTES = 64 * 1024

export function* scanWav(bytes: Buffer): Scan {
  let bytesPerSecond = 0
  let steps = 0
  for (let at = 12; at + 8 <= bytes.length; ) {
    if (++steps % STEP === 0) yield
    const id = bytes.toString('latin1', at, at + 4)
    const size = bytes.readUInt32LE(at + 4)
    const start = at + 8
    if (id === 'fmt ' && size >= 16 && start + 16 <= bytes.length) bytesPerSecond = toBytesPerSecond(bytes, start)
    if (id === 'data') {
      if (bytesPerSecond === 0) return null
      const most = bytes.length - start
      const length = most - size <= MAX_TRAILER_BYTES && size < most && size > 0 ? size : most
      return Math.min(length / bytesPerSecond, mostSeconds(bytes.length))
    }
    at = start + size + (size % 2)
  }
  return null
}

/** Calculated, because decoders ignore the stated byte rate. 0 if unknown. */
function toBytesPerSecond(bytes: Buffer, at: number): number {
  const stated = bytes.readUInt16LE(at)
  const format = stated === EXTENSIBLE && at + 26 <= bytes.length ? bytes.readUInt16LE(at + 24) : stated
  const samples = bytes.readUInt16LE(at + 2) * bytes.readUInt32LE(at + 4)
  const bits = bytes.readUInt16LE(at + 14)
  if (format === PCM || format === FLOAT) return samples * Math.ceil(bits / 8)
  if (format === A_LAW || format === MU_LAW) return samples
  return ADPCM.includes(format) ? samples / 2 : 0
}
