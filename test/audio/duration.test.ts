/** Files of one second made with ffmpeg, and of two seconds recorded by Chromium's MediaRecorder in pieces. */
import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { measureAudio } from '../../src/audio/duration.ts'
import type { AudioLength } from '../../src/domain/transcriptions.ts'

const load = (name: string) => readFileSync(new URL(`../fixtures/audio/${name}`, import.meta.url))
const atOnce = async <T>(work: () => T) => work()
const measure = (bytes: Uint8Array): Promise<AudioLength> => measureAudio(Buffer.from(bytes), atOnce)
const unknown = (bytes: Uint8Array) => ({ ms: Math.ceil((bytes.length / 750) * 1_000), from: 'size' as const })

const chunk = (id: string, content: Uint8Array, size = content.length) => {
  const head = Buffer.alloc(8)
  head.write(id, 'latin1')
  head.writeUInt32LE(size, 4)
  return Buffer.concat([head, content])
}
function toWav(ms: number, { format = 1, rate = 16_000, bits = 16, size = -1, after = Buffer.alloc(0) } = {}): Buffer {
  const fmt = Buffer.alloc(16)
  fmt.writeUInt16LE(format, 0)
  fmt.writeUInt16LE(1, 2)
  fmt.writeUInt32LE(rate, 4)
  // A byte rate that is too high.
  fmt.writeUInt32LE(0xffffffff, 8)
  fmt.writeUInt16LE(bits, 14)
  const data = Buffer.alloc((ms * rate * bits) / 8_000)
  const chunks = [chunk('fmt ', fmt), chunk('data', data, size < 0 ? data.length : size), after]
  return Buffer.concat([Buffer.from('RIFF\0\0\0\0WAVE'), ...chunks])
}

/** Replaces bytes from the position of `at`. */
function forge(bytes: Buffer, at: string | number, offset: number, ...values: number[]): Buffer {
  const found = typeof at === 'number' ? at : bytes.indexOf(at, 0, 'latin1')
  expect(found).toBeGreaterThanOrEqual(0)
  const forged = Buffer.from(bytes)
  forged.set(values, found + offset)
  return forged
}

describe('the duration of audio', () => {
  test('is measured in each format, also as recorded by a browser', async () => {
    const names = {
      ...{ 'lame.mp3': 1_000, 'adts.aac': 1_088, 'opus.ogg': 1_000, 'vorbis.ogg': 1_000, 'flac.ogg': 1_000 },
      ...{ 'flac.flac': 1_000, 'index-last.m4a': 1_000, 'fragments.mp4': 1_088, 'opus.webm': 1_020 },
      'chromium.webm': 1_980,
    }
    for (const [name, ms] of Object.entries(names))
      expect({ name, ...(await measure(load(name))) }).toEqual({ name, ms, from: 'contents' })
    expect(await measure(toWav(3_500))).toEqual({ ms: 3_500, from: 'contents' })
    expect(await measure(toWav(250, { format: 7, rate: 8_000, bits: 8 }))).toEqual({ ms: 250, from: 'contents' })
    expect(await measure(toWav(500, { after: chunk('LIST', Buffer.alloc(300)) }))).toMatchObject({ ms: 500 })
  })

  test('is the maximum for the number of bytes if the format is unknown', async () => {
    for (const bytes of [Buffer.alloc(0), Buffer.from('text'), Buffer.alloc(7_500), toWav(100, { format: 0x161 })])
      expect(await measure(bytes)).toEqual(unknown(bytes))
  })

  test("isn't lowered by a header", async () => {
    const [mp3, flac, opus, m4a, webm] = ['lame.mp3', 'flac.flac', 'opus.ogg', 'index-last.m4a', 'opus.webm'].map(load)
    if (!mp3 || !flac || !opus || !m4a || !webm) throw new Error('missing')
    // One frame, with the maximum number of samples to drop.
    const xing = forge(mp3, 'Info', 8, 0, 0, 0, 1)
    expect((await measure(xing)).ms).toBe(1_000)
    expect((await measure(forge(xing, 'Lavc', 21, 255, 255, 255))).ms).toBeGreaterThan(500)
    expect((await measure(toWav(5_000, { size: 32 }))).ms).toBe(5_000)
    expect((await measure(forge(flac, 'fLaC', 22, 0, 0, 0, 1))).ms).toBe(1_000)
    const last = opus.lastIndexOf('OggS')
    expect((await measure(forge(opus, last, 6, 1, 0, 0, 0, 0, 0, 0, 0))).ms).toBe(1_020)
    const short = forge(forge(m4a, 'mvhd', 16, 0, 0, 0, 1), 'mdhd', 16, 0, 0, 0, 1)
    expect((await measure(forge(short, 'stts', 12, 0, 0, 0, 1))).ms).toBe(1_088)
    expect((await measure(forge(webm, 'D\x89', 3, 0, 0, 0, 0))).ms).toBe(1_020)
  })

  test("isn't raised by a header either", async () => {
    const most = [255, 255, 255, 255]
    expect((await measure(forge(load('index-last.m4a'), 'mvhd', 16, ...most))).ms).toBe(1_088)
    expect((await measure(forge(load('lame.mp3'), 'Info', 8, ...most))).ms).toBe(1_000)
    expect((await measure(forge(load('flac.flac'), 'fLaC', 22, ...most))).ms).toBe(1_000)
    expect((await measure(toWav(1_000, { size: 0xffffffff }))).ms).toBe(1_000)
    const slow = toWav(1_000, { rate: 1, bits: 8_000 * 8 })
    expect((await measure(slow)).ms).toBeLessThanOrEqual(unknown(slow).ms)
    const opus = load('opus.ogg')
    const position = opus.lastIndexOf('OggS')
    expect((await measure(forge(opus, position, 6, ...most, 255, 255, 15, 0))).ms).toBe(1_020)
  })

  test('is found in finite time for damaged and hostile files', async () => {
    const random = Buffer.from(Array.from({ length: 4_096 }, (_, at) => (Math.imul(at + 1, 0x9e3779b1) >>> 21) & 0xff))
    for (const name of ['lame.mp3', 'adts.aac', 'opus.ogg', 'vorbis.ogg', 'flac.flac', 'fragments.mp4', 'opus.webm']) {
      const bytes = load(name)
      for (let cut = 1; cut < bytes.length - 40; cut += 97) {
        expect((await measure(bytes.subarray(0, cut))).ms).toBeGreaterThan(0)
        expect((await measure(forge(bytes, cut, 0, ...random.subarray(cut % 999, (cut % 999) + 40)))).ms).toBeLessThan(
          // The longest duration that frames of a few bytes can have.
          1e9,
        )
      }
    }
    const repeats = ['\0\0\0\x08free', '\0\0\0\0moov', 'OggS', '\x1f\x43\xb6\x75\xff', '\xa3\x80', '\xff\xf8\xc9\xa8']
    const starts = [
      '\0\0\0\x08ftyp',
      'OggS',
      '\x1a\x45\xdf\xa3\x80',
      'fLaC\x80\0\0\0',
      'RIFF\0\0\0\0WAVE',
      'ID3\x04\0\0\x7f\x7f\x7f\x7f',
    ]
    for (const start of starts)
      for (const repeat of repeats) {
        const bytes = Buffer.from(start + repeat.repeat(20_000), 'latin1')
        expect(await measure(bytes)).toEqual(unknown(bytes))
      }
  })

  test('of a large file is measured in slices, in turns of the owner, until the client disconnects', async () => {
    const large = Buffer.alloc(25 * 1024 * 1024, 0xff)
    let turns = 0
    const counted = async <T>(work: () => T) => {
      turns++
      return work()
    }
    expect(await measureAudio(large, counted)).toEqual(unknown(large))
    expect(turns).toBeGreaterThan(3)
    const isGone = { aborted: true }
    turns = 0
    await measureAudio(large, counted, isGone)
    expect(turns).toBe(0)
  })
})
